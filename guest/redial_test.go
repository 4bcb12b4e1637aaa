package guest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// A lost connection is dialled again by the next operation; concurrent ones share
// one dial.
func TestRedialIsShared(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { reply(st, wire.Reply{}) })
	slow := func(ctx context.Context) (io.ReadWriteCloser, error) {
		time.Sleep(50 * time.Millisecond)
		return f.dial(ctx)
	}
	s := f.open(guest.OpenOptions{Redial: slow})
	f.conns[0].cut()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := s.Ping(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if f.dials != 2 {
		t.Errorf("dialled %d times, want 2", f.dials)
	}
}

// A redial that fails is not remembered, and one caller's ctx does not end the dial
// that others wait for.
func TestRedialFailure(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { reply(st, wire.Reply{}) })
	var mu sync.Mutex
	answer, release := error(errPlain), make(chan struct{})
	s := f.open(guest.OpenOptions{Redial: func(ctx context.Context) (io.ReadWriteCloser, error) {
		<-release
		mu.Lock()
		defer mu.Unlock()
		if answer != nil {
			return nil, answer
		}
		return f.dial(ctx)
	}})
	f.conns[0].cut()
	within(t, 20*time.Second, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		return errors.Is(s.Ping(ctx), context.DeadlineExceeded)
	}, func() string { return "the loss was not noticed" })
	close(release)
	within(t, 20*time.Second, func() bool { return errors.Is(s.Ping(context.Background()), errPlain) }, func() string { return "no dial failed" })
	wantCode(t, s.Ping(context.Background()), spec.CodeUnavailable)
	mu.Lock()
	answer = nil
	mu.Unlock()
	if err := s.Ping(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// What only reads is repeated once when its connection breaks; what changes
// something is not, and is an unknown outcome.
func TestRequestLostOnTheWay(t *testing.T) {
	f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		if c.n == 1 {
			c.cut()
			return
		}
		reply(st, wire.Reply{Info: &wire.FileInfo{Name: wire.Bytes("a")}, Done: true})
	})
	for name, tt := range map[string]struct {
		call func(*guest.Session) error
		op   wire.Op
		sent int
		code spec.Code
	}{
		"stat": {func(s *guest.Session) error {
			_, err := s.Files().Stat(context.Background(), "a", files.StatOptions{})
			return err
		}, wire.OpStat, 2, ""},
		"mkdir": {func(s *guest.Session) error { return s.Files().Mkdir(context.Background(), "a", files.MkdirOptions{}) }, wire.OpMkdir, 1, spec.CodeUnknownOutcome},
		"list": {func(s *guest.Session) error {
			for _, err := range s.Files().List(context.Background(), "a") {
				return err
			}
			return nil
		}, wire.OpList, 2, ""},
		"shutdown": {func(s *guest.Session) error { return s.Shutdown(context.Background(), 0) }, wire.OpShutdown, 1, spec.CodeUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.mu.Lock()
			f.dials = 0
			f.mu.Unlock()
			s := f.open(guest.OpenOptions{Redial: f.dial})
			wantCode(t, tt.call(s), tt.code)
			if n := f.count(tt.op); n != tt.sent {
				t.Errorf("sent %d times, want %d", n, tt.sent)
			}
		})
	}
}

// A command is taken up again on the next connection at the byte it had reached: its
// output is whole, its input is sent from the byte that the guest states, and a kill
// that was not confirmed is sent again.
func TestCommandIsTakenUpAgain(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 100)
	input := make(chan []byte, 1)
	killed := make(chan struct{})
	typed, fed := make(chan struct{}), make(chan struct{}) // four bytes have been taken before the cut, the rest after it
	f := newFake(t, nil)
	f.serve = func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		switch {
		case req.Op == wire.OpExec:
			for ctl := range started(st, req.Exec.ID) {
				if ctl.Kill {
					c.cut() // before it is confirmed
				}
			}
		case req.Op == wire.OpAttach:
			said := started(st, req.Attach.ID)
			if ctl := <-said; !ctl.Kill {
				f.t.Errorf("told %+v", ctl)
			} else {
				_ = wire.WriteMessage(st, wire.Event{Ack: ctl.Seq})
			}
			close(killed)
			<-fed // of a command that has ended nobody takes input
			_ = wire.WriteMessage(st, wire.Event{Exit: &wire.Exit{Code: 137, Signal: 9, Kill: "terminated", StdoutBytes: 1000}})
			drain(said)
		case req.Op == wire.OpData && req.Data.FD == 0:
			offset := int64(0)
			if c.n == 2 {
				offset = 4
			}
			_ = wire.WriteMessage(st, wire.Reply{Offset: offset})
			in := wire.NewDataReader(st)
			if c.n == 1 {
				_, _ = io.ReadFull(in, make([]byte, 4))
				close(typed)
			}
			data, _ := io.ReadAll(in)
			if c.n == 2 {
				input <- data
				close(fed)
			}
		case req.Op == wire.OpData && c.n == 1:
			_, _ = wire.WriteData(st, text[:333], 0)
			_, _ = io.Copy(io.Discard, st)
		case req.Op == wire.OpData:
			_, _ = wire.WriteData(st, text[req.Data.Offset:], 100)
			_ = wire.WriteEnd(st)
			_, _ = io.Copy(io.Discard, st)
		default:
			reply(st, wire.Reply{})
		}
	}
	s := f.open(guest.OpenOptions{Redial: f.dial})
	var out lockedBuffer
	p, err := s.Start(context.Background(), argv("x"), driver.Stdio{Stdin: bytes.NewReader([]byte("some input")), Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	within(t, 20*time.Second, func() bool { return out.Len() == 333 }, func() string { return "no output" })
	<-typed
	if err := p.Kill(context.Background()); err != nil {
		t.Errorf("kill: %v", err)
	}
	<-killed
	e, err := p.Wait(context.Background())
	if err != nil || e.Signal != 9 || out.String() != string(text) {
		t.Errorf("%+v, %v, %d bytes", e, err, out.Len())
	}
	if got := string(<-input); got != " input" {
		t.Errorf("the guest got %q", got)
	}
}

// A signal that the guest has not confirmed is never sent twice.
func TestSignalIsNotRepeated(t *testing.T) {
	f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		id := ""
		if req.Op == wire.OpExec {
			id = req.Exec.ID
		} else if req.Op == wire.OpAttach {
			id = req.Attach.ID
		} else {
			reply(st, wire.Reply{})
			return
		}
		for ctl := range started(st, id) {
			if c.n > 1 {
				c.f.t.Errorf("told %+v again", ctl)
			}
			c.cut()
		}
	})
	s := f.open(guest.OpenOptions{Redial: f.dial})
	p, err := s.Start(context.Background(), argv("x"), driver.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, p.Signal(context.Background(), spec.SIGINT), spec.CodeUnknownOutcome)
	within(t, 20*time.Second, func() bool { return f.count(wire.OpAttach) == 1 }, func() string { return "no attach" })
}

// A command that the guest had not confirmed when the connection broke is asked for
// again under the same id, never under a new one.
func TestRequestLostBeforeTheStart(t *testing.T) {
	var mu sync.Mutex
	ids := map[string]int{}
	f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		if req.Op != wire.OpExec {
			reply(st, wire.Reply{})
			return
		}
		mu.Lock()
		ids[req.Exec.ID]++
		mu.Unlock()
		if c.n == 1 {
			c.cut()
			return
		}
		said := started(st, req.Exec.ID)
		_ = wire.WriteMessage(st, wire.Event{Exit: &wire.Exit{Code: 5}})
		drain(said)
	})
	s := f.open(guest.OpenOptions{Redial: f.dial})
	p, err := s.Start(context.Background(), argv("x"), driver.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.Wait(context.Background()); err != nil || e.Code != 5 {
		t.Fatalf("%+v, %v", e, err)
	}
	if len(ids) != 1 {
		t.Errorf("asked for under %d ids", len(ids))
	}
}

// A command is given up, with an unknown outcome, when the guest no longer knows it,
// refuses the client, or cannot be reached within its resume window.
func TestCommandIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		refuse func(*wire.HostHello) error
		dialer func(f *fake) guest.Dialer
		also   error
	}{
		{"forgotten", nil, func(f *fake) guest.Dialer { return f.dial }, spec.ErrNotFound},
		{"stale", func(*wire.HostHello) error { return spec.New(spec.CodeStaleOwner, "x") }, func(f *fake) guest.Dialer { return f.dial }, spec.ErrStaleOwner},
		{"gone", nil, func(*fake) guest.Dialer {
			return func(context.Context) (io.ReadWriteCloser, error) { return nil, spec.New(spec.CodeNotFound, "x") }
		}, spec.ErrNotFound},
		{"unreachable", nil, func(*fake) guest.Dialer {
			return func(context.Context) (io.ReadWriteCloser, error) { return nil, errPlain }
		}, errPlain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			running := make(chan struct{})
			f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
				switch req.Op {
				case wire.OpExec:
					started(st, req.Exec.ID)
					<-running
					c.f.mu.Lock()
					c.f.refuse = tt.refuse
					c.f.mu.Unlock()
					c.cut()
				case wire.OpAttach:
					reply(st, wire.Event{Err: &wire.Error{Code: string(spec.CodeNotFound)}})
				default:
					reply(st, wire.Reply{})
				}
			})
			s := f.open(guest.OpenOptions{Redial: tt.dialer(f)})
			p, err := s.Start(context.Background(), argv("x"), driver.Stdio{})
			close(running)
			if err != nil {
				t.Fatal(err)
			}
			quickly(t, 8*time.Second, "wait", func() {
				_, err := p.Wait(context.Background())
				wantCode(t, err, spec.CodeUnknownOutcome)
				if !errors.Is(err, tt.also) {
					t.Errorf("%v is not %v", err, tt.also)
				}
			})
		})
	}
}

// Shutdown returns when the connection is gone; the place is not found afterwards,
// and nobody dials it again.
func TestShutdown(t *testing.T) {
	f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		if req.Op == wire.OpShutdown {
			_ = wire.WriteMessage(st, wire.Reply{})
			time.Sleep(500 * time.Millisecond) // until the host has it
			c.cut()
		}
	})
	s := f.open(guest.OpenOptions{Redial: f.dial})
	if err := s.Shutdown(context.Background(), time.Second); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.Ping(context.Background()), spec.CodeNotFound)
	if f.dials != 1 {
		t.Errorf("dialled %d times", f.dials)
	}
}

// lockedBuffer is a buffer that may be looked at while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Len()
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
