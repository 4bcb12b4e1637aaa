//go:build linux

package process_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/isolate"
	"github.com/berth-dev/berth/spec"
)

// write makes a file and its directory, and returns its path.
func write(t *testing.T, text string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// far is a directory outside of every default writable root.
func far(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/lib", "berth-test-")
	if home, homeErr := os.UserHomeDir(); err != nil && homeErr == nil {
		dir, err = os.MkdirTemp(home, "berth-test-")
	}
	if err != nil {
		t.Skipf("no directory outside of the temporary ones: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestGuardFiles defends: guard reads everything but what is hidden, and writes only
// below the writable roots and the temporary directories.
func TestGuardFiles(t *testing.T) {
	needUser(t)
	needBwrap(t)
	base := far(t)
	home := filepath.Join(base, "home")
	write(t, "key", home, ".ssh", "id")
	write(t, "token", home, ".netrc")
	write(t, "token", home, ".docker", "config.json")
	write(t, "readable", home, ".other", "file")
	write(t, "secret", base, "extra", "secret")
	write(t, "secret", base, "project", ".env")
	write(t, "secret", base, "one.txt")
	write(t, "data", base, "root", "data")
	write(t, "always", base, "always", "x")
	o := options(t)
	o.BaseEnv = append(slices.DeleteFunc(testEnv(), func(e string) bool { return strings.HasPrefix(e, "HOME=") }), "HOME="+home)
	o.HiddenPaths = []string{filepath.Join(base, "always")}
	s := provision(t, open(t, o), spec.Spec{
		Workdir: filepath.Join(base, "project"), WritableRoots: []string{filepath.Join(base, "root")},
		HiddenPaths: []string{filepath.Join(base, "extra"), filepath.Join(base, "one.txt"), filepath.Join(base, "project", ".env"), filepath.Join(base, "project", "absent")},
		Env:         map[string]string{"B": base},
	})

	must(t, s, `echo x >made && echo x >$B/root/made && echo x >/tmp/berth-guard-$$ && rm /tmp/berth-guard-$$`)
	for _, script := range []string{
		"echo x >$B/outside", "echo x >$B/home/.other/file", "rm -f $B/home/.other/file && test ! -e $B/home/.other/file", "mkdir $B/home/.gnupg", "echo x >/etc/berth-test",
		"cat $B/home/.ssh/id", "cat $B/home/.netrc", "cat $B/home/.docker/config.json", "cat $B/extra/secret", "cat $B/one.txt", "cat .env", "cat $B/always/x",
		"echo x >$B/home/.ssh/new", "rmdir $B/home/.ssh", "rm .env", "mv .env moved", "umount $B/home/.ssh", "mount -t tmpfs none .",
	} {
		refused(t, s, script)
	}
	if got := must(t, s, "ls -A $B/home/.ssh $B/extra; cat $B/home/.other/file"); !strings.HasSuffix(got, "readable") || strings.Contains(got, "id") || strings.Contains(got, "secret") {
		t.Errorf("inside: %q", got)
	}
	if names, err := filepath.Glob(filepath.Join(base, "project", "*")); err != nil || !cmp.Equal(names, []string{filepath.Join(base, "project", ".env"), filepath.Join(base, "project", "made")}) {
		t.Errorf("in the work tree: %q, %v", names, err)
	}
	for path, want := range map[string]string{"home/.ssh/id": "key", "project/.env": "secret", "home/.other/file": "readable"} {
		if data, err := os.ReadFile(filepath.Join(base, path)); err != nil || string(data) != want {
			t.Errorf("%s outside: %q, %v", path, data, err)
		}
	}
}

// TestGuardCredentials defends: no file of the list of credentials can be read inside,
// nor its twin in the base directory of configurations, and a place says what it hides
// and what can be written, to whoever attaches too.
func TestGuardCredentials(t *testing.T) {
	needUser(t)
	needBwrap(t)
	base := far(t)
	home, config := filepath.Join(base, "home"), filepath.Join(base, "config")
	t.Setenv("XDG_CONFIG_HOME", config)
	o := options(t)
	o.BaseEnv = append(slices.DeleteFunc(testEnv(), func(e string) bool { return strings.HasPrefix(e, "HOME=") }), "HOME="+home)
	var secrets []string
	for _, path := range isolate.Credentials(home, config) {
		write(t, "berth-canary", path)
		secrets = append(secrets, path)
	}
	write(t, "x", base, "project", "x")
	d := open(t, o)
	s := provision(t, d, spec.Spec{Key: "k", Workdir: filepath.Join(base, "project"), Env: map[string]string{"B": base}})
	if got := must(t, s, `grep -rl berth-canary "$B" 2>/dev/null; echo end`); got != "end" {
		t.Errorf("readable inside: %s", got)
	}
	attached, err := d.Attach(within(t), "k", driver.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer attached.Close(within(t))
	for what, s := range map[string]interface {
		Status(context.Context) (spec.Status, error)
	}{"provisioned": s, "attached": attached} {
		st, err := s.Status(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range secrets {
			if !slices.Contains(st.Hidden, path) {
				t.Errorf("%s: %s is not said to be hidden", what, path)
			}
		}
		if !slices.Contains(st.Writable, filepath.Join(base, "project")) || !slices.Contains(st.Writable, "/tmp") {
			t.Errorf("%s: writable %q", what, st.Writable)
		}
	}
}

// TestGuardResidue defends: after a place is gone the work tree is as it was.
func TestGuardResidue(t *testing.T) {
	needBwrap(t)
	dir := t.TempDir()
	write(t, "x", dir, "a", "file")
	write(t, "x", dir, "hidden", "file")
	d := open(t, options(t))
	s := provision(t, d, spec.Spec{Key: "k", Workdir: dir, HiddenPaths: []string{filepath.Join(dir, "hidden"), filepath.Join(dir, "none"), filepath.Join(dir, "a", "file")}})
	must(t, s, "true")
	if err := d.Reap(within(t), "k", reapOptions); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		got = append(got, strings.TrimPrefix(path, dir))
		return err
	})
	if want := []string{"", "/a", "/a/file", "/hidden", "/hidden/file"}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestGuardHome defends: where the home directory itself is writable, nothing of the state
// directory can be seen but the place's own part, nor can it be written or replaced by
// another one, nor the guest binary.
func TestGuardHome(t *testing.T) {
	needBwrap(t)
	home := far(t)
	o := options(t)
	o.StateDir = filepath.Join(home, ".local", "state", "berth")
	o.Guest.Path = filepath.Join(home, ".cache", "berth", "guest")
	script := "#!/bin/sh\nexec " + mustExecutable(t) + " berth-guest-reexec \"$@\"\n"

	if err := os.MkdirAll(filepath.Dir(o.Guest.Path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Guest.Path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := provision(t, open(t, o), spec.Spec{Workdir: home, Env: map[string]string{"GUEST": o.Guest.Path, "STATE": o.StateDir}})
	if got := must(t, s, `find "$STATE" -mindepth 3 -not -path "*/sb_*/state/*"`); got != filepath.Join(o.StateDir, "process", s.ID(), "state") {
		t.Errorf("in the state directory: %q", got)
	}
	for _, script := range []string{
		`echo x >"$STATE/x"`, `mv .local moved`, `mv .local/state moved`, `mv "$STATE" moved`, `rm -rf .local 2>/dev/null; test ! -e .local`,
		`echo x >"$GUEST"`, `rm -f "$GUEST"`, `mv "$GUEST" moved`, `mv .cache/berth moved`, `mv .cache moved`, `echo x >.cache/berth/new`,
	} {
		refused(t, s, script)
	}
	must(t, s, `echo x >.cache/other && echo x >.local/other && echo x >.local/state/other`)
}

// TestGuardOwnWorkspace defends: a workdir of our own is all that is seen of the state
// directory, and another place's is not.
func TestGuardOwnWorkspace(t *testing.T) {
	needBwrap(t)
	o := options(t)
	d := open(t, o)
	provision(t, d, spec.Spec{Key: "other"})
	s := provision(t, d, spec.Spec{Key: "k", Env: map[string]string{"STATE": o.StateDir}})
	got := must(t, s, `touch made; find "$STATE" -mindepth 1 -not -path "*/sb_*/state/*" | sort`)
	want := []string{o.StateDir + "/process", o.StateDir + "/process/" + s.ID(), o.StateDir + "/process/" + s.ID() + "/state", o.StateDir + "/process/" + s.ID() + "/workspace", o.StateDir + "/process/" + s.ID() + "/workspace/made"}
	if diff := cmp.Diff(want, strings.Split(got, "\n")); diff != "" {
		t.Error(diff)
	}
}

// TestGuardNetwork defends: a closed network has no route and no connection; an open one
// is the machine's.
func TestGuardNetwork(t *testing.T) {
	needBwrap(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello\n"))
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	routes := func(text string) int { return len(strings.Split(strings.TrimSpace(text), "\n")) - 1 }
	host, err := os.ReadFile("/proc/net/route")
	if err != nil {
		t.Fatal(err)
	}
	const read = `exec 3<>/dev/tcp/127.0.0.1/"$PORT" && read -r line <&3 && echo "$line"`
	for network, want := range map[spec.Network]struct {
		routes int
		reach  bool
	}{spec.NetworkNone: {0, false}, spec.NetworkDefault: {0, false}, spec.NetworkOpen: {routes(string(host)), true}} {
		s := provision(t, open(t, options(t)), spec.Spec{Network: network, Env: map[string]string{"PORT": port}})
		if got := routes(must(t, s, "cat /proc/net/route")); got != want.routes {
			t.Errorf("network %q: %d routes, want %d", network, got, want.routes)
		}
		var out bytes.Buffer
		exit, err := start(t, s, &out, "/bin/bash", "-c", read).Wait(within(t))
		if err != nil || (out.String() == "hello\n") != want.reach || exit.Success() != want.reach {
			t.Errorf("network %q: %q, %v, %v; want reach %t", network, out.String(), exit, err, want.reach)
		}
	}
}

// TestGuardSignals defends: no signal from inside ends the guest, and `kill -9 -1` ends
// commands only: the result of the one that did it still arrives.
func TestGuardSignals(t *testing.T) {
	needBwrap(t)
	s := provision(t, open(t, options(t)), spec.Spec{})
	out := must(t, s, `for n in $(seq 1 64); do kill -$n 1 || echo "cannot send $n"; done; echo done`)
	if out != "done" {
		t.Errorf("got %q", out)
	}
	var slept bytes.Buffer
	sleeper := start(t, s, &slept, "sleep", "1000")
	if got, exit := sh(t, s, "echo before; kill -9 -1; echo after"); !strings.HasPrefix(got, "before") || (exit.Signal != 9 && !exit.Success()) {
		t.Errorf("kill -9 -1: %q, %v", got, exit)
	}
	if exit, err := sleeper.Wait(within(t)); err != nil || exit.Signal != 9 || exit.Code != 137 {
		t.Errorf("the other command: %v, %v", exit, err)
	}
	if got := must(t, s, "echo alive; echo $PPID"); got != "alive\n1" {
		t.Errorf("after it all: %q", got)
	}
}

// TestGuardSight defends what a command sees of the machine: its own processes only, no
// capability, no way to a new namespace, three descriptors, no socket of ours, no
// terminal, nothing in /run.
func TestGuardSight(t *testing.T) {
	needBwrap(t)
	for _, network := range []spec.Network{spec.NetworkNone, spec.NetworkOpen} {
		o := options(t)
		s := provision(t, open(t, o), spec.Spec{Network: network, Env: map[string]string{"SOCK": filepath.Join(o.StateDir, "process")}})
		if got := must(t, s, `for d in /proc/[0-9]*; do echo "${d#/proc/}"; done | sort -n | head -1; ls /proc/self/fd | wc -l`); got != "1\n4" { // ls has its own
			t.Errorf("processes and descriptors: %q", got)
		}
		if got := must(t, s, `grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|NSpid)' /proc/self/status | tr -d '\t'`); strings.Count(got, ":0000000000000000") != 5 || !strings.Contains(got, "NoNewPrivs:1") {
			t.Errorf("status: %q", got)
		}
		refused(t, s, "unshare -U true")
		refused(t, s, "chmod 777 /run/..")
		if got := must(t, s, "ls -A /run | grep -v -e systemd -e resolvconf -e NetworkManager -e berth-guest || true"); got != "" && network == spec.NetworkNone {
			t.Errorf("in /run: %q", got)
		}
		refused(t, s, `test -S "$SOCK/`+s.ID()+`/sock"`)
		refused(t, s, "exec 3<>/dev/tty")
		refused(t, s, "cat /proc/1/environ")
		refused(t, s, "ls -l /proc/1/fd/0")
	}
}

// TestGuardNotice defends: behind a wall nothing runs as root, or that is said.
func TestGuardNotice(t *testing.T) {
	needBwrap(t)
	d := open(t, options(t))
	for _, level := range []spec.Isolation{spec.IsolationGuard, spec.IsolationJail} {
		s := provision(t, d, spec.Spec{Isolation: level})
		status, err := s.Status(within(t))
		if root := must(t, s, "id -u") == "0"; err != nil || strings.Contains(status.Notice, "runs as root") != root {
			t.Errorf("%s: root %t, notice %q, %v", level, root, status.Notice, err)
		}
	}
}

// TestWorktree defends: in a linked worktree git can commit to its repository, rebase and
// delete a branch, and cannot make a program run in the main one.
func TestWorktree(t *testing.T) {
	needBwrap(t)
	base := far(t)
	repo, tree := filepath.Join(base, "repo"), filepath.Join(base, "tree")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-C", repo}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	if err := os.Mkdir(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "first")
	git("branch", "old")
	git("pack-refs", "--all")
	git("worktree", "add", "-q", tree)
	s := provision(t, open(t, options(t)), spec.Spec{Workdir: tree, Env: map[string]string{"GIT": filepath.Join(repo, ".git")}})
	must(t, s, `export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.com GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.com
		echo x >file && git add file && git commit -q -m second && git commit -q --amend -m again && git branch new && git branch -D old && git rebase -q new && git log --oneline >/dev/null`)
	git("rev-parse", "--verify", "-q", "refs/heads/new")
	for _, script := range []string{
		`echo x >"$GIT/../outside"`, `echo x >"$GIT/hooks/pre-commit"`, `git config core.fsmonitor evil`, `echo x >>"$GIT/config"`, `mv "$GIT/hooks" "$GIT/h2"`,
		`echo x >"$GIT/worktrees/tree/commondir"`, `rm -f "$GIT/worktrees/tree/gitdir"`, `mv "$GIT/worktrees" "$GIT/w2"`,
	} {
		refused(t, s, script)
	}
}
