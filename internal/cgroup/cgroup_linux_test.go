package cgroup_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/cgroup"
	"github.com/berth-dev/berth/spec"
)

// discover returns the real machine, on which a test needs root: elsewhere it is skipped.
func discover(t *testing.T) *cgroup.Host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("groups of a real kernel need root here")
	}
	h, err := cgroup.Discover()
	if err != nil {
		t.Fatal(err)
	}
	if why := h.Probe(t.Context()); len(why) > 0 {
		t.Skipf("this machine lets us make no groups: %v", why)
	}
	return h
}

// name is one that no other run of these tests uses.
func name(t *testing.T) string {
	return cgroup.Prefix + "test-" + strings.ToLower(t.Name()) + "-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
}

// A limit that is set reads back; the group holds what joins it, and Remove kills that
// and leaves nothing.
func TestMakeJoinRemove(t *testing.T) {
	h := discover(t)
	group := name(t)
	g, err := h.Make(group, spec.Limits{MemoryBytes: 64<<20 + 17, PIDs: 100, CPUMillis: 500})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Remove(group, g.Dirs) })
	if g.Memory == "" || len(g.Dirs) == 0 {
		t.Fatalf("the group is %+v", g)
	}
	if err := h.Verify(g.Dirs, spec.Limits{MemoryBytes: 64<<20 + 17, PIDs: 100, CPUMillis: 500}); err != nil {
		t.Errorf("what was set does not verify: %v", err)
	}
	if err := h.Verify(g.Dirs, spec.Limits{PIDs: 101}); spec.CodeOf(err) != spec.CodeUnsupported {
		t.Errorf("another limit verifies: %v", err)
	}
	script := `for d; do echo 0 >"$d/cgroup.procs" || exit 1; done; (setsid sleep 1000 &) ; exec sleep 1000`
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, g.Dirs...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	members := func() int {
		data, _ := os.ReadFile(filepath.Join(g.Dirs[len(g.Dirs)-1], "cgroup.procs"))
		return len(strings.Fields(string(data)))
	}
	for members() < 2 {
		select {
		case err := <-ended:
			t.Fatalf("the process ended: %v", err)
		default:
		}
	}
	if found := h.Lookup(group); len(found) != len(g.Dirs) {
		t.Errorf("found again: %q, want %q", found, g.Dirs)
	}
	if err := h.Remove(group, g.Dirs); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("what lived in the group ended by itself")
	}
	if found := h.Lookup(group); len(found) > 0 {
		t.Errorf("left over: %q", found)
	}
	if err := h.Remove(group, g.Dirs); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

// Making a group again takes the place of the one that was left behind.
func TestMakeReplaces(t *testing.T) {
	h := discover(t)
	group := name(t)
	for _, pids := range []int64{100, 200} {
		g, err := h.Make(group, spec.Limits{PIDs: pids})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Remove(group, g.Dirs) })
		if err := h.Verify(g.Dirs, spec.Limits{PIDs: pids}); err != nil {
			t.Error(err)
		}
	}
}

// A limit that the kernel does not take as asked is unsupported, the error names it, and
// the directories that were made before are gone.
func TestMakeRefuses(t *testing.T) {
	h := discover(t)
	outer := name(t)
	g, err := h.Make(outer, spec.Limits{CPUMillis: 500})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Remove(outer, g.Dirs) })
	// The limit of a group above is no limit of this one: the kernel refuses more CPU.
	inner := h.Below(g.Dirs[0])
	_, err = inner.Make(outer+"-inner", spec.Limits{PIDs: 100, CPUMillis: 2000})
	if spec.CodeOf(err) != spec.CodeUnsupported || !strings.Contains(err.Error(), "limit_cpu") || !strings.Contains(err.Error(), "2000") {
		t.Errorf("more than the group above has: %v", err)
	}
	if left := h.Lookup(outer + "-inner"); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// Limits too small for a guest are invalid, before anything is made.
func TestLeast(t *testing.T) {
	for _, l := range []spec.Limits{{MemoryBytes: 1 << 20}, {PIDs: 3}, {CPUMillis: 1}} {
		if err := cgroup.Check(l); spec.CodeOf(err) != spec.CodeInvalid {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if err := cgroup.Check(spec.Limits{}); err != nil {
		t.Error(err)
	}
}

// Nothing but a control group of ours is ever killed or removed.
func TestRemoveKeepsOut(t *testing.T) {
	h := &cgroup.Host{}
	dir := filepath.Join(t.TempDir(), "berth-x")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct{ name, dir string }{{"berth-x", dir}, {"berth-y", dir}, {"../x", dir}, {"berth-", dir}, {"x", dir}} {
		if err := h.Remove(try.name, []string{try.dir}); err == nil {
			t.Errorf("%q removes %s", try.name, try.dir)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

// A probe that is called off says so.
func TestProbeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := &cgroup.Host{}
	if why := h.Probe(ctx); len(why) != 3 {
		t.Errorf("it says %v", why)
	}
}
