//go:build linux

package agent_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// children calls f with the pid and the command line of each child of the guest, over and
// over, until the test ends or stop is called.
func (p *place) children(f func(pid int, cmdline []byte)) (stop func()) {
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !over.Load() {
			lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
			for _, l := range lists {
				data, _ := os.ReadFile(l)
				for _, text := range strings.Fields(string(data)) {
					pid, _ := strconv.Atoi(text)
					cmdline, err := os.ReadFile("/proc/" + text + "/cmdline")
					if err == nil && pid > 0 {
						f(pid, cmdline)
					}
				}
			}
		}
	}()
	stop = func() {
		over.Store(true)
		<-done
	}
	p.t.Cleanup(stop)
	return stop
}

// setsUp reports whether a command line is that of what sets a command up.
func setsUp(cmdline []byte) bool { return bytes.Contains(cmdline, []byte("\x00launch\x00")) }

// What a command gets in its environment, and the word by which it is found again, stand
// on no command line, which every process of the machine can read.
func TestSetupTellsNobody(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	var seen, leaked atomic.Int64
	p.children(func(_ int, cmdline []byte) {
		if setsUp(cmdline) {
			seen.Add(1)
		}
		if bytes.Contains(cmdline, []byte("hunter2")) || bytes.Contains(cmdline, []byte("BERTH_COMMAND=")) {
			leaked.Add(1)
		}
	})
	eventually(t, "a setup is seen", func() bool {
		r := withUmask(0o022, shell(`test "${#API_TOKEN}" = 7`))
		r.Env = map[string]wire.Bytes{"API_TOKEN": wire.Bytes("hunter2")}
		if got := h.run(r); got.Exit.Code != 0 {
			t.Fatalf("%+v", got)
		}
		return seen.Load() >= 3
	})
	if n := leaked.Load(); n > 0 {
		t.Errorf("a secret was to be read %d times", n)
	}
}

// Nobody else can write into the report of a start, and what was started is not started
// again for it.
func TestReportIsNotForged(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	var seen, forged atomic.Int64
	p.children(func(pid int, cmdline []byte) {
		if !setsUp(cmdline) {
			return
		}
		seen.Add(1)
		if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/3", pid), os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			forged.Add(1)
			for range 50 { // behind what it says itself
				_, _ = f.WriteString(" ")
				time.Sleep(time.Millisecond)
			}
			f.Close()
		}
	})
	starts := 0
	eventually(t, "a setup is seen", func() bool {
		starts++
		if got := h.run(withUmask(0o022, shell("echo x >>starts"))); got.Exit.Code != 0 {
			t.Fatalf("%+v", got)
		}
		return seen.Load() >= 3
	})
	if got := p.fileText("starts"); got != strings.Repeat("x\n", starts) || forged.Load() > 0 {
		t.Errorf("%d reports were written to, and of %d starts there were %q", forged.Load(), starts, got)
	}
}

// A process that is stopped while it becomes a command goes on.
func TestStoppedSetupGoesOn(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	stopped := map[int]bool{}
	var hits atomic.Int64
	p.children(func(pid int, cmdline []byte) {
		if setsUp(cmdline) && !stopped[pid] && unix.Kill(pid, unix.SIGSTOP) == nil {
			stopped[pid] = true
			hits.Add(1)
		}
	})
	eventually(t, "one is stopped", func() bool {
		if got := h.run(withUmask(0o022, withTimeout(command("echo", "x"), 15*time.Second))); got.Stdout != "x\n" {
			t.Fatalf("%+v", got)
		}
		return hits.Load() >= 3
	})
}

// Whoever stops starting commands again and again keeps neither the others from running
// nor the place from its end.
func TestStubbornStopperIsOutlived(t *testing.T) {
	p := startPlace(t, "--ttl", "12s")
	h := p.dial("a")
	p.children(func(pid int, cmdline []byte) {
		if setsUp(cmdline) {
			_ = unix.Kill(pid, unix.SIGSTOP)
		}
	})
	begun := time.Now()
	if _, err := h.start(withUmask(0o022, shell("sleep 300"))); err != nil && spec.CodeOf(err) != spec.CodeUnavailable {
		t.Errorf("%v, want a start or unavailable", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the start took %v", took)
	}
	if got := h.run(command("echo", "x")); got.Stdout != "x\n" {
		t.Errorf("another: %+v", got)
	}
	go func() { _, _ = h.start(withUmask(0o022, shell("sleep 300"))) }()
	p.waitEnd(time.Until(begun.Add(35 * time.Second)))
}

// frozen starts a command in a group that is frozen, so that its process stays between
// its fork and its exec, and returns the process.
func (p *place) frozen(h *host, req *wire.ExecRequest) (pid int, started <-chan error, thaw func()) {
	p.t.Helper()
	h.run(command("true"))
	groups := p.groups()
	if len(groups) == 0 {
		p.t.Skip("no cgroup can be made here")
	}
	freeze := func(text string) {
		for _, dir := range groups {
			if _, err := os.Stat(filepath.Join(dir, "cgroup.freeze")); err == nil {
				if err := os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte(text), 0); err != nil {
					p.t.Fatal(err)
				}
			}
		}
	}
	thaw = func() { freeze("0") }
	freeze("1")
	begun := make(chan error, 1)
	go func() {
		_, err := h.start(req)
		begun <- err
	}()
	eventually(p.t, "the process is there", func() bool {
		for _, dir := range groups {
			data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			if f := strings.Fields(string(data)); len(f) == 1 {
				pid, _ = strconv.Atoi(f[0])
			}
		}
		return pid > 0
	})
	return pid, begun, thaw
}

// A process that is stopped between its fork and its exec, where the guest waits for it,
// goes on; one that is stopped again and again is given up at last.
func TestStoppedForkGoesOn(t *testing.T) {
	for name, again := range map[string]bool{"once": false, "again and again": true} {
		t.Run(name, func(t *testing.T) {
			p := startPlace(t)
			h := p.dial("a")
			pid, started, thaw := p.frozen(h, shell("sleep 300"))
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			thaw()
			late := time.After(10 * time.Second)
			var err error
			for waiting := true; waiting; {
				select {
				case err = <-started:
					waiting = false
				case <-late:
					_ = unix.Kill(pid, unix.SIGKILL)
					t.Fatal("it does not start")
				default:
					if again {
						_ = unix.Kill(pid, unix.SIGSTOP)
					}
				}
			}
			if err != nil && !(again && spec.CodeOf(err) == spec.CodeUnavailable) {
				t.Errorf("start: %v", err)
			}
			t.Logf("start: %v", err)
			if got := h.run(command("echo", "x")); got.Stdout != "x\n" {
				t.Errorf("the next: %+v", got)
			}
		})
	}
}
