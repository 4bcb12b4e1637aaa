package guest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// An exit is believed only if it agrees with what came: a guest that lies, or a
// transport that lost bytes, is CodeInternal, never a short output that looks whole.
func TestExitMustAgreeWithTheBytes(t *testing.T) {
	for _, tt := range []struct {
		name string
		cmd  spec.Command
		exit wire.Exit
		code spec.Code
	}{
		{"agrees", spec.Command{}, wire.Exit{StdoutBytes: 5}, ""},
		{"fewer came", spec.Command{}, wire.Exit{StdoutBytes: 6}, spec.CodeInternal},
		{"more came", spec.Command{}, wire.Exit{StdoutBytes: 4}, spec.CodeInternal},
		{"no kernel says so", spec.Command{}, wire.Exit{StdoutBytes: 5, Code: 70000}, spec.CodeInternal},
		{"timed out without a timeout", spec.Command{}, wire.Exit{StdoutBytes: 5, TimedOut: true}, spec.CodeInternal},
		{"timed out", spec.Command{Timeout: time.Hour}, wire.Exit{StdoutBytes: 5, TimedOut: true}, ""},
		{"silent", spec.Command{NoOutputTimeout: time.Hour}, wire.Exit{StdoutBytes: 5, TimedOut: true, NoOutput: true}, ""},
		{"timed out where silence was watched", spec.Command{NoOutputTimeout: time.Hour}, wire.Exit{StdoutBytes: 5, TimedOut: true}, spec.CodeInternal},
		{"silent where nobody watched", spec.Command{Timeout: time.Hour}, wire.Exit{StdoutBytes: 5, TimedOut: true, NoOutput: true}, spec.CodeInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
				switch req.Op {
				case wire.OpExec:
					said := started(st, req.Exec.ID)
					_ = wire.WriteMessage(st, wire.Event{Exit: &tt.exit})
					drain(said)
				case wire.OpData:
					_, _ = wire.WriteData(st, []byte("hello"), 0)
					_ = wire.WriteEnd(st)
					_, _ = wire.WriteData(st, []byte("after the end"), 0)
				}
			})
			s := f.open(guest.OpenOptions{})
			var out bytes.Buffer
			tt.cmd.Args = []string{"x"}
			p, err := s.Start(context.Background(), &tt.cmd, driver.Stdio{Stdout: &out})
			if err == nil {
				_, err = p.Wait(context.Background())
			}
			wantCode(t, err, tt.code)
			if tt.code == "" && out.String() != "hello" {
				t.Fatalf("stdout = %q", out.String())
			}
		})
	}
}

// A guest that says what makes no sense on a control stream is CodeInternal.
func TestControlStreamViolations(t *testing.T) {
	for _, tt := range []struct {
		name  string
		event func(id string) any
	}{
		{"wrong id", func(string) any { return wire.Event{Started: &wire.Started{ID: "other"}} }},
		{"empty event", func(string) any { return wire.Event{} }},
		{"no event", func(string) any { return strings.Repeat("x", 128<<10) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
				if req.Op == wire.OpExec {
					reply(st, tt.event(req.Exec.ID))
				}
			})
			s := f.open(guest.OpenOptions{})
			_, err := s.Start(context.Background(), argv("x"), driver.Stdio{})
			wantCode(t, err, spec.CodeInternal)
		})
	}
}

// An unknown key's command may bear another name than the caller's, and then keeps it.
func TestRepeatedKeyHasTheFirstID(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		if req.Op == wire.OpExec {
			said := started(st, "first")
			_ = wire.WriteMessage(st, wire.Event{Exit: &wire.Exit{Code: 3}})
			drain(said)
		}
	})
	s := f.open(guest.OpenOptions{})
	p, err := s.Start(context.Background(), &spec.Command{Key: "k", Args: []string{"x"}}, driver.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Wait(context.Background())
	if err != nil || e.Code != 3 || p.ID() != "first" {
		t.Fatalf("%+v, %v, id %q", e, err, p.ID())
	}
}

// The host keeps a command's deadline too: a guest that says nothing more does not
// make it wait longer than timeout, grace and 2 s, and the output so far is kept.
func TestHostKeepsTheDeadline(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		switch req.Op {
		case wire.OpExec:
			drain(started(st, req.Exec.ID))
		case wire.OpData:
			_, _ = wire.WriteData(st, []byte("so far"), 0)
			_, _ = io.Copy(io.Discard, st)
		}
	})
	s := f.open(guest.OpenOptions{})
	var out bytes.Buffer
	begin := time.Now()
	p, err := s.Start(context.Background(), &spec.Command{Args: []string{"x"}, Timeout: 100 * time.Millisecond, Grace: -1}, driver.Stdio{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Wait(context.Background())
	if took := time.Since(begin); took < 2*time.Second || took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if err != nil || !e.TimedOut || e.Code != -1 || e.Kill != spec.KillUnknown || e.StdoutBytes != 6 || out.String() != "so far" {
		t.Fatalf("%+v, %v, %q", e, err, out.String())
	}
}

// A connection that is lost after the deadline leaves a timeout, one that is lost
// before it an unknown outcome; never an exit that the guest did not state.
func TestLostConnection(t *testing.T) {
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		code    spec.Code
	}{
		{"before the deadline", time.Hour, spec.CodeUnknownOutcome},
		{"after the deadline", time.Millisecond, ""},
		{"without one", 0, spec.CodeUnknownOutcome},
	} {
		t.Run(tt.name, func(t *testing.T) {
			running := make(chan struct{})
			f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
				started(st, req.Exec.ID)
				<-running
				time.Sleep(50 * time.Millisecond) // the one deadline is over, the other is not
				c.cut()
			})
			s := f.open(guest.OpenOptions{})
			p, err := s.Start(context.Background(), &spec.Command{Args: []string{"x"}, Timeout: tt.timeout, Grace: -1}, driver.Stdio{})
			close(running)
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.Wait(context.Background())
			wantCode(t, err, tt.code)
			if e.TimedOut != (tt.code == "") {
				t.Errorf("exit %+v", e)
			}
			wantCode(t, s.Ping(context.Background()), spec.CodeUnavailable)
		})
	}
}

// Whatever never answers is ended by the caller's ctx, at once, and Close is bounded.
func TestGuestThatNeverAnswers(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { _, _ = io.Copy(io.Discard, st) })
	s := f.open(guest.OpenOptions{})
	fsys := s.Files()
	for name, call := range map[string]func(context.Context) error{
		"ping":   s.Ping,
		"status": func(ctx context.Context) error { _, err := s.Status(ctx); return err },
		"start": func(ctx context.Context) error {
			_, err := s.Start(ctx, argv("x"), driver.Stdio{Stdin: blockingReader{}, Stdout: io.Discard})
			return err
		},
		"stat":     func(ctx context.Context) error { _, err := fsys.Stat(ctx, "a", files.StatOptions{}); return err },
		"open":     func(ctx context.Context) error { _, err := fsys.Open(ctx, "a", files.OpenOptions{}); return err },
		"mkdir":    func(ctx context.Context) error { return fsys.Mkdir(ctx, "a", files.MkdirOptions{}) },
		"write":    func(ctx context.Context) error { return fsys.Write(ctx, "a", zeros{}, 1<<40, files.WriteOptions{}) },
		"shutdown": func(ctx context.Context) error { return s.Shutdown(ctx, 0) },
		"list": func(ctx context.Context) error {
			for _, err := range fsys.List(ctx, "a") {
				return err
			}
			return nil
		},
	} {
		quickly(t, 3*time.Second, name, func() {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v, want the context's error", name, err)
			}
		})
	}
	quickly(t, 6*time.Second, "close", func() { s.Close(context.Background()) })
}

// A transport that takes nothing more holds up neither a call beyond its ctx nor
// Close beyond 5 s.
func TestStuckTransport(t *testing.T) {
	noLeaks(t)
	host, raw := net.Pipe()
	go func() {
		_, _ = wire.AcceptHello(raw, func(*wire.HostHello) (*wire.GuestHello, error) { return &wire.GuestHello{ID: "stuck"}, nil })
		// From here on it reads nothing.
	}()
	s, err := guest.Open(context.Background(), host, guest.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	big := &spec.Command{Args: []string{"x", strings.Repeat("a", 100_000), strings.Repeat("b", 100_000), strings.Repeat("c", 100_000)}}
	for range 4 {
		quickly(t, 2*time.Second, "start", func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if _, err := s.Start(ctx, big, driver.Stdio{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("start: %v", err)
			}
			if err := s.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("ping: %v", err)
			}
		})
	}
	quickly(t, 6*time.Second, "close", func() { s.Close(context.Background()) })
	raw.Close()
}

// A guest may open no stream: only the host asks.
func TestGuestThatOpensAStream(t *testing.T) {
	f := newFake(t, func(c *fakeConn, st *wire.Stream, _ *wire.Request) {
		_, _ = c.mux.Open(&wire.Request{Op: wire.OpPing})
		_, _ = io.Copy(io.Discard, st)
	})
	s := f.open(guest.OpenOptions{})
	wantCode(t, s.Ping(context.Background()), spec.CodeUnavailable)
}

// What answers but is no guest is quoted; one that refuses says why; another place's
// guest is not taken.
func TestOpenRefusals(t *testing.T) {
	t.Run("no guest", func(t *testing.T) {
		noLeaks(t)
		host, raw := net.Pipe()
		defer raw.Close()
		go func() { io.Copy(io.Discard, raw) }()
		go raw.Write([]byte("sh: berth-guest: not found\n"))
		_, err := guest.Open(context.Background(), host, guest.OpenOptions{})
		wantCode(t, err, spec.CodeUnavailable)
		if !strings.Contains(err.Error(), "berth-guest: not found") {
			t.Errorf("%v", err)
		}
	})
	t.Run("stale", func(t *testing.T) {
		f := newFake(t, nil)
		f.refuse = func(h *wire.HostHello) error {
			if h.Epoch < 5 {
				return spec.New(spec.CodeStaleOwner, "epoch 5 has been here")
			}
			return nil
		}
		stream, _ := f.dial(context.Background())
		_, err := guest.Open(context.Background(), stream, guest.OpenOptions{Authority: driver.Authority{Epoch: 4}})
		wantCode(t, err, spec.CodeStaleOwner)
	})
	t.Run("another place", func(t *testing.T) {
		f := newFake(t, nil)
		stream, _ := f.dial(context.Background())
		_, err := guest.Open(context.Background(), stream, guest.OpenOptions{ID: "mine"})
		wantCode(t, err, spec.CodeUnavailable)
	})
	t.Run("a name that is none", func(t *testing.T) {
		f := newFake(t, nil)
		f.hello.ID = "../../etc"
		stream, _ := f.dial(context.Background())
		_, err := guest.Open(context.Background(), stream, guest.OpenOptions{})
		wantCode(t, err, spec.CodeInternal)
	})
	t.Run("silence", func(t *testing.T) {
		noLeaks(t)
		host, raw := net.Pipe()
		defer raw.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		defer cancel()
		_, err := guest.Open(ctx, host, guest.OpenOptions{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

// Every request and every control message asks the fence; a refused one sends
// nothing and is CodeStaleOwner.
func TestFenceIsAskedBeforeEverything(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		if req.Op == wire.OpExec {
			for c := range started(st, req.Exec.ID) {
				if c.Seq != 0 {
					_ = wire.WriteMessage(st, wire.Event{Ack: c.Seq})
				}
			}
			return
		}
		reply(st, wire.Reply{Status: &wire.Status{}})
	})
	var asked atomic.Int64
	var closed atomic.Bool
	s := f.open(guest.OpenOptions{Authority: driver.Authority{Fence: func(context.Context) error {
		asked.Add(1)
		if closed.Load() {
			return errPlain
		}
		return nil
	}}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p, err := s.Start(ctx, argv("x"), driver.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	count := func(what string, want int64, call func() error) {
		t.Helper()
		before := asked.Load()
		if err := call(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := asked.Load() - before; got != want {
			t.Errorf("%s asked the fence %d times, want %d", what, got, want)
		}
	}
	count("ping", 1, func() error { return s.Ping(ctx) })
	count("signal", 1, func() error { return p.Signal(ctx, spec.SIGINT) })
	count("kill", 1, func() error { return p.Kill(ctx) })
	count("mkdir", 1, func() error { return s.Files().Mkdir(ctx, "a", files.MkdirOptions{}) })

	closed.Store(true)
	sent := f.count("")
	for what, call := range map[string]func() error{
		"ping":   func() error { return s.Ping(ctx) },
		"signal": func() error { return p.Signal(ctx, spec.SIGINT) },
		"kill":   func() error { return p.Kill(ctx) },
		"start":  func() error { _, err := s.Start(ctx, argv("x"), driver.Stdio{}); return err },
		"write":  func() error { return s.Files().Write(ctx, "a", zeros{}, 1, files.WriteOptions{}) },
	} {
		err := call()
		if !errors.Is(err, spec.ErrStaleOwner) || !errors.Is(err, errPlain) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now := f.count(""); now != sent {
		t.Errorf("%d requests went out past a closed fence", now-sent)
	}
}

// Close says goodbye, closes, runs OnClose once, and answers the same to all.
func TestClose(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		switch req.Op {
		case wire.OpExec:
			drain(started(st, req.Exec.ID))
		case wire.OpData:
			_, _ = io.Copy(io.Discard, st)
		default:
			reply(st, wire.Reply{})
		}
	})
	var ran atomic.Int64
	s := f.open(guest.OpenOptions{Redial: f.dial, OnClose: func(context.Context) error { ran.Add(1); return errPlain }})
	p, err := s.Start(context.Background(), argv("x"), driver.Stdio{Stdin: blockingReader{}, Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := s.Close(context.Background()); !errors.Is(err, errPlain) {
				t.Errorf("close: %v", err)
			}
		})
	}
	wg.Wait()
	if ran.Load() != 1 || f.count(wire.OpBye) != 1 {
		t.Errorf("OnClose ran %d times, %d goodbyes", ran.Load(), f.count(wire.OpBye))
	}
	_, err = p.Wait(context.Background())
	wantCode(t, err, spec.CodeUnknownOutcome)
	wantCode(t, s.Ping(context.Background()), spec.CodeInvalid)
	wantCode(t, p.Signal(context.Background(), spec.SIGINT), spec.CodeUnknownOutcome)
}

// A cancel answers Wait at once, reaches the guest, and nothing is written any more.
func TestCancel(t *testing.T) {
	told := make(chan wire.Control, 1)
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		switch req.Op {
		case wire.OpExec:
			said := started(st, req.Exec.ID)
			told <- <-said
			drain(said)
		case wire.OpData:
			for {
				if _, err := wire.WriteData(st, make([]byte, 1000), 0); err != nil {
					return
				}
			}
		}
	})
	s := f.open(guest.OpenOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	p, err := s.Start(ctx, argv("x"), driver.Stdio{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	quickly(t, 4*time.Second, "wait", func() {
		if _, err := p.Wait(context.Background()); !errors.Is(err, context.Canceled) {
			t.Errorf("wait: %v", err)
		}
	})
	n := out.Len() // the race detector sees a write that comes later
	if c := <-told; !c.Cancel {
		t.Errorf("the guest was told %+v", c)
	}
	if out.Len() != n {
		t.Error("written after Wait")
	}
}

// A writer that fails ends the copying of its stream only: the rest is drained, and
// Wait returns the exit together with the error.
func TestWriterThatFails(t *testing.T) {
	const size = 3 << 20 // more than any window
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		switch req.Op {
		case wire.OpExec:
			said := started(st, req.Exec.ID)
			_ = wire.WriteMessage(st, wire.Event{Exit: &wire.Exit{Code: 4, StdoutBytes: size}})
			drain(said)
		case wire.OpData:
			_, _ = wire.WriteData(st, make([]byte, size), 0)
			_ = wire.WriteEnd(st)
		}
	})
	s := f.open(guest.OpenOptions{})
	p, err := s.Start(context.Background(), argv("x"), driver.Stdio{Stdout: writerFunc(func([]byte) (int, error) { return 0, errPlain })})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.Wait(context.Background()); !errors.Is(err, errPlain) || e.Code != 4 {
		t.Fatalf("%+v, %v", e, err)
	}
}

// An exit whose output never ends is not waited for without a bound.
func TestOutputThatNeverEnds(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		if req.Op == wire.OpExec {
			said := started(st, req.Exec.ID)
			_ = wire.WriteMessage(st, wire.Event{Exit: &wire.Exit{}})
			drain(said)
			return
		}
		_, _ = io.Copy(io.Discard, st)
	})
	s := f.open(guest.OpenOptions{})
	p, err := s.Start(context.Background(), argv("x"), driver.Stdio{Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	quickly(t, 25*time.Second, "wait", func() {
		_, err := p.Wait(context.Background())
		wantCode(t, err, spec.CodeInternal)
	})
}

type blockingReader struct{}

func (blockingReader) Read([]byte) (int, error) {
	time.Sleep(1500 * time.Millisecond)
	return 0, io.EOF
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
