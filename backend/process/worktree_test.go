//go:build linux

package process_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/repo"
	"github.com/berth-dev/berth/spec"
)

// TestWorktreeOfASession defends: in a work tree made for a session, wherever it lies, git
// commits under guard, and cannot change what has git run programs in the repository; what
// was committed outlives the work tree, and its record is out of reach.
func TestWorktreeOfASession(t *testing.T) {
	needBwrap(t)
	base := far(t)
	top := filepath.Join(base, "project")
	write(t, "one\n", top, "file")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-C", top}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	r, err := repo.Open(top, filepath.Join(base, "data"))
	if err != nil {
		t.Fatal(err)
	}
	git("worktree", "add", "-q", filepath.Join(base, "other"))
	d := open(t, options(t))
	for _, location := range repo.Locations() {
		w, err := r.AddWorktree(within(t), repo.WorktreeOptions{Name: string(location), Location: location})
		if err != nil {
			t.Fatal(err)
		}
		s := spec.Spec{Key: spec.Key(location), Env: map[string]string{"GIT": w.CommonDir(), "DATA": filepath.Join(base, "data"), "LOCATION": string(location)}}
		if err := w.OnMachine(&s); err != nil {
			t.Fatal(err)
		}
		place := provision(t, d, s)
		must(t, place, `git config user.name 2>/dev/null; echo two >file && git -c user.name=t -c user.email=t@example.com commit -q -am "of $LOCATION" && git status --short`)
		for _, script := range []string{
			`echo x >>"$GIT/config"`, `echo x >"$GIT/hooks/post-checkout"`, `echo x >>"$GIT"/worktrees/*/commondir`, `echo x >>"$GIT"/worktrees/*/config.worktree`,
			`echo x >>"$GIT"/worktrees/other/commondir`, `echo x >"$GIT"/worktrees/other/config.worktree`,
			`echo x >>"$(echo "$DATA"/worktrees/*/records/*.json)"`, `touch "$DATA/new"`,
		} {
			refused(t, place, script)
		}
		_, exit := sh(t, place, `echo x >"$GIT/commondir"`)
		if forged := filepath.Join(w.CommonDir(), "commondir"); !slices.Contains(exit.HostExecutable, forged) {
			t.Errorf("%s: %s is obeyed outside, and was not told of: %+v", location, forged, exit)
		}
		must(t, place, `rm "$GIT/commondir"`)
		if state, err := w.State(within(t)); err != nil || state.Loses() || state.Commits != 1 {
			t.Errorf("%s: %+v, %v", location, state, err)
		}
		if err := d.Reap(within(t), s.Key, driver.ReapOptions{}); err != nil {
			t.Error(err)
		}
		if left, err := w.Remove(within(t), repo.RemoveOptions{}); err != nil || left.Branch != w.Branch {
			t.Errorf("%s: %+v, %v", location, left, err)
		}
		if got := git("log", "-1", "--format=%s", w.Branch); got != "of "+string(location)+"\n" {
			t.Errorf("%s: the branch has %q", location, got)
		}
	}
}
