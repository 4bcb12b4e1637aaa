//go:build linux

package docker_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/repo"
	"github.com/berth-dev/berth/spec"
)

// In a container on a work tree of a session git commits to the session's branches, and
// nothing that is written there has git run a program outside, moves another branch, or
// makes git outside take the work tree for lost. A clone is put beside it, and works.
func TestWorktree(t *testing.T) {
	needLocal(t)
	o, ctx, root := testOptions(t), testContext(t), t.TempDir()
	top := filepath.Join(root, "project")
	git := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-C", dir}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git(root, "init", "-q", "-b", "main", "project")
	if err := os.WriteFile(filepath.Join(top, "file"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(top, "add", ".")
	git(top, "commit", "-q", "-m", "first")
	r, err := repo.Open(top, filepath.Join(root, "data"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := r.AddWorktree(ctx, repo.WorktreeOptions{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.AddWorktree(ctx, repo.WorktreeOptions{Name: "w", Location: repo.LocationInside})
	if err != nil {
		t.Fatal(err)
	}
	s := busybox(t)
	s.Env = map[string]string{"GIT": w.CommonDir(), "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.com", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.com"}
	if err := w.InContainer(&s); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/usr", "/lib", "/lib64"} { // this machine's git
		if _, err := os.Stat(dir); err == nil {
			s.Mounts = append(s.Mounts, spec.Mount{Source: dir, Target: dir, ReadOnly: true})
		}
	}
	sb := provision(t, newDriver(t, o), s)
	if got := sh(t, sb, `set -e; pwd; echo two >file; git commit -q -am second; git commit -q --amend -m again; git branch berth/more; git rebase -q HEAD~1; git worktree prune; git gc --auto; git status -sb`); got != w.Dir+"\n## berth/w" {
		t.Errorf("in the container: %q", got)
	}
	attempts := []string{
		`echo x >>$GIT/config`, `echo x >$GIT/config.worktree`, `echo x >$GIT/commondir`, `echo x >$GIT/hooks/post-checkout`, `mv $GIT/hooks $GIT/h`, `echo x >>$GIT/info/attributes`,
		`mkdir -p $GIT/modules/m`, `echo x >$GIT/worktrees/other/commondir`, `echo x >$GIT/worktrees/w/commondir`, `echo x >$GIT/worktrees/w/config.worktree`,
		`rm -f $GIT/worktrees/w/gitdir`, `rm -f $GIT/worktrees/w/locked`, `mv $GIT/worktrees/w $GIT/worktrees/v`, `echo x >.git`, `rm -f .git`, `mv .git x`,
		`echo x >$GIT/refs/heads/main`, `git branch -f main HEAD`, `git update-ref refs/tags/v1 HEAD`, `rm -rf $GIT/logs/HEAD`, `ln -s /etc/passwd $GIT/logs/refs/heads/main`,
		`mv $GIT/refs/heads/berth $GIT/refs/heads/b`, `git config core.fsmonitor x`, `git pack-refs --all`,
	}
	var script strings.Builder
	for i, attempt := range attempts {
		fmt.Fprintf(&script, "(%s) >/dev/null 2>&1 && echo %d\n", attempt, i)
	}
	for i := range strings.FieldsSeq(sh(t, sb, script.String()+":")) {
		n, _ := strconv.Atoi(i)
		t.Errorf("possible: %s", attempts[n])
	}
	sh(t, sb, "touch ../new "+top+"/new") // in the container alone
	// What git outside keeps away, it does not take from under the container.
	git(top, "pack-refs", "--all", "--prune")
	sh(t, sb, "git commit -q --allow-empty -m third")
	clone, err := repo.Clone(ctx, repo.CloneOptions{URL: top, TempDir: root})
	if err != nil {
		t.Fatal(err)
	}
	defer clone.Close()
	if stats, err := clone.Ship(ctx, sb, "/clone"); err != nil || stats.Files < 2 {
		t.Errorf("ship: %+v, %v", stats, err)
	}
	if got := sh(t, sb, `cd /clone; git -c safe.directory=/clone log -1 --format=%s; git -c safe.directory=/clone status --short; git -c safe.directory=/clone fsck 2>&1`); got != "first" {
		t.Errorf("the clone: %q", got)
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if got := git(top, "log", "--format=%s", w.Branch); got != "third\nagain\nfirst" {
		t.Errorf("the branch has %q", got)
	}
	if got := git(top, "status", "--short") + git(top, "fsck"); got != "" {
		t.Errorf("the repository: %q", got)
	}
	if left, err := w.Remove(ctx, repo.RemoveOptions{}); err != nil || left.Branch != w.Branch {
		t.Errorf("remove: %+v, %v", left, err)
	}
	if left, err := other.Remove(ctx, repo.RemoveOptions{}); err != nil || left.Branch != "" {
		t.Errorf("remove the other: %+v, %v", left, err)
	}
}
