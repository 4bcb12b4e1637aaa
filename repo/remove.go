package repo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/spec"
)

// RemoveOptions modify Remove.
type RemoveOptions struct {
	// Force removes what would be lost too, and a branch with commits of its own.
	Force bool
	// Alone leaves a work tree that others have joined as it is: ErrJoined.
	Alone bool
	// KeepBranch keeps the branch also where that is not needed.
	KeepBranch bool
}

// Removed says what a removal has left.
type Removed struct {
	// Branch is the branch that was kept; "": there is none any more.
	Branch string `json:"branch,omitempty"`
}

// ErrJoined is why a work tree is not removed by RemoveOptions.Alone: the cause of a
// *spec.Error with CodeUnavailable.
var ErrJoined = errors.New("other sessions have come to work in it")

// LossError is why a work tree is not removed: the cause of a *spec.Error with
// CodeInvalid.
type LossError struct{ State State }

func (e *LossError) Error() string {
	switch {
	case e.State.Changed == 0:
		return "commits that no branch has would be lost"
	case e.State.Changed == 1:
		return "one file that is not committed would be lost"
	}
	return fmt.Sprintf("%d files that are not committed would be lost", e.State.Changed)
}

// Remove removes the work tree, once nothing works in it, and its branch unless that has
// commits that nothing else has. Where something would be lost, which a place that worked
// there may hide, or where that cannot be told, it is refused and nothing is done, but for
// Force. A work tree that has been removed, or made again since, is removed already; what
// an error or a context that ended has left, the next call removes.
func (w *Worktree) Remove(ctx context.Context, o RemoveOptions) (Removed, error) {
	removed, err := w.remove(ctx, o)
	return removed, spec.Wrap(err, "remove", "", "", w.Dir)
}

func (w *Worktree) remove(ctx context.Context, o RemoveOptions) (Removed, error) {
	r := w.repo
	unlock, err := r.lock(ctx)
	if err != nil {
		return Removed{}, err
	}
	defer unlock()
	rec, err := r.load(w.Name)
	switch {
	case err != nil:
		return Removed{}, err
	case rec == nil || !rec.Made.Equal(w.Made):
		return Removed{}, nil
	case !rec.Ready:
		return Removed{}, r.undo(ctx, *rec)
	case o.Alone && rec.Joined:
		return Removed{}, &spec.Error{Code: spec.CodeUnavailable, Err: ErrJoined}
	}
	if err := r.calmRefs(); err != nil {
		return Removed{}, err
	}
	now := r.worktree(*rec)
	if !o.Force {
		if err := now.harmless(ctx); err != nil {
			return Removed{}, err
		}
	}
	if err := r.removeDir(*rec); err != nil {
		return Removed{}, err
	}
	if err := r.removeAdmin(rec.Admin); err != nil {
		return Removed{}, err
	}
	removed, err := now.removeBranch(ctx, o)
	if err != nil {
		return Removed{}, err
	}
	return removed, r.forget(w.Name)
}

// harmless refuses what would lose something. A work tree that is half removed has lost it.
func (w *Worktree) harmless(ctx context.Context) error {
	if _, err := os.Lstat(w.repo.admin(w.admin)); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(w.Dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	const hint = "look into the work tree and commit what is to be kept, or remove it by force"
	s, err := w.state(ctx)
	var unclear *spec.Error
	switch {
	case errors.As(err, &unclear) && unclear.Hint == "":
		return &spec.Error{Code: unclear.Code, Err: unclear, Hint: hint}
	case err == nil && s.Loses():
		return &spec.Error{Code: spec.CodeInvalid, Err: &LossError{State: s}, Hint: hint}
	}
	return err
}

// removeBranch removes the branch, unless it is worth keeping.
func (w *Worktree) removeBranch(ctx context.Context, o RemoveOptions) (Removed, error) {
	tip, err := w.repo.tip(ctx, w.Branch)
	if err != nil || tip == "" {
		return Removed{}, err
	}
	kept := o.KeepBranch
	if !kept && !o.Force {
		own, err := w.repo.git("rev-list", "--max-count=1", tip, "^"+w.Base, "--not", "--exclude="+w.Branch, "--branches", "--tags", "--remotes").run(ctx)
		if err != nil {
			return Removed{}, failed(err, spec.CodeInvalid)
		}
		kept = own != ""
	}
	if kept {
		return Removed{Branch: w.Branch}, nil
	}
	return Removed{}, w.repo.deleteBranch(ctx, w.Branch, tip)
}

// deleteBranch removes a branch that is at a commit. Git follows the links that lead to a
// branch's files, and a place may have made some.
func (r *Repository) deleteBranch(ctx context.Context, branch, tip string) error {
	if err := r.calmRefs(); err != nil {
		return err
	}
	_, err := r.git("update-ref", "--no-deref", "-d", "refs/heads/"+branch, tip).run(ctx)
	return failed(err, spec.CodeUnavailable)
}

// removeAdmin removes the directory that git keeps for a work tree, and the one of all of
// them if that was the last.
func (r *Repository) removeAdmin(name string) error {
	all := filepath.Join(r.common, "worktrees")
	if _, err := os.Lstat(all); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := realDirs(r.common, "worktrees"); err != nil {
		return err
	}
	if err := removeTree(filepath.Join(all, name)); err != nil {
		return err
	}
	_ = os.Remove(all) // it is not empty, as a rule
	return nil
}

// removeDir removes the directory of a work tree.
func (r *Repository) removeDir(rec record) error {
	if _, err := os.Lstat(filepath.Dir(rec.Dir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if rec.Location == LocationInside { // others may write there
		if err := realDirs(r.top, ".berth", "worktrees"); err != nil {
			return err
		}
	}
	return removeTree(rec.Dir)
}

// removeTree removes a directory with all that is in it, and follows no link. What a place
// has made unreadable is made readable.
func removeTree(dir string) error {
	parent, name := filepath.Split(dir)
	root, err := os.OpenRoot(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fileError(err)
	}
	defer root.Close()
	if err := root.RemoveAll(name); !errors.Is(err, fs.ErrPermission) {
		return fileError(err)
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		open(root, name)
	}
	return fileError(root.RemoveAll(name))
}

// open makes a directory of ours, and those below it, such that they can be emptied.
func open(root *os.Root, name string) {
	_ = root.Chmod(name, 0o700)
	dir, err := root.OpenRoot(name)
	if err != nil {
		return
	}
	defer dir.Close()
	f, err := dir.Open(".")
	if err != nil {
		return
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1)
	for _, e := range entries {
		if e.IsDir() {
			open(dir, e.Name())
		}
	}
}
