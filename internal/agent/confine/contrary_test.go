//go:build linux

package confine_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// turncoat connects sockets to listeners whose queues are full, while other threads of it
// make them blocking again and again.
func turncoat(args []string) error {
	const sockets = 12
	var port int
	if _, err := fmt.Sscan(args[1], &port); err != nil {
		return err
	}
	for n := range sockets {
		fd, err := socket(unix.SOCK_STREAM | unix.SOCK_NONBLOCK)
		if err != nil {
			return err
		}
		target := address(args[0])
		if n%4 == 0 {
			fd, target = inetSocket(unix.SOCK_STREAM), loopback(port)
		}
		go func() {
			for {
				_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK)
				_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
			}
		}()
		go func() {
			for {
				_ = call(unix.SYS_CONNECT, fd, target)
			}
		}()
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return nil
}

// contrary works beside such a command, and after its death.
func contrary([]string) error {
	// Its own process listens: the death of the other one frees nobody.
	l, err := listen(unix.SOCK_STREAM, "full", 0)
	if err != nil {
		return err
	}
	defer unix.Close(l)
	for {
		fd, err := socket(unix.SOCK_STREAM | unix.SOCK_NONBLOCK)
		if err != nil {
			return err
		}
		if err := call(unix.SYS_CONNECT, fd, address("full")); err == unix.EAGAIN {
			break
		} else if err != nil {
			return err
		}
	}
	busy, port := full()
	defer unix.Close(busy)
	other := exec.Command("/proc/self/exe", asCommand, "turncoat", "full", fmt.Sprint(port))
	stdout, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		return err
	}
	defer other.Wait()
	defer other.Process.Kill()
	var line string
	if _, err := fmt.Fscanln(stdout, &line); err != nil || line != "ready" {
		return fmt.Errorf("%q: %w", line, err)
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		if !works() {
			fmt.Println("stuck beside it")
			return nil
		}
	}
	if err := other.Process.Kill(); err != nil {
		return err
	}
	fmt.Println("beside it, and after it:", works())
	return nil
}

// works reports whether connections and listeners can be made, soon.
func works() bool {
	done := make(chan bool)
	go func() {
		name := fmt.Sprint("works-", time.Now().UnixNano())
		l, err := listen(unix.SOCK_STREAM, name, 1)
		if err != nil {
			done <- false
			return
		}
		defer unix.Close(l)
		defer os.Remove(name)
		tcp, port := inetListen(1)
		defer unix.Close(tcp)
		done <- dial(unix.SOCK_STREAM, name) == nil && call(unix.SYS_CONNECT, inetSocket(unix.SOCK_STREAM), loopback(port)) == nil
	}()
	select {
	case ok := <-done:
		return ok
	case <-time.After(20 * time.Second):
		return false
	}
}

// TestContrary defends: a command whose threads make a socket blocking while the guest
// connects it holds up nobody.
func TestContrary(t *testing.T) {
	if out := (place{}).run(t, openDir(t), "contrary"); out != "beside it, and after it: true\n" {
		t.Error(out)
	}
}

// TestFlagsStay defends: a socket is as blocking after a connection as it was before, also
// when two threads connect it at one time.
func TestFlagsStay(t *testing.T) {
	if out := (place{}).run(t, openDir(t), "flags"); out != "0x2 0x802\n" {
		t.Error(out)
	}
}

// sameFlags connects sockets twice at one time, and prints what flags they have then.
func sameFlags([]string) error {
	l, err := listen(unix.SOCK_STREAM, "s", 512)
	if err != nil {
		return err
	}
	go drain(l)
	seen := map[int]map[int]bool{0: {}, unix.SOCK_NONBLOCK: {}}
	for n := range 600 {
		kind := []int{0, unix.SOCK_NONBLOCK}[n%2]
		fd, err := socket(unix.SOCK_STREAM | kind)
		if err != nil {
			return err
		}
		done := make(chan struct{})
		go func() {
			_ = call(unix.SYS_CONNECT, fd, address("s"))
			close(done)
		}()
		_ = call(unix.SYS_CONNECT, fd, address("s"))
		<-done
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			return err
		}
		seen[kind][flags] = true
		unix.Close(fd)
	}
	for _, kind := range []int{0, unix.SOCK_NONBLOCK} {
		for flags := range seen[kind] {
			if kind != 0 {
				fmt.Print(" ")
			}
			fmt.Printf("%#x", flags)
		}
	}
	fmt.Println()
	return nil
}

// crowd has callers that wait for a listener which answers nobody, more of them than the
// guest has descriptors.
func crowd([]string) error {
	const callers = 300
	slow, err := listen(unix.SOCK_STREAM, "slow", 0)
	if err != nil {
		return err
	}
	defer unix.Close(slow)
	good, err := listen(unix.SOCK_STREAM, "good", 16)
	if err != nil {
		return err
	}
	go drain(good)
	refused := make(chan struct{}, callers)
	for range callers {
		fd, err := socket(unix.SOCK_STREAM)
		if err != nil {
			return err
		}
		go func() {
			if call(unix.SYS_CONNECT, fd, address("slow")) == unix.EAGAIN {
				refused <- struct{}{}
			}
		}()
	}
	<-refused // as many as may wait do
	fmt.Println(name(dial(unix.SOCK_STREAM, "good")))
	return nil
}

// TestCrowd defends: callers that wait take half of the guest's descriptors and no more, so
// that it has some left for others.
func TestCrowd(t *testing.T) {
	if out := (place{env: []string{"NOFILE=128"}}).run(t, openDir(t), "crowd"); out != "ok\n" {
		t.Error(out)
	}
}

// TestReadOnlyName defends: a name on a mount that nobody in the place can write leads to no
// listener of it, whatever its number.
func TestReadOnlyName(t *testing.T) {
	dir := openDir(t)
	p := place{more: []string{"--ro-bind", dir, "/mnt"}}
	if out := p.run(t, dir, "alias", filepath.Join(dir, "s"), "/mnt/s"); out != "ok EACCES\n" {
		t.Error(out)
	}
}

// alias listens on the first name and connects to both.
func alias(names []string) error {
	l, err := listen(unix.SOCK_STREAM, names[0], 16)
	if err != nil {
		return err
	}
	go drain(l)
	fmt.Println(name(dial(unix.SOCK_STREAM, names[0])), name(dial(unix.SOCK_STREAM, names[1])))
	return nil
}
