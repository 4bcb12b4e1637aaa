package guest_test

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// scripted is a guest of one command: events go out on its control stream, output on its
// stdout.
func scripted(t *testing.T, events func(st *wire.Stream, id string), output func(st *wire.Stream)) *guest.Session {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		if req.Op == wire.OpExec {
			events(st, req.Exec.ID)
			return
		}
		output(st)
	})
	return f.open(guest.OpenOptions{})
}

func hold(st *wire.Stream) { _, _ = io.Copy(io.Discard, st) }

var left = wire.Event{Ended: &wire.Ended{}}

// A command that, by its guest's word, ended in time is no timeout, however long the caller
// takes for its output: its result is what the guest says in the end.
func TestEndedInTimeIsNoTimeout(t *testing.T) {
	taken := make(chan struct{})
	s := scripted(t, func(st *wire.Stream, id string) {
		_ = wire.WriteMessage(st, runs(id))
		_ = wire.WriteMessage(st, left)
		<-taken // the guest reports an exit after its output
		say(st, ends(wire.Exit{Code: 3, StdoutBytes: 6}))
	}, func(st *wire.Stream) {
		_, _ = wire.WriteData(st, []byte("abc"), 0)
		_, _ = wire.WriteData(st, []byte("def"), 0)
		_ = wire.WriteEnd(st)
		hold(st)
	})
	var out bytes.Buffer
	p, err := s.Start(context.Background(), &spec.Command{Args: []string{"x"}, Timeout: 100 * time.Millisecond, Grace: -1}, driver.Stdio{Stdout: writerFunc(func(b []byte) (int, error) {
		if out.Len() == 0 {
			time.Sleep(3 * time.Second) // past the host's own deadline, at 2.1 s
			close(taken)
		}
		return out.Write(b)
	})})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.Wait(context.Background()); err != nil || e.TimedOut || e.Code != 3 || out.String() != "abcdef" {
		t.Errorf("%+v, %v, %q; want exit status 3", e, err, &out)
	}
}

// A guest that lies about the end of a command gains nothing: the host waits for it no
// longer than it does after an exit. One that says that the deadline ended it has said nothing
// new, and the host's clock decides.
func TestLiesAboutTheLeadersEnd(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []wire.Event
		output func(st *wire.Stream)
		code   spec.Code
	}{
		{"and no more", []wire.Event{left}, hold, spec.CodeInternal},
		{"and not how", []wire.Event{left}, func(st *wire.Stream) { _ = wire.WriteEnd(st); hold(st) }, spec.CodeUnknownOutcome},
		{"while it writes for ever", []wire.Event{left}, flood, spec.CodeInternal},
		{"twice", []wire.Event{left, left}, hold, spec.CodeInternal},
		{"too late", []wire.Event{{Ended: &wire.Ended{TimedOut: true}}}, hold, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := scripted(t, func(st *wire.Stream, id string) {
				say(st, append([]wire.Event{runs(id)}, tt.events...)...)
			}, tt.output)
			quickly(t, 30*time.Second, "the command", func() {
				p, err := s.Start(context.Background(), &spec.Command{Args: []string{"x"}, Timeout: 100 * time.Millisecond, Grace: -1}, driver.Stdio{Stdout: io.Discard})
				var e spec.Exit
				if err == nil {
					e, err = p.Wait(context.Background())
				}
				wantCode(t, err, tt.code)
				if err == nil && (!e.TimedOut || e.Code != -1) {
					t.Errorf("%+v; want a timeout", e)
				}
			})
		})
	}
}

// Output that comes after the exit, because of an earlier connection, may take as long as a
// slow link needs and a slow writer takes. A guest that holds it back is found out.
func TestOutputAfterTheExit(t *testing.T) {
	const pieces = 4
	for _, tt := range []struct {
		name  string
		pause time.Duration // before each piece
		write time.Duration // for each piece
		code  spec.Code
	}{
		{"a slow link", 1700 * time.Millisecond, 0, ""},
		{"a slow writer", 0, 1700 * time.Millisecond, ""},
		{"held back", time.Minute, 0, spec.CodeInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			s := scripted(t, func(st *wire.Stream, id string) {
				say(st, runs(id), ends(wire.Exit{Code: 3, StdoutBytes: pieces}))
			}, func(st *wire.Stream) {
				for range pieces {
					select {
					case <-time.After(tt.pause):
					case <-over:
					}
					if _, err := wire.WriteData(st, []byte("x"), 0); err != nil {
						return
					}
				}
				_ = wire.WriteEnd(st)
				hold(st)
			})
			defer close(over)
			var n counter
			p, err := s.Start(context.Background(), argv("x"), driver.Stdio{Stdout: writerFunc(func(b []byte) (int, error) {
				time.Sleep(tt.write)
				return n.Write(b)
			})})
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.Wait(context.Background())
			wantCode(t, err, tt.code)
			if err == nil && (e.Code != 3 || n != pieces) {
				t.Errorf("%+v and %d bytes", e, n)
			}
		})
	}
}

// Output that is late because a machine or a disk stood still is asked for once more, on
// another connection: an honest guest's command is not lost by it.
func TestOutputAfterAStandstill(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		switch req.Op {
		case wire.OpExec:
			say(st, runs(req.Exec.ID), ends(wire.Exit{Code: 3, StdoutBytes: 6}))
		case wire.OpAttach:
			say(st, runs(req.Attach.ID), ends(wire.Exit{Code: 3, StdoutBytes: 6}))
		case wire.OpData:
			data := []byte("abcdef")[req.Data.Offset:]
			if asked.Add(1) == 1 {
				_, _ = wire.WriteData(st, data[:2], 0)
				break
			}
			_, _ = wire.WriteData(st, data, 0)
			_ = wire.WriteEnd(st)
		}
		hold(st)
	})
	s := f.open(guest.OpenOptions{Redial: f.dial})
	var out bytes.Buffer
	p, err := s.Start(context.Background(), argv("x"), driver.Stdio{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	quickly(t, 25*time.Second, "the command", func() {
		if e, err := p.Wait(context.Background()); err != nil || e.Code != 3 || out.String() != "abcdef" {
			t.Errorf("%+v, %v, %q", e, err, &out)
		}
	})
}
