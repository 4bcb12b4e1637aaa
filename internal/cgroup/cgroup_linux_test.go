package cgroup_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/cgroup"
	"github.com/berth-dev/berth/spec"
)

// joinArg makes the test binary a process that joins, by the mover that follows, the groups
// which follow, lets go of descriptor 3 and becomes a shell with a child. makeArg makes it one that makes a group of
// the name which follows, says where and waits.
const (
	joinArg = "berth-join-reexec"
	makeArg = "berth-make-reexec"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case joinArg:
			var err error
			for _, dir := range os.Args[3:] {
				err = errors.Join(err, cgroup.Join(dir, os.Args[2]))
			}
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			unix.CloseOnExec(3)
			fmt.Println(unix.Exec("/bin/sh", []string{"sh", "-c", "(setsid sleep 1000 &) ; exec sleep 1000"}, os.Environ()))
			os.Exit(1)
		case makeArg:
			h, err := cgroup.Discover()
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			g, err := h.Make(os.Args[2], spec.Limits{PIDs: 100})
			fmt.Println(strings.Join(g.Dirs, " "), err)
			_, _ = os.Stdin.Read(make([]byte, 1))
			runtime.KeepAlive(g)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// discover returns the real machine; where this user can make no groups on it, a test is
// skipped.
func discover(t *testing.T) *cgroup.Host {
	t.Helper()
	h, err := cgroup.Discover()
	if err != nil {
		t.Fatal(err)
	}
	if why := h.Probe(t.Context()); len(why) > 0 {
		t.Skipf("this machine lets us make no groups: %v", why)
	}
	return h
}

// release lets go of a group that nobody is to join.
func release(g cgroup.Group) {
	if g.Hold != nil {
		g.Hold.Close()
	}
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
	cmd := exec.Command("/proc/self/exe", append([]string{joinArg, g.Mover}, g.Dirs...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if g.Hold != nil {
		cmd.ExtraFiles = []*os.File{g.Hold}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	release(g) // the group is there as long as somebody is in it, or is about to be
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	members := func() int {
		n := 0
		data, _ := os.ReadFile(filepath.Join(g.Dirs[len(g.Dirs)-1], "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(data)) {
			if name, _ := os.ReadFile("/proc/" + pid + "/comm"); string(name) == "sleep\n" {
				n++
			}
		}
		return n
	}
	for members() < 2 {
		select {
		case err := <-ended:
			t.Fatalf("the process ended: %v: %s", err, said.String())
		case <-time.After(time.Millisecond):
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
		defer release(g)
		if err := h.Verify(g.Dirs, spec.Limits{PIDs: pids}); err != nil {
			t.Error(err)
		}
	}
}

// A limit that the kernel does not take as asked is unsupported, the error names it, and
// the directories that were made before are gone.
func TestMakeRefuses(t *testing.T) {
	h := discover(t)
	tooMany := name(t) + "-pids"
	const most = 1 << 30 // the kernel has no more pids than 1<<22
	_, err := h.Make(tooMany, spec.Limits{MemoryBytes: 64 << 20, PIDs: most})
	if spec.CodeOf(err) != spec.CodeUnsupported || !strings.Contains(err.Error(), "limit_pids") {
		t.Errorf("more processes than a machine has: %v", err)
	}
	if left := h.Lookup(tooMany); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	if h.Unified(cgroup.CPU) {
		return // v2 takes any limit of a group, and enforces that of the group above as well
	}
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

// A group is made anew by whoever has its name, also when the program that made it was
// killed before anybody had joined; as a scope of systemd it is gone with that program.
func TestMakerKilled(t *testing.T) {
	h := discover(t)
	group := name(t)
	maker := exec.Command("/proc/self/exe", makeArg, group)
	stdin, err := maker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := maker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := maker.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasSuffix(line, " <nil>\n") {
		t.Errorf("the maker says %q, %v", line, err)
	}
	if err := maker.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = maker.Wait() // it was killed
	if h.Scopes() {
		eventually(t, "the scope is gone", func() bool { return len(h.Lookup(group)) == 0 })
	} else if len(h.Lookup(group)) == 0 {
		t.Error("the group is not found")
	}
	g, err := h.Make(group, spec.Limits{PIDs: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer release(g)
	if err := h.Verify(g.Dirs, spec.Limits{PIDs: 200}); err != nil {
		t.Error(err)
	}
	if err := h.Remove(group, g.Dirs); err != nil {
		t.Error(err)
	}
}

// A limit stays in force whatever systemd does with its other units: it takes controllers
// away from groups that it did not make.
func TestLimitsOutliveUnits(t *testing.T) {
	h := discover(t)
	if !h.Scopes() {
		t.Skip("systemd does not run this machine, or not with v2")
	}
	group, limits := name(t), spec.Limits{CPUMillis: 500}
	g, err := h.Make(group, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Remove(group, g.Dirs) })
	defer release(g)
	manager := "--user"
	if os.Geteuid() == 0 {
		manager = "--system"
	}
	// The slice of the group has a unit with a limit on CPU, and then has none but ours.
	beside := group + "-beside"
	args := []string{manager, "--scope", "--quiet", "--collect", "--unit=" + beside, "--property=CPUQuota=50%", "true"}
	if out, err := exec.Command("systemd-run", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	eventually(t, "the other unit is gone", func() bool { return len(h.Lookup(beside)) == 0 })
	if out, err := exec.Command("systemctl", manager, "daemon-reload").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := h.Verify(g.Dirs, limits); err != nil {
		t.Error(err)
	}
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so: %s", what)
		}
	}
}
