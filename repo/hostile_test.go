//go:build unix

package repo_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/repo"
	"github.com/berth-dev/berth/spec"
)

// Whatever a place leaves in a work tree, and in what git keeps for it, neither looking into
// it nor removing it runs a program of the place's, nor harms what lies elsewhere.
func TestHostileWorktree(t *testing.T) {
	type target struct{ root, top, dir, admin, evil, marker string }
	evilRepository := func(x target) {
		git(t, x.root, "init", "-q", "evil.git", "--bare")
		put(t, x.evil+"/config", fmt.Sprintf("[core]\n\tfsmonitor = \"touch %[1]s; false\"\n\thooksPath = %[2]s/h\n\tbare = false\n[filter \"evil\"]\n\tclean = touch %[1]s; cat\n\tsmudge = touch %[1]s; cat\n", x.marker, x.evil))
	}
	for name, test := range map[string]struct {
		attack func(x target)
		// refused: it can be removed by force only.
		refused bool
	}{
		"the file .git": {func(x target) {
			evilRepository(x)
			put(t, x.dir+"/.git", "gitdir: "+x.evil+"\n")
		}, false},
		"a repository in place of .git": {func(x target) {
			evilRepository(x)
			must(0, os.Remove(x.dir+"/.git"))
			must(0, os.Rename(x.evil, x.dir+"/.git"))
		}, false},
		"commondir": {func(x target) { evilRepository(x); put(t, x.admin+"/commondir", x.evil+"\n") }, false},
		"gitdir":    {func(x target) { put(t, x.admin+"/gitdir", x.top+"/.git\n") }, false},
		"config.worktree": {func(x target) {
			put(t, x.admin+"/config.worktree", "[core]\n\tfsmonitor = \"touch "+x.marker+"; false\"\n")
		}, false},
		"hooks of its own": {func(x target) {
			put(t, x.admin+"/hooks/post-index-change", "#!/bin/sh\ntouch "+x.marker)
			must(0, os.Chmod(x.admin+"/hooks/post-index-change", 0o755))
		}, false},
		"filters in use": {func(x target) { put(t, x.dir+"/.gitattributes", "* filter=trap\n"); put(t, x.dir+"/file", "one\n") }, true},
		"a submodule": {func(x target) {
			git(t, x.dir, "init", "-q", "sub")
			put(t, x.dir+"/sub/.git/config", "[core]\n\tfsmonitor = \"touch "+x.marker+"; false\"\n\tworktree = "+x.root+"\n")
			put(t, x.dir+"/sub/f", "x")
		}, true},
		"an index":          {func(x target) { put(t, x.admin+"/index", "DIRC what is that") }, false},
		"HEAD elsewhere":    {func(x target) { put(t, x.admin+"/HEAD", "ref: ../../../../evil\n") }, true},
		"HEAD is an option": {func(x target) { put(t, x.admin+"/HEAD", "ref: --output="+x.marker+"\n") }, true},
		"HEAD is a pipe": {func(x target) {
			must(0, os.Remove(x.admin+"/HEAD"))
			must(0, syscall.Mkfifo(x.admin+"/HEAD", 0o644))
		}, true},
		"a link in place of what git keeps": {func(x target) {
			must(0, os.Rename(x.admin, x.root+"/moved"))
			must(0, os.Symlink(x.root+"/moved", x.admin))
		}, true},
		"a link in place of the work tree": {func(x target) {
			must(0, os.RemoveAll(x.dir))
			must(0, os.Symlink(x.root+"/precious", x.dir))
		}, true},
		"links out of the work tree": {func(x target) {
			must(0, os.Symlink(x.root+"/precious", x.dir+"/out"))
			must(0, os.Remove(x.dir+"/file"))
			must(0, os.Symlink(x.root+"/precious/file", x.dir+"/file"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			root, r := repository(t)
			x := target{root: root, top: filepath.Join(root, "project"), evil: filepath.Join(root, "evil.git"), marker: filepath.Join(root, "marker")}
			put(t, root+"/precious/file", "precious")
			// A filter that the user trusts with trusted files.
			git(t, x.top, "config", "filter.trap.clean", "touch "+x.marker+"; cat")
			git(t, x.top, "config", "filter.trap.process", "touch "+x.marker)
			git(t, x.top, "config", "filter.trap.required", "true")
			w := add(t, r, repo.WorktreeOptions{Name: "w"})
			x.dir, x.admin = w.Dir, x.top+"/.git/worktrees/w"
			test.attack(x)
			_ = os.Remove(x.marker) // by the test's own git
			_, stateErr := w.State(within(t))
			_, err := w.Remove(within(t), repo.RemoveOptions{})
			if refused := err != nil; refused != test.refused {
				t.Errorf("state %v, remove %v; refused should be %v", stateErr, err, test.refused)
			}
			if test.refused {
				if !exists(w.Dir) || spec.HintOf(err) == "" {
					t.Errorf("refused, and removed: %v", err)
				}
				if _, err := w.Remove(within(t), repo.RemoveOptions{Force: true}); err != nil {
					t.Errorf("by force: %v", err)
				}
			}
			if exists(w.Dir) || exists(x.admin) || !exists(root+"/precious/file") || !exists(x.top+"/file") {
				t.Error("something is left, or gone that was elsewhere")
			}
			if exists(x.marker) {
				t.Error("a program of the place's has run")
			}
			if got := git(t, x.top, "status", "--short"); got != "" {
				t.Errorf("the main work tree: %q", got)
			}
		})
	}
}

// A pipe that git would read from for ever holds nobody up for longer than is said.
func TestHostilePipe(t *testing.T) {
	_, r := repository(t)
	w := add(t, r, repo.WorktreeOptions{Name: "w"})
	put(t, w.Dir+"/sub/file", "x")
	must(0, syscall.Mkfifo(w.Dir+"/sub/.gitignore", 0o644))
	ctx, cancel := context.WithTimeout(within(t), time.Second)
	defer cancel()
	start := time.Now()
	_, err := w.State(ctx)
	t.Log(err)
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Where a place has put links into the way of a branch's files, git does not write through
// them.
func TestHostileReferences(t *testing.T) {
	root, r := repository(t)
	w := add(t, r, repo.WorktreeOptions{Name: "w"})
	put(t, root+"/precious/w", git(t, w.Dir, "rev-parse", "HEAD"))
	heads := w.CommonDir() + "/refs/heads/berth"
	must(0, os.RemoveAll(heads))
	must(0, os.Symlink(root+"/precious", heads))
	_, err := w.Remove(within(t), repo.RemoveOptions{Force: true})
	wantCode(t, "links", err, spec.CodeInvalid)
	if !exists(root + "/precious/w") {
		t.Error("git has removed a file elsewhere")
	}
}

// A pipe in place of a reference, or of the HEAD of another work tree, is refused: git would
// wait for it with everybody else waiting for git.
func TestHostilePipes(t *testing.T) {
	_, r := repository(t)
	w := add(t, r, repo.WorktreeOptions{Name: "w"})
	pipe := func(path string) (undo func()) {
		must(0, os.Rename(path, path+".kept"))
		must(0, syscall.Mkfifo(path, 0o644))
		return func() { must(0, os.Rename(path+".kept", path)) }
	}
	admins, err := filepath.Glob(w.CommonDir() + "/worktrees/*/HEAD")
	if err != nil || len(admins) != 1 {
		t.Fatal(admins, err)
	}
	undo := pipe(admins[0])
	_, err = r.AddWorktree(within(t), repo.WorktreeOptions{Name: "other"})
	wantCode(t, "a HEAD", err, spec.CodeInvalid)
	undo()
	undo = pipe(w.CommonDir() + "/refs/heads/berth/w")
	_, err = r.AddWorktree(within(t), repo.WorktreeOptions{Name: "other"})
	wantCode(t, "a reference", err, spec.CodeInvalid)
	_, err = w.Remove(within(t), repo.RemoveOptions{Force: true})
	wantCode(t, "a reference, by force", err, spec.CodeInvalid)
	if !exists(w.Dir) {
		t.Error("it is removed in part")
	}
	undo()
	if _, err := w.Remove(within(t), repo.RemoveOptions{}); err != nil {
		t.Error(err)
	}
}

// A directory into which git cannot look is not clean; a branch whose commit is gone is not
// one that is not there.
func TestWhatCannotBeTold(t *testing.T) {
	root, r := repository(t)
	w := add(t, r, repo.WorktreeOptions{Name: "w"})
	real := must(exec.LookPath("git"))
	put(t, root+"/bin/git", "#!/bin/sh\ncase $1 in ls-files) echo \"warning: could not open directory 'out/': Permission denied\" >&2;; esac\nexec "+real+" \"$@\"\n")
	must(0, os.Chmod(root+"/bin/git", 0o755))
	path := os.Getenv("PATH")
	t.Setenv("PATH", root+"/bin:"+path)
	_, err := w.State(within(t))
	wantCode(t, "a directory that cannot be read", err, spec.CodeInvalid)
	_, err = w.Remove(within(t), repo.RemoveOptions{})
	wantCode(t, "a directory that cannot be read, removed", err, spec.CodeInvalid)
	t.Setenv("PATH", path)
	put(t, w.CommonDir()+"/refs/heads/berth/w", strings.Repeat("1", 40)+"\n")
	if left, err := w.Remove(within(t), repo.RemoveOptions{Force: true}); err == nil {
		t.Errorf("the branch is said to be gone: %+v", left)
	}
}
