//go:build linux

package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/spec"
)

// dropping skips a test that only root's guard can pass.
func dropping(t *testing.T) {
	t.Helper()
	needBwrap(t)
	if os.Getuid() != 0 {
		t.Skip("only root has something to drop")
	}
}

// owner returns to whom a path on this machine belongs.
func owner(t *testing.T, path ...string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(path...), &st); err != nil {
		t.Fatalf("%s: %v", filepath.Join(path...), err)
	}
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

// unprivileged checks that commands of s are uid, cannot become more, and have no hold on
// what is root's or outside.
func unprivileged(t *testing.T, s driver.Session, uid string) {
	t.Helper()
	outside := exec.Command("sleep", "1000")
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = outside.Process.Kill()
		if state, err := outside.Process.Wait(); err != nil || state.Sys().(interface{ Signal() unix.Signal }).Signal() != unix.SIGKILL {
			t.Errorf("the process outside ended as %v, %v", state, err)
		}
	})
	status := must(t, s, `grep -E '^(Uid|Gid|Groups|Cap|NoNew)' /proc/self/status | tr '\t' ' '`)
	const none = "0000000000000000"
	want := []string{
		"Uid: " + strings.TrimSuffix(strings.Repeat(uid+" ", 4), " "), "Groups:",
		"CapInh: " + none, "CapPrm: " + none, "CapEff: " + none, "CapBnd: " + none, "CapAmb: " + none, "NoNewPrivs: 1",
	}
	for _, line := range want {
		found := false
		for got := range strings.Lines(status) {
			found = found || strings.TrimSpace(got) == line
		}
		if !found {
			t.Errorf("no %q in\n%s", line, status)
		}
	}
	must(t, s, "touch mine && chmod 600 mine && rm mine && touch /tmp/berth-drop-$$ && rm /tmp/berth-drop-$$")
	for _, script := range []string{
		"cat /etc/shadow", "cat /proc/1/environ", "cat /proc/1/mem", "ls /proc/1/fd", "echo x >/proc/1/comm",
		"touch mine; chown 0 mine", "touch mine; chown 1 mine", "kill -9 1; kill -0 2 && kill -9 -1; false",
		fmt.Sprintf("kill -9 %d", outside.Process.Pid), fmt.Sprintf("ls -d /proc/%d", outside.Process.Pid),
		"mount -t tmpfs none /mnt", "unshare -U true", "unshare -m true", "mknod dev c 1 3", "nice -n -5 true 2>&1 | grep -v annot", "su -c true", "setpriv --reuid=0 true",
		"echo x >/proc/sys/kernel/hostname", "dd if=/dev/vda of=/dev/null count=1", "ls /root/.ssh",
	} {
		refused(t, s, script)
	}
	must(t, s, "rm -f mine; true")
}

// TestDropToNobody defends: over a workdir of root, root's guard is nobody and has no right
// of root; what is root's in the workdir can be read and written, and what is made is
// root's on disk. Jobs are kept, and all of it can be removed.
func TestDropToNobody(t *testing.T) {
	dropping(t)
	base := far(t)
	write(t, "text", base, "project", "file")
	if err := errors.Join(os.Chmod(filepath.Join(base, "project"), 0o700), os.Chmod(filepath.Join(base, "project", "file"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, workdir := range map[string]string{"a directory of root": filepath.Join(base, "project"), "its own": ""} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			s := provision(t, open(t, o), spec.Spec{Key: "k", Workdir: workdir, Isolation: spec.IsolationGuard})
			unprivileged(t, s, "65534")
			at := must(t, s, "mkdir -p made/below && echo x >made/below/file && chmod 0 made/below && ln -s file made/link && pwd")
			for _, path := range []string{"made", "made/below", "made/link"} {
				if got := owner(t, at, path); got != "0:0" {
					t.Errorf("%s belongs to %s", path, got)
				}
			}
			if workdir != "" {
				if got := must(t, s, "cat file && echo more >>file && stat -c %U file"); got != "text\nnobody" && !strings.HasSuffix(got, "nobody") {
					t.Errorf("inside: %q", got)
				}
			}
			if _, err := s.(driver.Jobber).StartJob(within(t), &spec.Command{Args: spec.Shell("echo kept")}, spec.JobOptions{}); err != nil {
				t.Errorf("a job: %v", err)
			}
			status, err := s.Status(within(t))
			if err != nil || strings.Contains(status.Notice, "root") {
				t.Errorf("notice %q, %v", status.Notice, err)
			}
		})
	}
}

// TestDropToOwner defends: over a workdir of another user root's guard is that user, with
// no group of root, and what is made is that user's.
func TestDropToOwner(t *testing.T) {
	dropping(t)
	base := far(t)
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, "secret", base, "root.txt")
	write(t, "text", base, "project", "file")
	project := filepath.Join(base, "project")
	if err := errors.Join(os.Chmod(filepath.Join(base, "root.txt"), 0o600), os.Chown(project, 1001, 1001), os.Chown(filepath.Join(project, "file"), 1001, 1001)); err != nil {
		t.Fatal(err)
	}
	s := provision(t, open(t, options(t)), spec.Spec{Workdir: project, Isolation: spec.IsolationGuard})
	unprivileged(t, s, "1001")
	must(t, s, "echo more >>file && echo x >made")
	refused(t, s, "cat ../root.txt")
	if got := owner(t, project, "made"); got != "1001:1001" {
		t.Errorf("what is made belongs to %s", got)
	}
}

// servants lists the processes that name a directory in their arguments.
func servants(dir string) []string {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var out []string
	for _, name := range names {
		if args, err := os.ReadFile(name); err == nil && bytes.Contains(args, []byte(dir)) && filepath.Base(filepath.Dir(name)) != strconv.Itoa(os.Getpid()) {
			out = append(out, filepath.Dir(name)+" "+string(bytes.ReplaceAll(args[:min(len(args), 200)], []byte{0}, []byte{' '})))
		}
	}
	return out
}

// mountinfo is what is mounted on this machine, without what other tests mount.
func mountinfo(t *testing.T, dir string) (out []string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, dir) || strings.Contains(line, "idmapped") {
			out = append(out, line)
		}
	}
	return out
}

// TestDropLife defends: a dropped place is stopped, started again, adopted, attached to and
// reaped by its key like any other; nothing of it is left, no mount either.
func TestDropLife(t *testing.T) {
	dropping(t)
	o := options(t)
	d := open(t, o)
	first := provision(t, d, spec.Spec{Key: "k", Isolation: spec.IsolationGuard})
	must(t, first, "echo 1 >kept; mkdir shut && touch shut/x && chmod 0 shut")
	if left := mountinfo(t, o.StateDir); len(left) > 0 {
		t.Errorf("mounted on this machine: %q", left)
	}
	other := open(t, o)
	attached, err := other.Attach(within(t), "k", driver.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer attached.Close(within(t))
	adopted := provision(t, other, spec.Spec{Key: "k", Isolation: spec.IsolationGuard})
	if got := must(t, attached, "cat kept") + must(t, adopted, "id -u"); got != "165534" {
		t.Errorf("attached and adopted: %q", got)
	}
	if err := d.(driver.Stopper).Stop(within(t), "k", driver.ReapOptions{}); err != nil {
		t.Fatal(err)
	}
	if left := servants(o.StateDir); len(left) > 0 {
		t.Errorf("running after Stop: %q", left)
	}
	again := provision(t, d, spec.Spec{Key: "k", Isolation: spec.IsolationGuard})
	if got := must(t, again, "chmod 700 shut && echo 2 >>kept && cat kept && ls shut"); got != "1\n2\nx" {
		t.Errorf("started again: %q", got)
	}
	must(t, again, "chmod 0 shut")
	reap(t, d, "k")
	if left := servants(o.StateDir); len(left) > 0 {
		t.Errorf("running after Reap: %q", left)
	}
	left(t, o)
}

// TestDropForced defends: a dropped guest that does not answer is ended by force, and the
// record that names it is enough for that.
func TestDropForced(t *testing.T) {
	dropping(t)
	o := options(t)
	d := open(t, o)
	s := provision(t, d, spec.Spec{Key: "k", Isolation: spec.IsolationGuard})
	must(t, s, "setsid sleep 1000 >/dev/null 2>&1 </dev/null & true")
	data, err := os.ReadFile(filepath.Join(o.StateDir, "process", s.ID(), "record.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rec struct {
		PID     int `json:"pid"`
		DropUID int `json:"drop_uid"`
	}
	if err := json.Unmarshal(data, &rec); err != nil || rec.DropUID != 65534 {
		t.Fatalf("record: %s, %v", data, err)
	}
	if got := owner(t, "/proc", strconv.Itoa(rec.PID), "environ"); got != "0:0" { // it may not be dumped
		t.Errorf("the guest's files in /proc belong to %s", got)
	}
	if err := unix.Kill(rec.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	reap(t, d, "k")
	if left := append(servants(o.StateDir), mountinfo(t, o.StateDir)...); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	left(t, o)
}

// TestDropThreads defends: every thread of a dropped guest is the user that it became, with
// no group, no capability in any set and no new privileges, while it serves: this program,
// and the guest binary, which has no C in it and drops root without beginning again.
func TestDropThreads(t *testing.T) {
	dropping(t)
	bin, err := guest.Binary(within(t), "linux", runtime.GOARCH, guest.BinaryOptions{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", bin.Path} {
		o := options(t)
		o.Guest.Path = path
		testDropThreads(t, o)
	}
}

func testDropThreads(t *testing.T, o process.Options) {
	s := provision(t, open(t, o), spec.Spec{Key: "k", Isolation: spec.IsolationGuard})
	must(t, s, "true")
	data, err := os.ReadFile(filepath.Join(o.StateDir, "process", s.ID(), "record.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rec struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", rec.PID))
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads %q, %v", threads, err)
	}
	const none = "0000000000000000"
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		got := map[string]string{}
		for line := range strings.Lines(string(status)) {
			name, value, _ := strings.Cut(line, ":")
			got[name] = strings.Join(strings.Fields(value), " ")
		}
		for name, want := range map[string]string{
			"Uid": "65534 65534 65534 65534", "Gid": "65534 65534 65534 65534", "Groups": "", "NoNewPrivs": "1",
			"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
		} {
			if got[name] != want {
				t.Errorf("%s: %s is %q", thread, name, got[name])
			}
		}
	}
}

// TestDropTells defends: a command or a job behind a wall that fails and says that it was
// refused gets the hint, whoever reads its output; one that is not refused does not; and
// what it has made that programs outside would obey is told once.
func TestDropTells(t *testing.T) {
	dropping(t)
	base := far(t)
	write(t, "x", base, "project", "file")
	s := provision(t, open(t, options(t)), spec.Spec{Workdir: filepath.Join(base, "project"), Isolation: spec.IsolationGuard})
	const denied, other = "echo x >/etc/berth-denied", "ls /nonexistent"
	for _, tc := range []struct {
		name string
		made string // something that programs outside would obey
		run  func(script string) spec.Exit
	}{
		{"merged", ".envrc", func(script string) spec.Exit { _, exit := sh(t, s, script); return exit }},
		{"apart", ".claude", func(script string) spec.Exit {
			return ended(t, s, &spec.Command{Args: spec.Shell(script)}, driver.Stdio{Stderr: new(bytes.Buffer)})
		}},
		{"kept, and read by nobody", ".codex", func(script string) spec.Exit {
			return ended(t, s, &spec.Command{Args: spec.Shell(script), KeepOutput: true}, driver.Stdio{})
		}},
		{"a job", ".gemini", func(script string) spec.Exit {
			jobs := s.(driver.Jobber)
			job, err := jobs.StartJob(within(t), &spec.Command{Args: spec.Shell(script)}, spec.JobOptions{})
			if err == nil {
				job, err = jobs.WaitJob(within(t), "", job.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
			return job.Exit
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if exit := tc.run(denied); exit.Success() || !strings.Contains(exit.Hint, filepath.Join(base, "project")) {
				t.Errorf("refused: %v, hint %q", exit, exit.Hint)
			}
			if exit := tc.run(other); exit.Success() || exit.Hint != "" {
				t.Errorf("failed: %v, hint %q", exit, exit.Hint)
			}
			if exit := tc.run(denied + "; true"); !exit.Success() || exit.Hint != "" {
				t.Errorf("succeeded: %v, hint %q", exit, exit.Hint)
			}
			made := filepath.Join(base, "project", tc.made)
			if exit := tc.run("mkdir " + tc.made); !exit.Success() || len(exit.HostExecutable) != 1 || exit.HostExecutable[0] != made {
				t.Errorf("made: %v, told %q", exit, exit.HostExecutable)
			}
			if exit := tc.run("true"); len(exit.HostExecutable) != 0 {
				t.Errorf("told again: %q", exit.HostExecutable)
			}
		})
	}
}

// ended runs a command to its end.
func ended(t *testing.T, s driver.Session, c *spec.Command, stdio driver.Stdio) spec.Exit {
	t.Helper()
	p, err := s.Start(within(t), c, stdio)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

// TestDropCrowd defends: 20 dropped places made at the same time all work, and leave
// nothing.
func TestDropCrowd(t *testing.T) {
	dropping(t)
	const places = 20
	o := options(t)
	d := open(t, o)
	var group sync.WaitGroup
	for i := range places {
		group.Go(func() {
			key := spec.Key(fmt.Sprintf("k%d", i))
			s, err := d.Provision(within(t), &spec.Spec{Key: key, Isolation: spec.IsolationGuard}, driver.ProvisionOptions{})
			if err != nil {
				t.Errorf("%s: %v", key, err)
				return
			}
			defer s.Close(context.Background())
			if out, exit := sh(t, s, "id -u; touch x; cat /etc/shadow 2>/dev/null"); !strings.HasPrefix(out, "65534") || exit.Success() {
				t.Errorf("%s: %q, %v", key, out, exit)
			}
			if err := d.Reap(within(t), key, driver.ReapOptions{}); err != nil {
				t.Errorf("reap %s: %v", key, err)
			}
		})
	}
	group.Wait()
	if left := append(servants(o.StateDir), mountinfo(t, o.StateDir)...); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	left(t, o)
}

// TestDropKilled defends: whenever in a provision the client is killed, what it has started
// is found by the key and ended, and nothing stays mounted.
func TestDropKilled(t *testing.T) {
	dropping(t)
	rounds := 8
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		rounds = 200
	}
	o := options(t)
	d := open(t, o)
	for round := range rounds {
		cmd := exec.Command(mustExecutable(t), victimArg, o.StateDir, string(spec.IsolationGuard), fmt.Sprintf("drop-%d-%d", os.Getpid(), round))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(400 * time.Millisecond)) // from before it begins until after it has made the place
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if err := d.Reap(within(t), "victim", driver.ReapOptions{}); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		// A process that had not yet got its name when Reap looked ends by itself: its
		// starter's descriptors end with it.
		eventually(t, "nothing runs", func() error {
			if left := servants(o.StateDir); len(left) > 0 {
				return fmt.Errorf("round %d: %q", round, left)
			}
			return nil
		})
		if left := mountinfo(t, o.StateDir); len(left) > 0 {
			t.Fatalf("round %d: mounted on this machine: %q", round, left)
		}
	}
	left(t, o)
}
