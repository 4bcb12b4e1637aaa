//go:build linux

package agent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// TestMain makes the test binary its own guest: a guest reaps every child of its
// process, so it cannot share one with a test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "berth-guest-reexec":
			os.Exit(agent.Main(os.Args[2:]))
		case "berth-guest-signal-all":
			os.Exit(signalAll(os.Args[2]))
		case "berth-guest-block-signals":
			os.Exit(blockSignals(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// place is a guest that a test has started.
type place struct {
	t       testing.TB
	workdir string
	socket  string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the guest has exited
}

const placeID = "test-place"

// startPlace starts a guest that listens on a socket of the test's own.
func startPlace(t testing.TB, args ...string) *place {
	t.Helper()
	return startPlaceUnder(t, nil, args...)
}

// startPlaceUnder starts a guest behind the words of wrapper.
func startPlaceUnder(t testing.TB, wrapper []string, args ...string) *place {
	t.Helper()
	p := &place{t: t, workdir: t.TempDir(), socket: filepath.Join(t.TempDir(), "guest.sock"), ended: make(chan struct{})}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	defer f.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	words := append([]string{}, wrapper...)
	words = append(words, self, "berth-guest-reexec", "serve", "--id", placeID, "--workdir", p.workdir, "--listen-fd", "3", "--grace", "500ms")
	words = append(words, args...)
	p.cmd = exec.Command(words[0], words[1:]...)
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/root", "PLACE=1", "BASH_ENV=/nonexistent", "ENV=/nonexistent"}
	p.cmd.ExtraFiles = []*os.File{f}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(os.Interrupt) // harmless: shows that it is
		h := p.tryDial("cleanup", 1<<40)
		if h == nil {
			_ = p.cmd.Process.Kill()
		} else {
			_, _ = h.call(&wire.Request{Op: wire.OpShutdown, Shutdown: &wire.ShutdownRequest{}})
		}
		p.waitEnd(20 * time.Second)
	})
	return p
}

func (p *place) waitEnd(most time.Duration) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(most):
		_ = p.cmd.Process.Kill()
		p.t.Errorf("the guest did not end within %v", most)
	}
}

// host is a connection to a guest, the least that package wire asks for.
type host struct {
	t     testing.TB
	conn  net.Conn
	mux   *wire.Mux
	hello *wire.GuestHello
}

func (p *place) dial(client string) *host {
	p.t.Helper()
	return p.dialEpoch(client, 0)
}

func (p *place) dialEpoch(client string, epoch uint64) *host {
	p.t.Helper()
	h, err := p.connect(client, epoch)
	if err != nil {
		p.t.Fatalf("dial: %v", err)
	}
	p.t.Cleanup(h.close)
	return h
}

func (p *place) tryDial(client string, epoch uint64) *host {
	h, err := p.connect(client, epoch)
	if err != nil {
		return nil
	}
	return h
}

func (p *place) connect(client string, epoch uint64) (*host, error) {
	conn, err := net.Dial("unix", p.socket)
	if err != nil {
		return nil, err
	}
	return greet(p.t, conn, wire.HostHello{ID: placeID, Client: client, Epoch: epoch, Profile: wire.Local()})
}

func greet(t testing.TB, conn net.Conn, hello wire.HostHello) (*host, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	g, err := wire.SendHello(ctx, conn, hello)
	if err != nil {
		conn.Close()
		return nil, err
	}
	mux, err := wire.HostMux(conn, hello.Profile)
	if err != nil {
		return nil, err
	}
	return &host{t: t, conn: conn, mux: mux, hello: g}, nil
}

func (h *host) close() { h.mux.Close() }

func (h *host) open(req *wire.Request) *wire.Stream {
	h.t.Helper()
	s, err := h.mux.Open(req)
	if err != nil {
		h.t.Fatalf("open %s: %v", req.Op, err)
	}
	return s
}

func (h *host) call(req *wire.Request) (*wire.Reply, error) {
	s, err := h.mux.Open(req)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return wire.ReadReply(s)
}

// running is a command that a host has started.
type running struct {
	t       testing.TB
	id      string
	ctl     *wire.Stream
	in      *wire.Stream
	started wire.Started
	out     [2]*collector
}

// collector reads one output.
type collector struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	err  error // nil: the end was said
	done chan struct{}
}

func collect(s *wire.Stream) *collector {
	c := &collector{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer s.Close()
		d := wire.NewDataReader(s)
		buf := make([]byte, 32<<10)
		for {
			n, err := d.Read(buf)
			c.mu.Lock()
			c.buf.Write(buf[:n])
			if err != nil && err != io.EOF {
				c.err = err
			}
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return c
}

func (c *collector) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

func (c *collector) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Len()
}

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func shell(script string) *wire.ExecRequest { return command("/bin/sh", "-c", script) }

func command(args ...string) *wire.ExecRequest {
	r := &wire.ExecRequest{ID: newID(), GraceMS: 300, Stdout: true, Stderr: true}
	for _, a := range args {
		r.Args = append(r.Args, wire.Bytes(a))
	}
	return r
}

func dataRequest(id string, fd int, offset int64) *wire.Request {
	return &wire.Request{Op: wire.OpData, Data: &wire.DataRequest{ID: id, FD: fd, Offset: offset}}
}

// start starts a command and waits for the word that it runs.
func (h *host) start(req *wire.ExecRequest) (*running, error) {
	h.t.Helper()
	r := &running{t: h.t, id: req.ID}
	r.ctl = h.open(&wire.Request{Op: wire.OpExec, Exec: req})
	if req.Stdin {
		r.in = h.open(dataRequest(req.ID, 0, 0))
	}
	for i, asked := range []bool{req.Stdout, req.Stderr && !req.Merge} {
		if asked {
			r.out[i] = collect(h.open(dataRequest(req.ID, i+1, 0)))
		}
	}
	return r, r.awaitStart()
}

func (r *running) awaitStart() error {
	var ev wire.Event
	if err := wire.ReadMessage(r.ctl, &ev, 0); err != nil {
		return err
	}
	if ev.Err != nil {
		return ev.Err.Spec()
	}
	if ev.Started == nil {
		return fmt.Errorf("the first event is no start: %+v", ev)
	}
	r.started = *ev.Started
	return nil
}

func (h *host) mustStart(req *wire.ExecRequest) *running {
	h.t.Helper()
	r, err := h.start(req)
	if err != nil {
		h.t.Fatalf("start: %v", err)
	}
	return r
}

// result is all that a host learns of a command.
type result struct {
	Stdout, Stderr string
	Exit           spec.Exit
}

// wait reads events to the exit, and all output.
func (r *running) wait() result {
	r.t.Helper()
	e, err := r.exit()
	if err != nil {
		r.t.Fatalf("exit: %v", err)
	}
	res := result{Exit: e}
	for i, into := range []*string{&res.Stdout, &res.Stderr} {
		if c := r.out[i]; c != nil {
			<-c.done
			if c.err != nil {
				r.t.Errorf("output %d: %v", i+1, c.err)
			}
			*into = c.String()
		}
	}
	_ = wire.WriteMessage(r.ctl, wire.Control{Done: true})
	r.ctl.Close()
	return res
}

func (r *running) exit() (spec.Exit, error) {
	for {
		var ev wire.Event
		if err := wire.ReadMessage(r.ctl, &ev, 0); err != nil {
			return spec.Exit{}, err
		}
		switch {
		case ev.Err != nil:
			return spec.Exit{}, ev.Err.Spec()
		case ev.Exit != nil:
			return ev.Exit.Spec()
		}
	}
}

func (r *running) tell(c wire.Control) {
	r.t.Helper()
	if err := wire.WriteMessage(r.ctl, c); err != nil {
		r.t.Fatalf("control: %v", err)
	}
}

func (h *host) run(req *wire.ExecRequest) result {
	h.t.Helper()
	return h.mustStart(req).wait()
}

// proc names a process for good: its pid and when it started.
type proc struct {
	pid   int
	start string
}

func findProc(t testing.TB, pidText string) proc {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(pidText))
	if err != nil {
		t.Fatalf("no pid: %q", pidText)
	}
	return proc{pid, startOf(pid)}
}

// startOf is the start time of a process that has not ended, or "".
func startOf(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}

func (p proc) alive() bool { return p.start != "" && startOf(p.pid) == p.start }

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came about that %s", what)
		}
	}
}

// fileText waits for a file that a command writes, and returns what is in it.
func (p *place) fileText(name string) string {
	p.t.Helper()
	var data []byte
	eventually(p.t, name+" is written", func() bool {
		data, _ = os.ReadFile(filepath.Join(p.workdir, name))
		return bytes.HasSuffix(data, []byte("\n"))
	})
	return string(data)
}

func seconds(f func()) float64 {
	begun := time.Now()
	f()
	return time.Since(begun).Seconds()
}
