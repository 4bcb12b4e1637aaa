//go:build linux

package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// gitOutside runs git as a person does who has no configuration.
func gitOutside(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always", "-C", dir}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func mustGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := gitOutside(t, dir, args...); err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
}

// evil is a configuration that has git run a program which leaves a mark.
func evil(mark, more string) string {
	return "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch " + mark + "; false\"\n" + more
}

// planter makes a repository in base/w with submodules of all sorts, a place there, and
// base/mark, which does not exist.
func planter(t *testing.T) (base string, s driver.Session) {
	t.Helper()
	needBwrap(t)
	base = far(t)
	w := filepath.Join(base, "w")
	for _, name := range []string{"sub", "w"} {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		mustGit(t, dir, "init", "-q", "-b", "main")
		mustGit(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	}
	for _, name := range []string{"absorbed", "deep/er", "emptied"} {
		mustGit(t, w, "submodule", "--quiet", "add", filepath.Join(base, "sub"), name)
	}
	mustGit(t, w, "clone", "-q", filepath.Join(base, "sub"), "own")
	mustGit(t, w, "add", "own")
	mustGit(t, w, "commit", "-q", "-m", "second")
	mustGit(t, w, "submodule", "--quiet", "deinit", "emptied")
	s = provision(t, open(t, options(t)), spec.Spec{Workdir: w, Isolation: spec.IsolationGuard, Env: map[string]string{
		"EVIL": evil(filepath.Join(base, "mark"), ""), "EVILROOT": evil(filepath.Join(base, "mark"), "\tworktree = .\n"),
	}})
	return base, s
}

// TestSubmodulesObeyedOutside defends: git outside, which goes into each submodule of a
// repository, runs nothing that a command has written: not where the submodule's .git leads
// to another repository, nor by the configuration of one that has its own directory. What is
// made where none was is told.
func TestSubmodulesObeyedOutside(t *testing.T) {
	base, s := planter(t)
	w, mark := filepath.Join(base, "w"), filepath.Join(base, "mark")
	must(t, s, `mkdir -p planted/objects planted/refs && echo ref: refs/heads/main >planted/HEAD && printf %s "$EVIL" >planted/config`)
	for _, module := range []string{"absorbed", "deep/er", "own"} {
		for _, script := range []string{
			`echo "gitdir: $PWD/planted" >"$M/.git"`, `mv "$M/.git" "$M/old"`, `rm "$M/.git" "$M/.git/config"`, `mv "$M" "$M.old"`,
			`cd "$M" && git config core.fsmonitor "touch x"`, `printf %s "$EVIL" >"$M/.git/config"`, `cd "$M" && printf x >"$(git rev-parse --git-dir)/hooks/post-checkout"`,
		} {
			if out, exit := sh(t, s, "M="+module+"; "+script); exit.Success() {
				t.Errorf("%s: %s: it worked: %s", module, script, out)
			}
		}
	}
	if out, err := gitOutside(t, w, "status"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Lstat(mark); err == nil {
		t.Error("git status has run a program of a command")
	}
	out, exit := sh(t, s, `export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.com GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.com
		for m in own absorbed; do git -C $m commit -q --allow-empty -m second && git add $m || exit 1; done; git commit -q -m third`)
	if !exit.Success() || len(exit.HostExecutable) > 0 {
		t.Errorf("work in submodules: %+v %s", exit, out)
	}

	_, exit = sh(t, s, `echo "gitdir: ../planted" >emptied/.git`)
	if made := filepath.Join(w, "emptied", ".git"); !slices.Contains(exit.HostExecutable, made) {
		t.Errorf("%s was not told of: %+v", made, exit)
	}
	if _, err := gitOutside(t, w, "status"); err != nil {
		t.Log(err)
	}
	if _, err := os.Lstat(mark); err != nil {
		t.Error("git status runs nothing where it is let: this test shows nothing")
	}
	_, exit = sh(t, s, `git init -q new && git -C new -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m first && git add new`)
	if made := filepath.Join(w, "new", ".git"); !slices.Contains(exit.HostExecutable, made) {
		t.Errorf("that %s is a submodule was not told: %+v", made, exit)
	}
}

// TestRepositoryPlantedInRoot defends: that a command makes the root itself a repository, to
// which git outside falls back when the one there is spoiled, is told.
func TestRepositoryPlantedInRoot(t *testing.T) {
	base, s := planter(t)
	w := filepath.Join(base, "w")
	out, exit := sh(t, s, `mkdir objects refs && echo ref: refs/heads/main >HEAD && printf %s "$EVILROOT" >config && echo spoiled >.git/HEAD`)
	if !exit.Success() || !slices.Contains(exit.HostExecutable, filepath.Join(w, "HEAD")) {
		t.Errorf("it was not told: %+v %s", exit, out)
	}
	if out, err := gitOutside(t, w, "status"); err != nil {
		t.Logf("%v: %s", err, out)
	}
	if _, err := os.Lstat(filepath.Join(base, "mark")); err != nil {
		t.Error("git status runs nothing where it is let: this test shows nothing")
	}
}

// TestRepositoryBehindFile defends: in a repository to which a file leads, and in a root that
// is one, a command cannot change what git outside obeys, and it can commit.
func TestRepositoryBehindFile(t *testing.T) {
	needBwrap(t)
	base := far(t)
	source, mark := filepath.Join(base, "source"), filepath.Join(base, "mark")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	mustGit(t, source, "init", "-q", "-b", "main")
	mustGit(t, source, "commit", "-q", "--allow-empty", "-m", "first")
	mustGit(t, base, "clone", "-q", "--bare", source, filepath.Join(base, "bare.git"))
	mustGit(t, base, "clone", "-q", "--separate-git-dir", filepath.Join(base, "moved"), source, filepath.Join(base, "file"))
	move(t, filepath.Join(base, "moved"), filepath.Join(base, "file", ".bare"))
	write(t, "gitdir: ./.bare\n", base, "file", ".git")
	for name, dir := range map[string]string{"file": ".bare", "bare.git": "."} {
		s := provision(t, open(t, options(t)), spec.Spec{Workdir: filepath.Join(base, name), Isolation: spec.IsolationGuard, Env: map[string]string{"D": dir, "EVIL": evil(mark, "")}})
		for _, script := range []string{`printf %s "$EVIL" >>"$D/config"`, `echo x >"$D/hooks/post-checkout"`, `mv "$D/hooks" "$D/h2"`, `mv "$D/config" "$D/c2"`, `git config core.fsmonitor "touch x"`, `test -d .bare && echo x >.git`} {
			refused(t, s, script)
		}
		if _, exit := sh(t, s, `echo . >"$D/commondir"`); !slices.Contains(exit.HostExecutable, filepath.Join(base, name, dir, "commondir")) {
			t.Errorf("%s: a commondir was not told of: %+v", name, exit)
		}
		must(t, s, `rm "$D/commondir"`)
		if name == "file" {
			must(t, s, `git -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m second`)
		}
		if out, err := gitOutside(t, filepath.Join(base, name), "log", "--oneline"); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if _, err := os.Lstat(mark); err == nil {
			t.Errorf("%s: git has run a program of a command", name)
		}
	}
}

// TestHooksOfWorktree defends: the hooks that a linked work tree has in itself, because its
// repository's configuration says so, cannot be changed.
func TestHooksOfWorktree(t *testing.T) {
	needBwrap(t)
	base := far(t)
	repo, tree := filepath.Join(base, "repo"), filepath.Join(base, "tree")
	hook := write(t, "#!/bin/sh\n", repo, "tools", "hooks", "pre-commit")
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
	mustGit(t, repo, "init", "-q", "-b", "main")
	mustGit(t, repo, "add", ".")
	mustGit(t, repo, "commit", "-q", "-m", "first")
	mustGit(t, repo, "config", "core.hooksPath", "tools/hooks")
	mustGit(t, repo, "worktree", "add", "-q", tree)
	s := provision(t, open(t, options(t)), spec.Spec{Workdir: tree, Isolation: spec.IsolationGuard})
	for _, script := range []string{"echo 'touch x' >>tools/hooks/pre-commit", "echo x >tools/hooks/post-commit", "mv tools t2", "mv tools/hooks tools/h2"} {
		refused(t, s, script)
	}
	must(t, s, "git -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m second && echo x >tools/other")
}

// TestMultiplexerDirectories defends: no command can put a socket where the terminal
// multiplexer of the person looks for it, also where that directory does not exist yet; where
// it cannot be made, its making is told.
func TestMultiplexerDirectories(t *testing.T) {
	needBwrap(t)
	base := far(t)
	name := fmt.Sprintf("tmux-%d", os.Geteuid())
	for _, there := range []bool{true, false} {
		work := filepath.Join(base, fmt.Sprint(there))
		dir := filepath.Join(work, "sockets", name)
		if there {
			write(t, "", filepath.Dir(dir), "x")
		} else if err := os.Mkdir(work, 0o755); err != nil {
			t.Fatal(err)
		}
		o := options(t)
		o.BaseEnv = append(testEnv(), "TMUX_TMPDIR="+filepath.Dir(dir))
		s := provision(t, open(t, o), spec.Spec{Workdir: work, Isolation: spec.IsolationGuard, Env: map[string]string{"D": dir, "NAME": name}})
		out, exit := sh(t, s, `mkdir -p "$D" 2>/dev/null; touch "$D/planted" /tmp/$NAME/berth-planted`)
		if told := slices.Contains(exit.HostExecutable, dir); told == there || !exit.Success() {
			t.Errorf("told %t: %v %s", told, exit, out)
		}
		if _, err := os.Lstat(filepath.Join(dir, "planted")); (err == nil) == there {
			t.Errorf("there %t: a command's file in the directory of sockets: %v", there, err)
		}
		if _, err := os.Lstat("/tmp/" + name + "/berth-planted"); err == nil {
			t.Error("a command can write the directory of sockets")
		}
		for _, path := range []string{dir, "/tmp/" + name} {
			if info, err := os.Lstat(path); there && (err != nil || info.Mode() != os.ModeDir|0o700 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid()) {
				t.Errorf("%s: %v, %v", path, info, err)
			}
		}
	}
}

// clearSockets removes the directories for sockets that places of this program's tests have
// made for users whom this machine does not have. before are those that are none of theirs.
func clearSockets(before []string) {
	passwd, _ := os.ReadFile("/etc/passwd") // without it all are kept
	for _, dir := range socketDirs() {
		_, uid, _ := strings.Cut(filepath.Base(dir), "-")
		if len(passwd) > 0 && !slices.Contains(before, dir) && !strings.Contains(string(passwd), ":x:"+uid+":") {
			_ = os.Remove(dir) // not one that is used
		}
	}
}

func socketDirs() []string {
	dirs, _ := filepath.Glob("/tmp/tmux-*") // the pattern is well formed
	return dirs
}
