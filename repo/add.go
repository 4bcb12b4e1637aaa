package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

// undoTimeout bounds how long it takes to take back what a cancelled call has made.
const undoTimeout = 30 * time.Second

// WorktreeOptions say which work tree is made.
type WorktreeOptions struct {
	// Name names the work tree and its branch: 1 to 100 bytes in the grammar of a
	// spec.Key that git takes for a branch too.
	Name string
	// Base is the commit that the branch begins at, by any name that git has for it.
	// "": the one that is checked out in the main work tree.
	Base     string
	Location Location // "": LocationData
}

// AddWorktree makes a work tree, checks Base out in it, and locks it: a git that does not
// see its directory, in a container say, does not take it for lost. Filters that are
// configured run, as at any checkout; hooks do not.
//
// A name that has a work tree, a branch of that name or a directory that stands where it
// would lie is CodeExists, and a Base that there is not is CodeNotFound. Of callers with
// the same name at once one gets it. After an error, also after ctx has ended, nothing is
// left of what was made; after a crash the next call takes away what it has left.
func (r *Repository) AddWorktree(ctx context.Context, o WorktreeOptions) (*Worktree, error) {
	if err := checkName(o.Name); err != nil {
		return nil, err
	}
	o.Location = cmp.Or(o.Location, LocationData)
	w, err := r.add(ctx, o)
	return w, spec.Wrap(err, "add", "", "", r.Dir())
}

func (r *Repository) add(ctx context.Context, o WorktreeOptions) (*Worktree, error) {
	dir, err := r.place(o)
	if err != nil {
		return nil, err
	}
	unlock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := cmp.Or(r.calmHeads(), r.calmRefs()); err != nil {
		return nil, err
	}
	old, err := r.load(o.Name)
	if err == nil && old != nil && old.Ready {
		err = &spec.Error{Code: spec.CodeExists, Err: fmt.Errorf("the work tree %q, in %s", o.Name, old.Dir), Hint: "take another name, or work in the one that is there"}
	}
	if err == nil && old != nil {
		err = r.undo(ctx, *old)
	}
	if err != nil {
		return nil, err
	}
	rec := record{Worktree: Worktree{Name: o.Name, Dir: dir, Branch: BranchPrefix + o.Name, Location: o.Location, Made: time.Now().UTC()}}
	if rec.Base, err = r.free(ctx, rec, o); err != nil {
		return nil, err
	}
	if err = r.store(rec); err == nil {
		if rec, err = r.create(ctx, rec); err == nil {
			return r.worktree(rec), nil
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if left := r.undo(ctx, rec); left != nil {
		err = errors.Join(err, left)
	}
	return nil, err
}

// place is where a work tree is to lie.
func (r *Repository) place(o WorktreeOptions) (string, error) {
	switch o.Location {
	case LocationData:
		return filepath.Join(r.data, "trees", o.Name), nil
	case LocationBeside:
		return filepath.Join(filepath.Dir(r.Dir()), r.name()+"-"+o.Name), nil
	case LocationInside:
		if r.top == "" {
			return "", spec.New(spec.CodeInvalid, "a bare repository has no work tree to put another one into")
		}
		return filepath.Join(r.top, ".berth", "worktrees", o.Name), nil
	}
	return "", spec.New(spec.CodeInvalid, fmt.Sprintf("location %q: want data, beside or inside", o.Location))
}

// free returns the commit that a work tree begins at, if nothing stands in its way.
func (r *Repository) free(ctx context.Context, rec record, o WorktreeOptions) (base string, err error) {
	base, err = r.commit(ctx, cmp.Or(o.Base, "HEAD"))
	switch {
	case err != nil:
		return "", err
	case base == "" && o.Base == "":
		return "", &spec.Error{Code: spec.CodeInvalid, Err: errors.New("the repository has no commit yet"), Hint: "commit something first, or name a commit to begin at"}
	case base == "":
		return "", &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("no commit %q", o.Base), Hint: "want a branch, a tag or a commit's id that git knows in " + r.Dir()}
	}
	tip, err := r.tip(ctx, rec.Branch)
	if err == nil && tip != "" {
		err = &spec.Error{
			Code: spec.CodeExists, Err: fmt.Errorf("the branch %s", rec.Branch),
			Hint: "an earlier session has left it: merge it, or remove it with git branch -d " + rec.Branch + "; or take another name",
		}
	}
	if err == nil && !vacant(rec.Dir) {
		err = &spec.Error{Code: spec.CodeExists, Err: fmt.Errorf("%s", rec.Dir), Hint: "something else is there: take another name or location"}
	}
	return base, err
}

// vacant reports whether a directory can be made, or has been and is empty.
func vacant(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return errors.Is(err, fs.ErrNotExist)
	}
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// create makes the work tree of a record, and says so in it.
func (r *Repository) create(ctx context.Context, rec record) (record, error) {
	if err := r.makeParent(rec); err != nil {
		return rec, err
	}
	add := r.git("worktree", "add", "--quiet", "--lock", "--reason", "of a session of berth", "--no-track", "-b", rec.Branch, "--", rec.Dir, rec.Base)
	add.long = true
	if _, err := add.run(ctx); err != nil {
		return rec, failed(err, spec.CodeUnavailable)
	}
	var ok bool
	if rec.Admin, ok = r.adminOf(rec.Dir); !ok {
		return rec, spec.New(spec.CodeInternal, "git has not made the work tree that it was asked for")
	}
	// What is there can be kept from being written.
	f, err := os.OpenFile(filepath.Join(r.admin(rec.Admin), "config.worktree"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return rec, fileError(err)
	}
	if err := f.Close(); err != nil {
		return rec, fileError(err)
	}
	rec.Ready = true
	return rec, r.store(rec)
}

// makeParent makes the directory that a work tree lies in.
func (r *Repository) makeParent(rec record) error {
	parent := filepath.Dir(rec.Dir)
	mode := fs.FileMode(0o755)
	if rec.Location == LocationData {
		mode = 0o700
	}
	if err := os.MkdirAll(parent, mode); err != nil {
		return fileError(err)
	}
	if rec.Location != LocationInside {
		return nil
	}
	if err := realDirs(r.top, ".berth", "worktrees"); err != nil {
		return err
	}
	return r.exclude("/.berth/worktrees/")
}

// realDirs refuses a directory below another one that is, or is reached by, something
// else.
func realDirs(at string, names ...string) error {
	for _, name := range names {
		at = filepath.Join(at, name)
		if info, err := os.Lstat(at); err != nil || !info.IsDir() {
			return &spec.Error{Code: spec.CodeNotDirectory, Err: fmt.Errorf("%s", at)}
		}
	}
	return nil
}

// exclude has the main work tree's git not see what a pattern says.
func (r *Repository) exclude(pattern string) error {
	path := filepath.Join(r.common, "info", "exclude")
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(err)
	}
	if slices.Contains(strings.Split(string(data), "\n"), pattern) {
		return nil
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		pattern = "\n" + pattern
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fileError(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fileError(err)
	}
	_, err = f.WriteString(pattern + "\n")
	return fileError(errors.Join(err, f.Close()))
}

// adminOf returns the name of the directory that git keeps for the work tree in dir.
func (r *Repository) adminOf(dir string) (string, bool) {
	entries, _ := os.ReadDir(filepath.Join(r.common, "worktrees"))
	for _, e := range entries {
		if back, err := readSmall(filepath.Join(r.admin(e.Name()), "gitdir")); err == nil && e.IsDir() && filepath.FromSlash(back) == filepath.Join(dir, ".git") {
			return e.Name(), true
		}
	}
	return "", false
}

// undo takes back what has been made for a record that is not ready: the branch only where
// nothing was committed to it, the directory only if git has made it, or nobody has put
// anything into it.
func (r *Repository) undo(ctx context.Context, rec record) error {
	link, err := readSmall(filepath.Join(rec.Dir, ".git"))
	made := err == nil && strings.HasPrefix(filepath.FromSlash(link), "gitdir: "+filepath.Join(r.common, "worktrees")+string(filepath.Separator))
	if made || vacant(rec.Dir) {
		if err := r.removeDir(rec); err != nil {
			return err
		}
	}
	if admin, ok := r.adminOf(rec.Dir); ok {
		if err := r.removeAdmin(admin); err != nil {
			return err
		}
	}
	tip, err := r.tip(ctx, rec.Branch)
	if err == nil && tip == rec.Base {
		err = r.deleteBranch(ctx, rec.Branch, tip)
	}
	if err != nil {
		return err
	}
	return r.forget(rec.Name)
}
