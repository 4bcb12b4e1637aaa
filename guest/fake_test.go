package guest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// fake is a guest made of the wire protocol alone, so that it can say what no honest
// guest says. One fake may be dialled many times.
type fake struct {
	t     *testing.T
	hello wire.GuestHello
	// each, if set, changes the hello of one connection.
	each func(c *fakeConn, g *wire.GuestHello)
	// refuse, if set, answers the hello with an error.
	refuse func(*wire.HostHello) error
	// serve handles one stream; the stream is closed when it returns.
	serve func(c *fakeConn, st *wire.Stream, req *wire.Request)
	// bare, if set, has the connection to itself after the hello.
	bare func(c *fakeConn)

	mu    sync.Mutex
	conns []*fakeConn
	dials int
	seen  []wire.Op
}

// fakeConn is one connection to a fake.
type fakeConn struct {
	f   *fake
	mux *wire.Mux
	raw net.Conn
	n   int // 1 for the first
}

func newFake(t *testing.T, serve func(c *fakeConn, st *wire.Stream, req *wire.Request)) *fake {
	f := &fake{t: t, serve: serve, hello: wire.GuestHello{ID: "fake", OS: "linux", Arch: "amd64", Workdir: wire.Bytes("/w"), KillTree: "confirmed", ResumeMS: 3000}}
	noLeaks(t)
	t.Cleanup(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, c := range f.conns {
			c.raw.Close()
		}
	})
	return f
}

// dial is a guest.Dialer.
func (f *fake) dial(context.Context) (io.ReadWriteCloser, error) {
	host, raw := net.Pipe()
	f.mu.Lock()
	f.dials++
	c := &fakeConn{f: f, raw: raw, n: f.dials}
	f.conns = append(f.conns, c)
	f.mu.Unlock()
	go c.run()
	return host, nil
}

func (c *fakeConn) run() {
	h, err := wire.AcceptHello(c.raw, func(h *wire.HostHello) (*wire.GuestHello, error) {
		c.f.mu.Lock()
		refuse := c.f.refuse
		c.f.mu.Unlock()
		if refuse != nil {
			if err := refuse(h); err != nil {
				return nil, err
			}
		}
		g := c.f.hello
		if c.f.each != nil {
			c.f.each(c, &g)
		}
		return &g, nil
	})
	if err != nil {
		c.raw.Close()
		return
	}
	if c.f.bare != nil {
		c.f.bare(c)
		return
	}
	mux, err := wire.GuestMux(c.raw, h.Profile)
	if err != nil {
		return
	}
	c.mux = mux
	for {
		st, err := mux.Accept()
		if err != nil {
			return
		}
		go func() {
			defer st.Close()
			var req wire.Request
			if wire.ReadMessage(st, &req, 0) != nil {
				return
			}
			c.f.mu.Lock()
			c.f.seen = append(c.f.seen, req.Op)
			c.f.mu.Unlock()
			if req.Op == wire.OpBye {
				reply(st, wire.Reply{})
				return
			}
			c.f.serve(c, st, &req)
		}()
	}
}

// cut ends the connection as a broken transport does.
func (c *fakeConn) cut() { c.raw.Close() }

func (f *fake) count(op wire.Op) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.seen {
		if o == op || op == "" {
			n++
		}
	}
	return n
}

// open opens a session on the fake, which is closed with the test.
func (f *fake) open(o guest.OpenOptions) *guest.Session {
	f.t.Helper()
	stream, _ := f.dial(context.Background())
	s, err := guest.Open(context.Background(), stream, o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// reply answers and waits for the host to close, as the protocol has it.
func reply(st *wire.Stream, v any) {
	_ = wire.WriteMessage(st, v)
	_, _ = io.Copy(io.Discard, st)
}

// started confirms a command and returns what the host says on its control stream.
func started(st *wire.Stream, id string) <-chan wire.Control {
	_ = wire.WriteMessage(st, wire.Event{Started: &wire.Started{ID: id, PID: 7}})
	said := make(chan wire.Control, 16)
	go func() {
		defer close(said)
		for {
			var c wire.Control
			if wire.ReadMessage(st, &c, 0) != nil {
				return
			}
			said <- c
		}
	}()
	return said
}

// drain waits until the host has closed the control stream.
func drain(said <-chan wire.Control) {
	for range said {
	}
}

// noLeaks fails the test if a goroutine of this module is left when all of the
// test's other cleanups have run.
func noLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		var left string
		within(t, time.Minute, func() bool { left = ours(); return left == "" }, func() string { return "goroutines are left:\n" + left })
	})
}

// ours returns the stacks of goroutines that run this module's code, the tests' own
// main ones left out.
func ours() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var out []string
	for _, g := range strings.Split(string(buf), "\n\n") {
		mine := strings.Contains(g, "berth/guest.") || strings.Contains(g, "berth/internal/wire.") || strings.Contains(g, "hashicorp/yamux.")
		if mine && !strings.Contains(g, "testing.tRunner") && !strings.Contains(g, "testing.(*M)") {
			out = append(out, g)
		}
	}
	return strings.Join(out, "\n\n")
}

// within waits until ok holds.
func within(t *testing.T, most time.Duration, ok func() bool, why func() string) {
	t.Helper()
	for end := time.Now().Add(most); !ok(); {
		if time.Now().After(end) {
			t.Fatal(why())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// quickly fails the test if f takes longer than most.
func quickly(t *testing.T, most time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(most):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s took longer than %v\n%s", what, most, buf[:runtime.Stack(buf, true)])
	}
}

func wantCode(t *testing.T, err error, code spec.Code) {
	t.Helper()
	if spec.CodeOf(err) != code {
		t.Fatalf("got %v (code %q), want code %q", err, spec.CodeOf(err), code)
	}
}

var errPlain = errors.New("plain")

func argv(args ...string) *spec.Command { return &spec.Command{Args: args} }
