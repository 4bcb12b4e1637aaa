//go:build linux

package docker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// dialLimit is the longest that a dial into a place may take that does its worst.
const dialLimit = 45 * time.Second

// A place whose commands flood the guest's socket, or hold every process that it may have,
// answers whoever dials it in bounded time, and honestly; what is there goes on, and Reap
// ends it.
func TestDialIntoAHostilePlace(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	s := busybox(t)
	s.Limits.PIDs = 128
	d := newDriver(t, o)
	sb := provision(t, d, s)
	dial := func() error {
		t.Helper()
		begin := time.Now()
		session, err := d.Attach(ctx, s.Key, driver.AttachOptions{})
		if took := time.Since(begin); took > dialLimit {
			t.Errorf("a dial took %v", took)
		}
		if err == nil {
			err = session.Close(ctx)
		}
		return err
	}
	hostile := func(script string) *berth.Cmd {
		t.Helper()
		c := sb.CommandContext(ctx, "sh", "-c", script)
		ready := make(chan struct{}, 1)
		c.Stdout = writerFunc(func(p []byte) (int, error) {
			select {
			case ready <- struct{}{}:
			default:
			}
			return len(p), nil
		})
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		<-ready
		return c
	}
	name := sh(t, sb, `tr '\0' '\n' </proc/1/cmdline | grep -A1 -e --abstract | tail -1`)
	flood := hostile(`echo ready; for i in 1 2 3 4; do while :; do /.berth/berth-guest relay --abstract ` + name + ` --peer-pid 1 </dev/null >/dev/null 2>&1; done & done; wait`)
	for range 2 {
		if err := dial(); err != nil {
			t.Errorf("among a flood of the guest's socket: %v", err)
		}
	}
	if err := flood.Kill(ctx); err != nil {
		t.Errorf("kill the flood: %v", err)
	}
	_ = flood.Wait()

	held := hostile(`(while :; do sleep 1000 & done) 2>/dev/null; echo ready; exec sleep 1000`)
	err := dial()
	if err != nil && !errors.Is(err, spec.ErrUnavailable) {
		t.Errorf("every process is held: %v; want that it works, or unavailable", err)
	}
	t.Logf("a dial: %v", err)
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("%q: want one line", err)
	}
	if _, err := sb.Status(ctx); err != nil {
		t.Errorf("the session that there was: %v", err)
	}
	begin := time.Now()
	if err := d.Reap(ctx, s.Key, driver.ReapOptions{}); err != nil {
		t.Errorf("reap: %v", err)
	}
	if took := time.Since(begin); took > dialLimit {
		t.Errorf("reap took %v", took)
	}
	if err := held.Wait(); err == nil {
		t.Error("a command of a place that is gone has ended well")
	}
}
