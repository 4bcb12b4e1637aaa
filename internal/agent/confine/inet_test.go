//go:build linux

package confine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// loopback is an internet address of this machine.
func loopback(port int) []byte {
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
	b = binary.BigEndian.AppendUint16(b, uint16(port))
	return append(b, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)
}

func inetSocket(kind int) int {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	return fd
}

// inetListen listens on a port that the kernel chooses.
func inetListen(backlog int) (fd, port int) {
	fd = inetSocket(unix.SOCK_STREAM)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		panic(err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		panic(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		panic(err)
	}
	return fd, at.(*unix.SockaddrInet4).Port
}

// full returns the port of a listener that answers nobody: its queue is full.
func full() (listener, port int) {
	listener, port = inetListen(0)
	for {
		fd := inetSocket(unix.SOCK_STREAM | unix.SOCK_NONBLOCK)
		_ = call(unix.SYS_CONNECT, fd, loopback(port))
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, _ := unix.Poll(p, 100); n == 0 {
			return listener, port
		}
	}
}

// pending is the error of a socket, after it has said that it has something to say.
func pending(fd int) error {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	if n, err := unix.Poll(p, 10_000); n != 1 {
		return fmt.Errorf("poll: %d, %w", n, err)
	}
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil || n == 0 {
		return err
	}
	return unix.Errno(n)
}

// semantics prints what connect says, in cases in which it always says the same.
func semantics([]string) error {
	say := func(what string, err error) { fmt.Println(what, name(err)) }
	l, port := inetListen(16)
	defer unix.Close(l)
	closed, refused := inetListen(0)
	unix.Close(closed)

	for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_STREAM | unix.SOCK_NONBLOCK} {
		for _, port := range []int{port, refused} {
			fd := inetSocket(kind)
			err := call(unix.SYS_CONNECT, fd, loopback(port))
			if err == unix.EINPROGRESS {
				err = pending(fd)
			}
			say(fmt.Sprintf("refused %v, kind %#x:", port == refused, kind), err)
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			say(fmt.Sprintf("flags %#x:", flags), err)
			if port != refused {
				_ = call(unix.SYS_CONNECT, fd, loopback(port)) // the first one tells of the end
				say("again:", call(unix.SYS_CONNECT, fd, loopback(port)))
			}
			unix.Close(fd)
		}
	}
	fd := inetSocket(unix.SOCK_DGRAM)
	say("udp", call(unix.SYS_CONNECT, fd, loopback(9)))
	say("udp again", call(unix.SYS_CONNECT, fd, loopback(port)))
	at, err := unix.Getpeername(fd)
	say("udp peer", err)
	fmt.Println(at.(*unix.SockaddrInet4).Port == port)
	say("udp disconnected", call(unix.SYS_CONNECT, fd, make([]byte, 16)))
	say("a unix address", call(unix.SYS_CONNECT, fd, address("/tmp/x")))
	unix.Close(fd)

	say("closed descriptor", call(unix.SYS_CONNECT, fd, loopback(port)))
	say("bad descriptor", call(unix.SYS_CONNECT, -1, loopback(port)))
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	say("no socket", call(unix.SYS_CONNECT, null, loopback(port)))
	path, err := unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	say("a path", call(unix.SYS_CONNECT, path, loopback(port)))
	for _, domain := range []int{unix.AF_INET, unix.AF_UNIX, unix.AF_NETLINK} {
		fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if domain == unix.AF_NETLINK {
			fd, err = unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		}
		if err != nil {
			return err
		}
		for _, size := range []uintptr{0, 1, 2, 3, 110, 111, 128, 129, ^uintptr(0)} {
			buf := make([]byte, 128)
			_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(bufPointer(buf)), size)
			fmt.Println("family", domain, "size", int32(size), name(errnoOrNil(errno)))
			if size > 2 && domain == unix.AF_UNIX {
				copy(buf, address("none"))
				_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(bufPointer(buf)), size)
				fmt.Println("unix size", int32(size), name(errnoOrNil(errno)))
			}
		}
		_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), 8, 16)
		fmt.Println("bad address", name(errnoOrNil(errno)))
		unix.Close(fd)
	}
	for _, path := range []string{"/nonexistent/x", "/dev/null/x", "/dev/null", "/dev", "none", strings.Repeat("x/", 50)} {
		say("path "+path, dial(unix.SOCK_STREAM, path))
	}
	a, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	say("connected", call(unix.SYS_CONNECT, a[0], address("/dev/null")))
	return nil
}

// TestSemantics defends: connect(2) of a command says in every case what it says without
// a filter.
func TestSemantics(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", asCommand, "semantics")
	var native bytes.Buffer
	cmd.Stdout, cmd.Stderr = &native, &native
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, native.String())
	}
	for what, p := range places(t) {
		t.Run(what, func(t *testing.T) {
			if diff := cmp.Diff(native.String(), p.run(t, openDir(t), "semantics")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// blocked connects to a listener that does not answer, in ways that end.
func blocked([]string) error {
	l, port := full()
	fd := inetSocket(unix.SOCK_STREAM)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: 300_000}); err != nil {
		return err
	}
	begun := time.Now()
	err := call(unix.SYS_CONNECT, fd, loopback(port))
	fmt.Println("with a timeout:", name(err), time.Since(begun) >= 250*time.Millisecond)

	child := exec.Command("/proc/self/exe", asCommand, "dial", fmt.Sprint(port))
	var out bytes.Buffer
	child.Stdout = &out
	if err := child.Start(); err != nil {
		return err
	}
	waitInConnect(child.Process.Pid)
	if err := child.Process.Kill(); err != nil {
		return err
	}
	_ = child.Wait()
	fmt.Println("killed:", child.ProcessState)

	// A stop takes a caller out of its call, and a continue back into it.
	child = exec.Command("/proc/self/exe", asCommand, "dial", fmt.Sprint(port))
	child.Stdout = &out
	if err := child.Start(); err != nil {
		return err
	}
	for range 3 {
		waitInConnect(child.Process.Pid)
		_ = child.Process.Signal(unix.SIGSTOP)
		time.Sleep(20 * time.Millisecond)
		_ = child.Process.Signal(unix.SIGCONT)
		time.Sleep(20 * time.Millisecond)
	}
	go func() {
		for {
			if _, _, err := unix.Accept(l); err != nil {
				return
			}
		}
	}()
	if err := child.Wait(); err != nil {
		return err
	}
	fmt.Print("stopped and continued: ", out.String())
	return nil
}

// waitInConnect waits until a thread of a process is in a call of connect.
func waitInConnect(pid int) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		for _, task := range tasks {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/syscall", pid, task.Name()))
			if strings.HasPrefix(string(text), fmt.Sprintf("%d ", unix.SYS_CONNECT)) {
				return
			}
		}
	}
}

// dialPort connects once, and waits for it.
func dialPort(args []string) error {
	var port int
	if _, err := fmt.Sscan(args[0], &port); err != nil {
		return err
	}
	fmt.Println(name(call(unix.SYS_CONNECT, inetSocket(unix.SOCK_STREAM), loopback(port))))
	return nil
}

// TestBlocked defends: a connection that blocks ends by the socket's own timeout, by the
// death of its caller, and goes on after a signal.
func TestBlocked(t *testing.T) {
	for what, p := range places(t) {
		t.Run(what, func(t *testing.T) {
			want := "with a timeout: EINPROGRESS true\nkilled: signal: killed\nstopped and continued: ok\n"
			if diff := cmp.Diff(want, p.run(t, openDir(t), "blocked")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// interrupt is a program that a signal takes out of connect.
const interrupt = `
import errno, signal, socket, sys
class Stop(Exception): pass
def stop(*_): raise Stop()
signal.signal(signal.SIGALRM, stop)
signal.siginterrupt(signal.SIGALRM, True)
s = socket.socket()
signal.setitimer(signal.ITIMER_REAL, 0.3)
try: s.connect(("127.0.0.1", int(sys.argv[1])))
except Stop: print("interrupted")
`

func interrupted([]string) error {
	_, port := full()
	cmd := exec.Command("/usr/bin/env", "python3", "-c", interrupt, fmt.Sprint(port))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// TestInterrupted defends: a signal with a handler ends a connection that blocks (EINTR).
func TestInterrupted(t *testing.T) {
	if exec.Command("/usr/bin/env", "python3", "-c", "").Run() != nil {
		t.Skip("there is no python3")
	}
	if out := (place{}).run(t, openDir(t), "interrupted"); out != "interrupted\n" {
		t.Error(out)
	}
}

// many has 1,000 callers that block, and works on beside them.
func many(args []string) error {
	const callers = 1000
	blocker, port := full()
	good, goodPort := inetListen(100)
	go drain(good)
	var inConnect sync.WaitGroup
	var waited, refused, other atomic.Int32
	for range callers {
		inConnect.Go(func() {
			fd := inetSocket(unix.SOCK_STREAM)
			defer unix.Close(fd)
			if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 4}); err != nil {
				panic(err)
			}
			switch call(unix.SYS_CONNECT, fd, loopback(port)) {
			case unix.EINPROGRESS:
				waited.Add(1)
			case unix.EAGAIN:
				refused.Add(1)
			default:
				other.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		inConnect.Wait()
		close(done)
	}()
	l, err := listen(unix.SOCK_STREAM, args[0]+"/many", 16)
	if err != nil {
		return err
	}
	rounds, slowest := 0, time.Duration(0)
	for blocked := true; blocked; rounds++ {
		select {
		case <-done:
			blocked = false
		default:
		}
		begun := time.Now()
		if err := converse(l, unix.SOCK_STREAM, "many"); err != nil {
			return err
		}
		fd := inetSocket(unix.SOCK_STREAM | unix.SOCK_NONBLOCK)
		err := call(unix.SYS_CONNECT, fd, loopback(goodPort))
		if err == unix.EINPROGRESS {
			err = pending(fd)
		}
		if err != nil {
			return err
		}
		unix.Close(fd)
		slowest = max(slowest, time.Since(begun))
		time.Sleep(5 * time.Millisecond)
	}
	unix.Close(blocker)
	fmt.Fprintf(os.Stderr, "waited %d, EAGAIN %d, other %d, %d rounds beside them, slowest %v\n", waited.Load(), refused.Load(), other.Load(), rounds, slowest)
	fmt.Println(waited.Load() > 0 && other.Load() == 0 && rounds > 10 && slowest < 3*time.Second)
	return nil
}

func drain(l int) {
	for {
		fd, _, err := unix.Accept(l)
		if err != nil {
			return
		}
		unix.Close(fd)
	}
}

// TestMany defends: 1,000 callers that block do not keep others from connecting.
func TestMany(t *testing.T) {
	cmd := place{}.command(t, openDir(t), "many", ".")
	cmd.Stderr = io.Discard
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.Output()
	if string(out) != "true\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}
