//go:build linux

package cli

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// portsPlace starts a sandbox with the key k. It returns how berth is run beside it, and
// where: its workdir.
func portsPlace(t *testing.T) (berth func(args ...string) *exec.Cmd, dir string) {
	t.Helper()
	up, dir := berthCommand(t, "up", "--key", "k", "--isolation", "none")
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	berth = func(args ...string) *exec.Cmd {
		cmd := exec.Command("berth", args...)
		cmd.Env, cmd.Dir = up.Env, dir
		return cmd
	}
	t.Cleanup(func() {
		if out, err := berth("down", "--key", "k").CombinedOutput(); err != nil && statusOf(t, err) != 4 {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	return berth, dir
}

// A service of this machine is offered inside a sandbox and reached through it from here:
// byte for byte, with both ends kept, by many at once, until an interrupt.
func TestForwardThereAndBack(t *testing.T) {
	berth, dir := portsPlace(t)
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { // it answers when all has come
				defer conn.Close()
				all, _ := io.ReadAll(conn)
				_, _ = conn.Write(all)
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(echo.Addr().String())
	forward := berth("forward", "--key", "k", "--reverse", "@berth-test-"+dir[len(dir)-20:]+":"+port, "0:@berth-test-"+dir[len(dir)-20:])
	said, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	forward.Stderr = &complaints
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	var local string
	for range 2 {
		if !lines.Scan() {
			_ = forward.Wait()
			t.Fatalf("forward: %s", complaints.String())
		}
		if where, _, ok := strings.Cut(lines.Text(), " here -> "); ok {
			local = where
		}
	}
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	done := make(chan error, 20)
	for range cap(done) {
		go func() { done <- roundTrip(local, data[:1<<16]) }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	dial := berth("dial", "--key", "k", "@berth-test-"+dir[len(dir)-20:])
	dial.Stdin = bytes.NewReader(data)
	back, err := dial.Output()
	if err != nil || !bytes.Equal(back, data) {
		t.Errorf("dial: %d bytes of %d, %v", len(back), len(data), err)
	}
	_ = forward.Process.Signal(syscall.SIGINT)
	_, _ = io.Copy(io.Discard, said)
	if status := statusOf(t, forward.Wait()); status != 0 || complaints.Len() > 0 {
		t.Errorf("forward ended with %d, and said %q", status, complaints.String())
	}
	if conn, err := net.Dial("tcp", local); err == nil {
		conn.Close()
		t.Errorf("something still listens on %s", local)
	}
}

func roundTrip(address string, data []byte) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = conn.Write(data)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	back, err := io.ReadAll(conn)
	if err == nil && !bytes.Equal(back, data) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// heard is what a peer got of one connection.
type heard struct {
	n   int64
	err error // nil: its end
}

// peer serves one connection on this machine: it says hello, by which it ends its side if
// half, and listens to the end.
func peer(t *testing.T, half bool) (port string, got chan heard) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	got = make(chan heard, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("hello"))
		if half {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		var h heard
		h.n, h.err = io.Copy(io.Discard, struct{ io.Reader }{conn})
		got <- h
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, got
}

// The end of what the peer says does not cut what we send; stdout ends with it.
func TestDialSendsAllToAPeerThatHasEnded(t *testing.T) {
	berth, _ := portsPlace(t)
	port, got := peer(t, true)
	dial := berth("dial", "--key", "k", port)
	in, err := dial.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := dial.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dial.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(out); err != nil || string(said) != "hello" {
		t.Errorf("it said %q, %v", said, err)
	}
	const size = 5_000_000
	if _, err := in.Write(make([]byte, size)); err != nil {
		t.Error(err)
	}
	in.Close()
	if err := dial.Wait(); err != nil {
		t.Error(err)
	}
	if h := <-got; h.n != size || h.err != nil {
		t.Errorf("the peer has got %d bytes of %d, %v", h.n, size, h.err)
	}
}

// What is cut, by an interrupt or by an input that cannot be read, is a reset for the peer
// and a failure here.
func TestDialCutIsNoEnd(t *testing.T) {
	berth, dir := portsPlace(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		port, got := peer(t, false)
		dial := berth("dial", "--key", "k", port)
		in, err := dial.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := dial.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := dial.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write(make([]byte, 100_000)); err != nil {
			t.Error(err)
		}
		_, _ = io.ReadFull(out, make([]byte, len("hello")))
		_ = dial.Process.Signal(sig)
		if status := statusOf(t, dial.Wait()); status != 128+int(sig) {
			t.Errorf("%v: status %d", sig, status)
		}
		if h := <-got; h.err == nil {
			t.Errorf("%v: the peer takes %d bytes for all", sig, h.n)
		}
	}
	port, got := peer(t, false)
	dial := berth("dial", "--key", "k", port)
	stdin, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	dial.Stdin = stdin
	out, err := dial.CombinedOutput()
	if status := statusOf(t, err); status == 0 || !strings.Contains(string(out), "our input: ") {
		t.Errorf("an input that is a directory: status %d, %s", status, out)
	}
	if h := <-got; h.err == nil {
		t.Error("an input that cannot be read is an end for the peer")
	}
}

// words are what a program says, which may be read while it speaks.
type words struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.String()
}

// startForward starts a forward and returns the address on which it listens here.
func startForward(t *testing.T, forward *exec.Cmd) (local string, complaints *words) {
	t.Helper()
	said, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	complaints = &words{}
	forward.Stderr = complaints
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if forward.ProcessState == nil {
			_ = forward.Process.Kill()
			_ = forward.Wait()
		}
	})
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatalf("forward: %v %s", err, complaints)
	}
	local, _, _ = strings.Cut(line, " ")
	return local, complaints
}

// A forward ends with its sandbox, however that ends, and says so.
func TestForwardEndsWithItsSandbox(t *testing.T) {
	for name, end := range map[string][]string{
		"down": {"down", "--key", "k"},
		"lost": {"exec", "--key", "k", "--", "sh", "-c", "kill -9 $PPID"},
	} {
		for _, route := range []string{"0:9", "--reverse=@berth-end-" + rand.Text() + ":9"} {
			t.Run(name+route[:2], func(t *testing.T) {
				berth, _ := portsPlace(t)
				forward := berth("forward", "--key", "k", route)
				_, complaints := startForward(t, forward)
				out, err := berth(end...).CombinedOutput()
				if name == "down" && err != nil {
					t.Fatalf("%v %s", err, out)
				}
				if status := statusOf(t, forward.Wait()); status != 4 || !strings.Contains(complaints.String(), "not found: the sandbox has ended") {
					t.Errorf("it ended with %d, and said %q", status, complaints)
				}
			})
		}
	}
}

// A forward that has no descriptors left does not end of it, and says it once.
func TestForwardOutlivesAShortage(t *testing.T) {
	berth, _ := portsPlace(t)
	greeter, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer greeter.Close()
	go func() {
		for {
			conn, err := greeter.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Write([]byte("hello"))
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(greeter.Addr().String())
	plain := berth("forward", "--key", "k", "0:"+port)
	forward := exec.Command("sh", append([]string{"-c", `ulimit -n 40; exec "$0" "$@"`}, plain.Args...)...)
	forward.Env, forward.Dir = plain.Env, plain.Dir
	local, complaints := startForward(t, forward)
	var conns []net.Conn
	for range 80 {
		conn, err := net.Dial("tcp", local)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	const note = "whoever comes waits"
	for late := time.Now().Add(30 * time.Second); !strings.Contains(complaints.String(), note) && time.Now().Before(late); {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(time.Second) // the shortage goes on, and nothing more is said
	for _, conn := range conns {
		conn.Close()
	}
	_ = forward.Process.Signal(syscall.SIGINT)
	if status := statusOf(t, forward.Wait()); status != 0 || strings.Count(complaints.String(), note) != 1 {
		t.Errorf("forward ended with %d, and said %q", status, complaints)
	}
}

// A unix socket is made for its owner alone, and one that a killed forward has left behind
// is replaced; one that is served is not, nor is a file.
func TestForwardReplacesAStaleSocket(t *testing.T) {
	berth, dir := portsPlace(t)
	path := filepath.Join(dir, "s")
	killed := berth("forward", "--key", "k", "./s:9")
	startForward(t, killed)
	if out, err := berth("forward", "--key", "k", "./s:9").CombinedOutput(); err == nil {
		t.Errorf("a socket in use is taken over: %s", out)
	}
	_ = killed.Process.Kill()
	_ = killed.Wait()
	forward := berth("forward", "--key", "k", "./s:9")
	_, complaints := startForward(t, forward)
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v %v", info, err)
	}
	_ = forward.Process.Signal(syscall.SIGINT)
	if status := statusOf(t, forward.Wait()); status != 0 || !strings.Contains(complaints.String(), "was left behind") {
		t.Errorf("forward ended with %d, and said %q", status, complaints)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := berth("forward", "--key", "k", "./s:9").CombinedOutput(); err == nil {
		t.Errorf("a file is replaced: %s", out)
	}
}
