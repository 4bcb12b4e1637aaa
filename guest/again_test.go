package guest_test

import (
	"context"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// A command never runs twice: a request that was not confirmed is not sent again to a guest
// that may have forgotten it, nor to one that has never heard of it. It is an unknown
// outcome, and no success.
func TestRequestIsNotSentToWhoMayHaveForgotten(t *testing.T) {
	for _, tt := range []struct {
		name   string
		resume time.Duration
		hold   time.Duration // between the request and the loss
		each   func(c *fakeConn, g *wire.GuestHello)
	}{
		{"the loss is noticed late", 200 * time.Millisecond, 300 * time.Millisecond, nil},
		{"the guest remembers nothing", 0, 0, nil},
		{"another guest of the place", time.Minute, 0, func(c *fakeConn, g *wire.GuestHello) {
			if c.n > 1 {
				g.Incarnation = "second"
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
				switch {
				case req.Op == wire.OpExec && c.n == 1:
					time.Sleep(tt.hold)
					c.cut()
				case req.Op == wire.OpExec:
					say(st, runs(req.Exec.ID), ends(wire.Exit{}))
				default:
					reply(st, wire.Reply{})
				}
			})
			f.hello.ResumeMS, f.hello.Incarnation, f.each = tt.resume.Milliseconds(), "first", tt.each
			s := f.open(guest.OpenOptions{Redial: f.dial})
			p, err := s.Start(context.Background(), argv("x"), driver.Stdio{})
			if err == nil {
				_, err = p.Wait(context.Background())
			}
			wantCode(t, err, spec.CodeUnknownOutcome)
			if n := f.count(wire.OpExec); n != 1 {
				t.Errorf("asked to run it %d times", n)
			}
		})
	}
}
