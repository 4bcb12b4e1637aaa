//go:build linux

package dockertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Crash kills the daemon, which can tidy nothing up; what it has started may live on. An
// engine that is not ours skips the test.
func (e *Engine) Crash(t testing.TB) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.daemon == nil {
		t.Skip("the engine is not ours")
	}
	_ = unix.Kill(e.daemon.pid, unix.SIGKILL)
	<-e.daemon.exited
}

// Restart starts the daemon after Crash, and returns when it answers.
func (e *Engine) Restart(t testing.TB) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.daemon
	// The numbers in them may be other processes by now, or some that nobody has waited
	// for, which the daemon takes for living ones.
	for _, file := range []string{"pid", "exec/containerd/containerd.pid"} {
		_ = os.Remove(filepath.Join(d.dir, file))
	}
	cmd := exec.Command(d.cmd.Path, d.cmd.Args[1:]...)
	cmd.SysProcAttr, cmd.Env = d.cmd.SysProcAttr, d.cmd.Env
	d.exited = make(chan struct{})
	if err := d.run(cmd); err != nil {
		close(d.exited)
		t.Fatalf("restart the engine: %v", err)
	}
	if err := e.waitReady(); err != nil {
		t.Fatalf("restart the engine: %v", err)
	}
}
