//go:build linux

package agent_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// terminate asks for the end of what runs under a key.
func (h *host) terminate(key string, grace time.Duration) spec.KillOutcome {
	h.t.Helper()
	reply, err := h.call(&wire.Request{Op: wire.OpTerminate, Terminate: &wire.TerminateRequest{Key: key, GraceMS: grace.Milliseconds()}})
	if err != nil {
		h.t.Fatalf("terminate %s: %v", key, err)
	}
	return spec.KillOutcome(reply.Kill)
}

// Without a group for each command there is proof all the same where nothing is left
// below the guest, and none where another command runs.
func TestTerminateProvesByAbsence(t *testing.T) {
	p := startPlaceUnder(t, withoutGroups(t), "--ephemeral")
	h := p.dial("a")
	if h.hello.KillTree != string(spec.KillTreeBestEffort) {
		t.Fatalf("tree kill %q without groups", h.hello.KillTree)
	}
	hidden := `(env -i PATH="$PATH" setsid sh -c '(sh -c "echo \$PPID >hidden"; exec sleep 311) &'); echo up; exec sleep 311`
	r := h.mustStart(withKey(shell(hidden), "alone"))
	escaped := findProc(t, p.fileText("hidden"))
	if got := h.terminate("alone", -1); got != spec.KillTerminated || escaped.alive() {
		t.Errorf("alone: %q, what hid lives: %v", got, escaped.alive())
	}
	if got := r.wait(); got.Exit.Kill != spec.KillTerminated {
		t.Errorf("the exit says %q", got.Exit.Kill)
	}
	other := h.mustStart(shell("echo up; exec sleep 312"))
	r = h.mustStart(withKey(shell("echo up; exec sleep 313"), "beside"))
	if got := h.terminate("beside", -1); got != spec.KillUnknown {
		t.Errorf("beside another: %q; want unknown", got)
	}
	if got := r.wait(); got.Exit.Kill != spec.KillUnknown || len(got.Exit.Survivors) > 0 {
		t.Errorf("the exit says %q, survivors %v", got.Exit.Kill, got.Exit.Survivors)
	}
	other.tell(killNow)
	other.wait()
}

// What an earlier guest knew is unknown to the next one; what it had noted of jobs is
// not.
func TestTerminateAfterTheGuest(t *testing.T) {
	state := t.TempDir()
	p := startPlace(t, "--state", state)
	h := p.dial("a")
	if got := h.terminate("never", -1); got != spec.KillExited {
		t.Errorf("in a new place: %q", got)
	}
	job := func(key string, args ...string) {
		t.Helper()
		req := command(args...)
		req.Key = key
		if _, err := h.call(&wire.Request{Op: wire.OpJobStart, Exec: req, Job: &wire.JobRequest{}}); err != nil {
			t.Fatal(err)
		}
	}
	job("killed", "sleep", "314")
	killed := h.terminate("killed", -1)
	job("lost", "sleep", "315")
	lost := leaderOf(t, h, "lost")
	_ = p.cmd.Process.Kill()
	<-p.ended
	lost.kill() // where there are no groups it lives

	h = startPlace(t, "--state", state).dial("b")
	for key, want := range map[string]spec.KillOutcome{"killed": killed, "lost": spec.KillUnknown, "never": spec.KillUnknown} {
		if got := h.terminate(key, -1); got != want {
			t.Errorf("%s: %q; want %q", key, got, want)
		}
	}
}

// leaderOf finds the leader of what runs under a key.
func leaderOf(t *testing.T, h *host, key string) proc {
	t.Helper()
	reply, err := h.call(&wire.Request{Op: wire.OpRunning})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reply.Running {
		if r.Key == key {
			return findProc(t, itoa(r.PID))
		}
	}
	t.Fatalf("nothing runs under %s: %+v", key, reply.Running)
	return proc{}
}

// A pid that has been given to another process is not that of the command any more: what
// has it now is spared, even as a leader, or as the head of a session.
func TestTerminateKnowsARecycledPID(t *testing.T) {
	needNamespaces(t)
	p := startPlaceUnder(t, append(withoutGroups(t), inNamespace...), "--ephemeral")
	h := p.dial("a")
	next := filepath.Join(p.workdir, "next")
	// The leader ends and leaves a child behind, whose pid is far off.
	first := h.mustStart(withKey(shell("echo 5000 >/proc/sys/kernel/ns_last_pid; setsid sleep 316 & echo up"), "first"))
	pid := first.started.PID
	first.wait()
	reuse := h.mustStart(shell("echo " + itoa(pid-2) + " >/proc/sys/kernel/ns_last_pid; : >next; echo up; exec sleep 317"))
	eventually(t, "the counter is set back", func() bool { _, err := os.Stat(next); return err == nil })
	var others []*running
	for try := 0; try < 8; try++ {
		r := h.mustStart(shell("setsid sleep 318 & exec sleep 318"))
		others = append(others, r)
		if r.started.PID == pid {
			break
		}
	}
	if last := others[len(others)-1]; last.started.PID != pid {
		t.Skipf("pid %d is not given again: %d", pid, last.started.PID)
	}
	before := 2 + 2*len(others)
	eventually(t, "all run", func() bool { return len(runIn(p.workdir)) == before })
	if got := h.terminate("first", -1); got != spec.KillExited {
		t.Errorf("the answer is %q", got)
	}
	if after := len(runIn(p.workdir)); after != before-1 {
		t.Errorf("of %d processes %d are left; want one less", before, after)
	}
	for _, r := range append(others, reuse) {
		r.tell(killNow)
		r.wait()
	}
}
