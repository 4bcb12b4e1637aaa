//go:build unix

package repo_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/repo"
	"github.com/berth-dev/berth/spec"
)

// git runs git as a person would, in dir, and returns what it says.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, what string, err error, code spec.Code) {
	t.Helper()
	if spec.CodeOf(err) != code || err == nil {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// repository makes one with a commit, and a home whose configuration is the test's.
func repository(t *testing.T) (root string, r *repo.Repository) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(root, "home"))
	t.Setenv("XDG_CONFIG_HOME", "")
	top := filepath.Join(root, "project")
	put(t, filepath.Join(top, "file"), "one\n")
	put(t, filepath.Join(top, ".gitignore"), "*.o\n")
	git(t, top, "init", "-q", "-b", "main")
	git(t, top, "add", ".")
	git(t, top, "commit", "-q", "-m", "first")
	return root, open(t, root, top)
}

func open(t *testing.T, root, dir string) *repo.Repository {
	t.Helper()
	r, err := repo.Open(dir, filepath.Join(root, "data"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func add(t *testing.T, r *repo.Repository, o repo.WorktreeOptions) *repo.Worktree {
	t.Helper()
	w, err := r.AddWorktree(within(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A work tree lies where it was asked for, on a branch of its own, locked, unseen by the
// main work tree, and is listed by its own repository alone; removing it leaves nothing.
func TestWorktreeLocations(t *testing.T) {
	root, r := repository(t)
	top := filepath.Join(root, "project")
	for location, prefix := range map[repo.Location]string{
		repo.LocationData: root + "/data/worktrees/project-", repo.LocationBeside: top + "-data.beside", repo.LocationInside: top + "/.berth/worktrees/",
	} {
		name := "data." + string(location)
		w := add(t, r, repo.WorktreeOptions{Name: name, Location: location})
		if !strings.HasPrefix(w.Dir, prefix) || w.Branch != "berth/"+name || w.CommonDir() != top+"/.git" {
			t.Errorf("%s: %+v", location, w)
		}
		if got := git(t, w.Dir, "status", "-sb"); got != "## berth/"+name {
			t.Errorf("%s: in the work tree: %q", location, got)
		}
		if got := git(t, top, "status", "--short"); got != "" {
			t.Errorf("%s: in the main work tree: %q", location, got)
		}
		if got := git(t, top, "worktree", "list", "--porcelain"); !strings.Contains(got, "locked of a session") {
			t.Errorf("%s: not locked: %s", location, got)
		}
		list, err := open(t, root, filepath.Join(top, ".berth", "..")).Worktrees(within(t))
		if err != nil || len(list) != 1 || !cmp.Equal(list[0].Dir, w.Dir) || list[0].Base != w.Base {
			t.Errorf("%s: list %v, %v", location, list, err)
		}
		for range 2 {
			if left, err := list[0].Remove(within(t), repo.RemoveOptions{}); err != nil || left.Branch != "" {
				t.Errorf("%s: remove: %+v, %v", location, left, err)
			}
		}
		if exists(w.Dir) || exists(top+"/.git/worktrees") || git(t, top, "branch", "--list", "berth/*") != "" {
			t.Errorf("%s: something is left", location)
		}
	}
	if got := strings.Count(string(must(os.ReadFile(top+"/.git/info/exclude"))), "/.berth/worktrees/\n"); got != 1 {
		t.Errorf("excluded %d times", got)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What makes no sense, or stands in the way, is refused with its code, and nothing is made.
func TestWorktreeRefused(t *testing.T) {
	root, r := repository(t)
	top := filepath.Join(root, "project")
	git(t, top, "branch", "berth/taken")
	put(t, top+"-full/file", "x")
	for _, test := range []struct {
		o    repo.WorktreeOptions
		code spec.Code
	}{
		{repo.WorktreeOptions{}, spec.CodeInvalid},
		{repo.WorktreeOptions{Name: "../x"}, spec.CodeInvalid},
		{repo.WorktreeOptions{Name: "x.lock"}, spec.CodeInvalid},
		{repo.WorktreeOptions{Name: "x", Location: "moon"}, spec.CodeInvalid},
		{repo.WorktreeOptions{Name: "x", Base: "--all"}, spec.CodeNotFound},
		{repo.WorktreeOptions{Name: "taken"}, spec.CodeExists},
		{repo.WorktreeOptions{Name: "full", Location: repo.LocationBeside}, spec.CodeExists},
	} {
		_, err := r.AddWorktree(within(t), test.o)
		wantCode(t, test.o.Name, err, test.code)
	}
	cancelled, cancel := context.WithCancel(within(t))
	cancel()
	if _, err := r.AddWorktree(cancelled, repo.WorktreeOptions{Name: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if list, err := r.Worktrees(within(t)); err != nil || len(list) > 0 || exists(top+"/.git/worktrees") || !exists(top+"-full/file") {
		t.Errorf("left: %v, %v", list, err)
	}
	_, err := r.Worktree(within(t), "x")
	wantCode(t, "unknown", err, spec.CodeNotFound)
	_, err = repo.Open(root, root)
	wantCode(t, "no repository", err, spec.CodeNotFound)
	put(t, root+"/linked/.git", "gitdir: "+root+"/evil\n")
	_, err = repo.Open(root+"/linked", root)
	wantCode(t, "a link", err, spec.CodeInvalid)
	git(t, root, "init", "-q", "empty")
	_, err = open(t, root, root+"/empty").AddWorktree(within(t), repo.WorktreeOptions{Name: "x"})
	wantCode(t, "no commit", err, spec.CodeInvalid)
	git(t, root, "clone", "-q", "--bare", top, "bare.git")
	w := add(t, open(t, root, root+"/bare.git"), repo.WorktreeOptions{Name: "x", Location: repo.LocationBeside})
	if w.Dir != root+"/bare-x" || !exists(w.Dir+"/file") {
		t.Errorf("of a bare repository: %+v", w)
	}
	if s, err := w.State(within(t)); err != nil || s.Loses() {
		t.Errorf("of a bare repository: %+v, %v", s, err)
	}
}

// Of many who want the same name at once one gets it, and the others are told; then the
// one that is there is whole.
func TestWorktreeRace(t *testing.T) {
	_, r := repository(t)
	const callers = 8
	got, errs := make([]*repo.Worktree, callers), make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { got[i], errs[i] = r.AddWorktree(within(t), repo.WorktreeOptions{Name: "one"}) })
	}
	all.Wait()
	won := slices.IndexFunc(errs, func(err error) bool { return err == nil })
	for i, err := range errs {
		if i != won {
			wantCode(t, "a loser", err, spec.CodeExists)
		}
	}
	if won < 0 {
		t.Fatal("nobody got it")
	}
	if s, err := got[won].State(within(t)); err != nil || s.Loses() || s.Missing {
		t.Errorf("state: %+v, %v", s, err)
	}
}

// What a crash has left, at whatever point it came, the next call with the name takes away,
// and so does a removal.
func TestWorktreeAfterACrash(t *testing.T) {
	root, r := repository(t)
	top := filepath.Join(root, "project")
	for stage, crash := range map[string]func(w *repo.Worktree){
		"before anything": func(w *repo.Worktree) {
			git(t, top, "worktree", "remove", "-f", "-f", w.Dir)
			git(t, top, "branch", "-D", w.Branch)
		},
		"an empty directory": func(w *repo.Worktree) {
			git(t, top, "worktree", "remove", "-f", "-f", w.Dir)
			git(t, top, "branch", "-D", w.Branch)
			must(0, os.Mkdir(w.Dir, 0o755))
		},
		"half checked out": func(w *repo.Worktree) { must(0, os.Remove(w.Dir+"/file")) },
		"all of it":        func(*repo.Worktree) {},
	} {
		for _, mend := range []string{"add", "remove"} {
			w := add(t, r, repo.WorktreeOptions{Name: "crashed"})
			record := must(filepath.Glob(root + "/data/worktrees/*/records/crashed.json"))[0]
			unready := strings.Replace(string(must(os.ReadFile(record))), `,"ready":true`, "", 1)
			crash(w)
			put(t, record, unready)
			if mend == "add" {
				w = add(t, r, repo.WorktreeOptions{Name: "crashed"})
				if s, err := w.State(within(t)); err != nil || s.Loses() || s.Missing {
					t.Errorf("%s: made again: %+v, %v", stage, s, err)
				}
			} else {
				w = must(r.Worktree(within(t), "crashed"))
			}
			if _, err := w.Remove(within(t), repo.RemoveOptions{}); err != nil {
				t.Errorf("%s: %v", stage, err)
			}
			if exists(w.Dir) || exists(top+"/.git/worktrees") || git(t, top, "branch", "--list", "berth/*") != "" || exists(record) {
				t.Errorf("%s, %s: something is left", stage, mend)
			}
		}
	}
}

// What is not committed, or committed to no branch, is not removed without force; a branch
// with commits of its own stays; what git ignores does not count.
func TestWorktreeLosesNothing(t *testing.T) {
	root, r := repository(t)
	top := filepath.Join(root, "project")
	w := add(t, r, repo.WorktreeOptions{Name: "work"})
	put(t, w.Dir+"/ignored.o", "x")
	refuse := func(what string, want repo.State) {
		t.Helper()
		s, err := w.State(within(t))
		if diff := cmp.Diff(want, s); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
		_, err = w.Remove(within(t), repo.RemoveOptions{})
		var loss *repo.LossError
		if !errors.As(err, &loss) || !cmp.Equal(loss.State, want) || spec.HintOf(err) == "" || !exists(w.Dir) {
			t.Errorf("%s: remove: %v", what, err)
		}
	}
	put(t, w.Dir+"/file", "two\n")
	put(t, w.Dir+"/new/file", "x")
	refuse("changed", repo.State{Files: []string{"new/file", "file"}, Changed: 2})
	must(0, os.Remove(w.Dir+"/file"))
	must(0, os.RemoveAll(w.Dir+"/new"))
	refuse("deleted", repo.State{Files: []string{"file"}, Changed: 1})
	put(t, w.Dir+"/file", "two\n")
	git(t, w.Dir, "checkout", "-q", "--detach")
	git(t, w.Dir, "commit", "-q", "-a", "-m", "nowhere")
	refuse("detached", repo.State{Files: []string{}, Commits: 1, Unnamed: true})
	git(t, w.Dir, "checkout", "-q", "-B", w.Branch)
	if s, err := w.State(within(t)); err != nil || s.Loses() || s.Commits != 1 {
		t.Errorf("committed: %+v, %v", s, err)
	}
	if left, err := w.Remove(within(t), repo.RemoveOptions{}); err != nil || left.Branch != w.Branch || exists(w.Dir) {
		t.Errorf("committed: %+v, %v", left, err)
	}
	if got := git(t, top, "log", "-1", "--format=%s", w.Branch); got != "nowhere" {
		t.Errorf("the branch has %q", got)
	}
	add(t, r, repo.WorktreeOptions{Name: "other"})
	if kept, err := r.KeptBranches(within(t)); err != nil || !cmp.Equal(kept, []string{w.Branch}) {
		t.Errorf("kept are %q, %v; want %s", kept, err, w.Branch)
	}
	git(t, top, "branch", "-m", w.Branch, "kept")
	w = add(t, r, repo.WorktreeOptions{Name: "work", Base: "kept"})
	put(t, w.Dir+"/file", "three\n")
	git(t, w.Dir, "commit", "-q", "-a", "-m", "own")
	put(t, w.Dir+"/deep/er/file", "x")
	must(0, os.Chmod(w.Dir+"/deep/er", 0))
	if left, err := w.Remove(within(t), repo.RemoveOptions{Force: true}); err != nil || left.Branch != "" || exists(w.Dir) || git(t, top, "branch", "--list", "berth/work") != "" {
		t.Errorf("by force: %+v, %v", left, err)
	}
}

// A repository that every command behind a wall can write is not worked in behind one.
func TestOnMachineNeedsAWall(t *testing.T) {
	root, r := repository(t)
	w, err := r.AddWorktree(within(t), repo.WorktreeOptions{Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", root)
	for name, s := range map[string]spec.Spec{
		"a temporary directory": {},
		"a writable root":       {WritableRoots: []string{root}},
		"a jail":                {Isolation: spec.IsolationJail},
	} {
		wantCode(t, name, w.OnMachine(&s), spec.CodeUnsupported)
		if s.Workdir != "" {
			t.Errorf("%s: the workdir is %s", name, s.Workdir)
		}
	}
	none := spec.Spec{Isolation: spec.IsolationNone}
	if err := w.OnMachine(&none); err != nil || none.Workdir != w.Dir {
		t.Errorf("without a wall: %v, in %q", err, none.Workdir)
	}
}

// A work tree that others have joined is removed only by who means it: the run that made it
// leaves it as it is.
func TestJoinedWorktree(t *testing.T) {
	_, r := repository(t)
	w := add(t, r, repo.WorktreeOptions{Name: "w"})
	other, err := r.Worktree(within(t), "w")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := other.Join(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = w.Remove(within(t), repo.RemoveOptions{Alone: true})
	if wantCode(t, "alone", err, spec.CodeUnavailable); !errors.Is(err, repo.ErrJoined) || !exists(w.Dir) {
		t.Errorf("alone: %v", err)
	}
	if _, err := w.Remove(within(t), repo.RemoveOptions{}); err != nil || exists(w.Dir) {
		t.Error(err)
	}
	wantCode(t, "join what is gone", other.Join(within(t)), spec.CodeNotFound)
	again := add(t, r, repo.WorktreeOptions{Name: "w"})
	wantCode(t, "join what was made again", other.Join(within(t)), spec.CodeNotFound)
	if _, err := again.Remove(within(t), repo.RemoveOptions{Alone: true}); err != nil {
		t.Error(err)
	}
}
