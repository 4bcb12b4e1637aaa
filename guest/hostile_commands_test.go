package guest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// say sends events on a control stream, and hears the host out.
func say(st *wire.Stream, events ...wire.Event) {
	for _, ev := range events {
		if wire.WriteMessage(st, ev) != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, st)
}

func runs(id string) wire.Event   { return wire.Event{Started: &wire.Started{ID: id, PID: 7}} }
func ends(e wire.Exit) wire.Event { return wire.Event{Exit: &e} }
func acks(seq uint64) wire.Event  { return wire.Event{Ack: seq} }

// flood sends output without an end.
func flood(st *wire.Stream) {
	for buf := make([]byte, 64<<10); ; {
		if _, err := wire.WriteData(st, buf, 0); err != nil {
			return
		}
	}
}

// A guest that lies about a command is CodeInternal, at once and not when a deadline is
// over, and never an exit.
func TestLiesAboutACommand(t *testing.T) {
	survivors := make([]spec.Survivor, 65)
	made := make([]wire.Bytes, 65)
	for i := range made {
		made[i] = wire.Bytes("/x")
	}
	for _, tt := range []struct {
		name   string
		events func(id string) []wire.Event
		output func(st *wire.Stream) // on stdout; nil: none, and its end
	}{
		{name: "an exit before the start", events: func(string) []wire.Event { return []wire.Event{ends(wire.Exit{})} }},
		{name: "a second start", events: func(id string) []wire.Event { return []wire.Event{runs(id), runs(id)} }},
		{name: "another's start", events: func(string) []wire.Event { return []wire.Event{runs("0123456789abcdef0123456789abcdef")} }},
		{name: "an acknowledgement from the future", events: func(id string) []wire.Event { return []wire.Event{runs(id), acks(1)} }},
		{name: "the last acknowledgement", events: func(id string) []wire.Event { return []wire.Event{runs(id), acks(math.MaxUint64)} }},
		{name: "a signal without its status", events: func(id string) []wire.Event { return []wire.Event{runs(id), ends(wire.Exit{Signal: 9})} }},
		{name: "a status of -1", events: func(id string) []wire.Event { return []wire.Event{runs(id), ends(wire.Exit{Code: -1})} }},
		{name: "too many survivors", events: func(id string) []wire.Event { return []wire.Event{runs(id), ends(wire.Exit{Survivors: survivors})} }},
		{name: "too many paths", events: func(id string) []wire.Event { return []wire.Event{runs(id), ends(wire.Exit{HostExecutable: made})} }},
		{name: "a path that is relative", events: func(id string) []wire.Event {
			return []wire.Event{runs(id), ends(wire.Exit{HostExecutable: []wire.Bytes{wire.Bytes("../x")}})}
		}},
		{name: "less than no memory", events: func(id string) []wire.Event {
			return []wire.Event{runs(id), ends(wire.Exit{OOM: &spec.OOM{PeakBytes: -1}})}
		}},
		{name: "less than no time", events: func(id string) []wire.Event { return []wire.Event{runs(id), ends(wire.Exit{DurationNS: -1})} }},
		{name: "a log of no name", events: func(id string) []wire.Event {
			return []wire.Event{runs(id), ends(wire.Exit{LogID: "../../etc/passwd"})}
		}},
		{name: "more output than there can be", events: func(id string) []wire.Event {
			return []wire.Event{runs(id), ends(wire.Exit{StdoutBytes: math.MaxInt64})}
		}, output: func(st *wire.Stream) { _, _ = io.Copy(io.Discard, st) }},
		{name: "output beyond the exit's", events: func(id string) []wire.Event {
			return []wire.Event{runs(id), ends(wire.Exit{StdoutBytes: 1})}
		}, output: func(st *wire.Stream) { _, _ = wire.WriteData(st, []byte("ab"), 0); _, _ = io.Copy(io.Discard, st) }},
		{name: "output without an end after the exit", events: func(id string) []wire.Event {
			return []wire.Event{runs(id), ends(wire.Exit{StdoutBytes: 1 << 20})}
		}, output: flood},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
				switch {
				case req.Op == wire.OpExec:
					say(st, tt.events(req.Exec.ID)...)
				case tt.output != nil:
					tt.output(st)
				default:
					_ = wire.WriteEnd(st)
					_, _ = io.Copy(io.Discard, st)
				}
			})
			s := f.open(guest.OpenOptions{})
			quickly(t, 3*time.Second, "the command", func() {
				p, err := s.Start(context.Background(), argv("x"), driver.Stdio{Stdout: io.Discard})
				if err == nil {
					_, err = p.Wait(context.Background())
				}
				wantCode(t, err, spec.CodeInternal)
			})
			quickly(t, 6*time.Second, "close", func() { s.Close(context.Background()) })
		})
	}
}

// Of two exits the first one counts.
func TestSecondExit(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		say(st, runs(req.Exec.ID), ends(wire.Exit{Code: 3}), ends(wire.Exit{}), ends(wire.Exit{Code: 4}))
	})
	s := f.open(guest.OpenOptions{})
	p, err := s.Start(context.Background(), argv("x"), driver.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if e, err := p.Wait(context.Background()); err != nil || e.Code != 3 {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

// The host's clock ends a command that has a timeout whatever its guest does, with the
// output so far: Timeout, Grace and 2 s after the request at the latest.
func TestTheHostsClockDecides(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for bounds of 10 s and more: the full tier has it")
	}
	half := frame(wire.FrameJSON, 400, `{"exit":{"code":0`)
	hold := func(st *wire.Stream) { _, _ = io.Copy(io.Discard, st) }
	for _, tt := range []struct {
		name    string
		control func(st *wire.Stream, id string)
		output  func(st *wire.Stream)
	}{
		{"never starts", func(st *wire.Stream, _ string) { hold(st) }, hold},
		{"starts and says no more", func(st *wire.Stream, id string) { say(st, runs(id)) }, hold},
		{"says half of the exit", func(st *wire.Stream, id string) {
			_ = wire.WriteMessage(st, runs(id))
			_, _ = st.Write(half)
			hold(st)
		}, hold},
		{"floods the output", func(st *wire.Stream, id string) { say(st, runs(id)) }, flood},
		{"sends half a piece of output", func(st *wire.Stream, id string) { say(st, runs(id)) }, func(st *wire.Stream) {
			_, _ = st.Write(frame(wire.FrameData, 1000, "half"))
			hold(st)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
				if req.Op == wire.OpExec {
					tt.control(st, req.Exec.ID)
					return
				}
				tt.output(st)
			})
			s := f.open(guest.OpenOptions{})
			var n counter
			quickly(t, 10*time.Second, "the command", func() {
				p, err := s.Start(context.Background(), &spec.Command{Args: []string{"x"}, Timeout: 100 * time.Millisecond, Grace: -1}, driver.Stdio{Stdout: &n})
				if err != nil {
					t.Error(err)
					return
				}
				e, err := p.Wait(context.Background())
				if err != nil || !e.TimedOut || e.Code != -1 || e.Kill != spec.KillUnknown {
					t.Errorf("%+v, %v", e, err)
				}
			})
			// Nobody listens to the command any more, though the session goes on.
			within(t, 10*time.Second, func() bool { return !bytes.Contains([]byte(ours()), []byte("guest.(*process)")) }, ours)
		})
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// A cancelled command is let go of within its grace and 5 s, though its guest never
// pauses; Wait answers at once.
func TestCancelAmongAFlood(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		if req.Op == wire.OpExec {
			said := started(st, req.Exec.ID)
			drain(said)
			return
		}
		flood(st)
	})
	s := f.open(guest.OpenOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	p, err := s.Start(ctx, &spec.Command{Args: []string{"x"}, Grace: -1}, driver.Stdio{Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	quickly(t, 4*time.Second, "wait", func() {
		if _, err := p.Wait(context.Background()); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
	within(t, 8*time.Second, func() bool { return !bytes.Contains([]byte(ours()), []byte("guest.(*process)")) }, ours)
}

// A guest that comes back with another story does not have it believed: the command is
// an unknown outcome, or the lie is.
func TestAnotherStoryAfterTheRedial(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events func(id string) []wire.Event
		code   spec.Code
	}{
		{"it knows no such command", func(string) []wire.Event {
			return []wire.Event{{Err: &wire.Error{Code: string(spec.CodeNotFound)}}}
		}, spec.CodeUnknownOutcome},
		{"it has another id", func(string) []wire.Event { return []wire.Event{runs("other")} }, spec.CodeInternal},
		{"it ended before it started", func(string) []wire.Event { return []wire.Event{ends(wire.Exit{StdoutBytes: 5})} }, spec.CodeInternal},
		{"it wrote less", func(id string) []wire.Event { return []wire.Event{runs(id), ends(wire.Exit{StdoutBytes: 4})} }, spec.CodeInternal},
		{"it wrote more", func(id string) []wire.Event { return []wire.Event{runs(id), ends(wire.Exit{StdoutBytes: 6})} }, spec.CodeInternal},
		{"it wrote as much", func(id string) []wire.Event { return []wire.Event{runs(id), ends(wire.Exit{Code: 3, StdoutBytes: 5})} }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			running, heard := make(chan struct{}), make(chan struct{})
			f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
				switch {
				case req.Op == wire.OpAttach:
					say(st, tt.events(req.Attach.ID)...)
				case req.Op == wire.OpExec:
					say(st, runs(req.Exec.ID))
				case c.n == 1:
					_, _ = wire.WriteData(st, []byte("hello"), 0)
					<-running
					<-heard
					c.cut()
				default:
					_ = wire.WriteEnd(st)
					_, _ = io.Copy(io.Discard, st)
				}
			})
			s := f.open(guest.OpenOptions{Redial: f.dial})
			quickly(t, 8*time.Second, "the command", func() {
				var n counter
				p, err := s.Start(context.Background(), argv("x"), driver.Stdio{Stdout: writerFunc(func(b []byte) (int, error) {
					if _, _ = n.Write(b); n == 5 {
						close(heard)
					}
					return len(b), nil
				})})
				close(running)
				if err != nil {
					t.Error(err)
					return
				}
				e, err := p.Wait(context.Background())
				wantCode(t, err, tt.code)
				if tt.code == "" && e.Code != 3 {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// A guest that lets itself be reached and breaks off at once, for ever, is given up
// after its resume window, and is not asked without a pause until then.
func TestBreaksOffForEver(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for bounds of 10 s and more: the full tier has it")
	}
	for name, ask := range map[string]func(s *guest.Session) error{
		"command": func(s *guest.Session) error {
			p, err := s.Start(context.Background(), argv("x"), driver.Stdio{Stdout: io.Discard})
			if err == nil {
				_, err = p.Wait(context.Background())
			}
			return err
		},
		"job": func(s *guest.Session) error { _, err := s.KillJob(context.Background(), "", "job-1", -1); return err },
		"events": func(s *guest.Session) error {
			return s.JobEvents(context.Background(), "", func(spec.JobEvent) error { return nil })
		},
		"log": func(s *guest.Session) error {
			l, err := s.OpenLog(context.Background(), "", "job-1", spec.LogWindow{})
			return readAll(l, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
				switch req.Op {
				case wire.OpExec:
					_ = wire.WriteMessage(st, runs(req.Exec.ID))
				case wire.OpAttach:
					_ = wire.WriteMessage(st, runs(req.Attach.ID))
				case wire.OpJobLog:
					_ = wire.WriteMessage(st, wire.Reply{Log: &wire.LogInfo{FirstLine: 1, Lines: 1, Bytes: 10}})
				}
				time.Sleep(20 * time.Millisecond)
				c.cut()
			})
			s := f.open(guest.OpenOptions{Redial: f.dial})
			quickly(t, 15*time.Second, name, func() {
				err := ask(s)
				if code := spec.CodeOf(err); code != spec.CodeUnknownOutcome && code != spec.CodeUnavailable {
					t.Errorf("%v", err)
				}
			})
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.dials > 60 {
				t.Errorf("dialled %d times", f.dials)
			}
		})
	}
}

// A guest that asks for input which there is not, or no longer, is CodeInternal.
func TestInputThatIsNotThere(t *testing.T) {
	for name, offset := range map[string]int64{"beyond": 6, "negative": -1, "the last": math.MaxInt64} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
				if req.Op == wire.OpExec {
					say(st, runs(req.Exec.ID))
					return
				}
				reply(st, wire.Reply{Offset: offset})
			})
			s := f.open(guest.OpenOptions{})
			p, err := s.Start(context.Background(), argv("x"), driver.Stdio{Stdin: bytes.NewReader([]byte("input"))})
			if err == nil {
				_, err = p.Wait(context.Background())
			}
			wantCode(t, err, spec.CodeInternal)
		})
	}
}
