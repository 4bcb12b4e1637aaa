//go:build linux

package dockertest

import (
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Within calls f on a thread that is in the network of the engine's machine, which is this
// one unless the engine has namespaces of its own: what f connects to or listens on is there.
func (e *Engine) Within(t testing.TB, f func()) {
	t.Helper()
	e.Host(t)
	if e.kind != &podman || e.daemon == nil {
		f()
		return
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this function
		done <- enter(e.daemon.pid, f)
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func enter(pid int, f func()) error {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return err
	}
	f()
	return nil
}
