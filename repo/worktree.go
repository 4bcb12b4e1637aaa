package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Location says where a work tree lies.
type Location string

// The locations.
const (
	LocationData   Location = "data"   // in the data directory
	LocationBeside Location = "beside" // beside the repository: DIR-NAME
	// LocationInside is .berth/worktrees/NAME in the main work tree, for whose git that
	// directory is excluded. A bare repository has none.
	LocationInside Location = "inside"
)

// Locations returns all of them.
func Locations() []Location { return []Location{LocationData, LocationBeside, LocationInside} }

// Worktree is a work tree on a branch of its own. What it says was so when it was made.
type Worktree struct {
	Name     string    `json:"name"`
	Dir      string    `json:"dir"`
	Branch   string    `json:"branch"` // BranchPrefix and the name
	Base     string    `json:"base"`   // the id of the commit that the branch began at
	Location Location  `json:"location"`
	Made     time.Time `json:"made"`

	repo  *Repository
	admin string // the name of the directory that git keeps for it
	ready bool   // its making was not broken off
}

// CommonDir is the directory of the repository, in which the work tree's commits and
// branch are.
func (w *Worktree) CommonDir() string { return w.repo.common }

// Repository is the main work tree of the repository, or its directory if it is bare.
func (w *Worktree) Repository() string { return w.repo.Dir() }

// record is what is kept of a work tree where no place can write.
type record struct {
	Worktree
	// Admin is the name of the directory that git keeps for it; "" before Ready.
	Admin string `json:"admin,omitempty"`
	// Ready: it was made. One that is not, and that nobody holds the lock for, is what a
	// crash has left.
	Ready bool `json:"ready,omitempty"`
	// Joined: others than who made it have come to work in it.
	Joined bool `json:"joined,omitempty"`
}

const (
	recordDir = "records"
	recordExt = ".json"
)

// Worktrees returns the work trees that were made from this data directory, by name.
func (r *Repository) Worktrees(ctx context.Context) ([]*Worktree, error) {
	entries, err := os.ReadDir(filepath.Join(r.data, recordDir)) // sorted
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, spec.Wrap(fileError(err), "list", "", "", r.Dir())
	}
	found := []*Worktree{}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), recordExt)
		if !ok || checkName(name) != nil {
			continue
		}
		w, err := r.Worktree(ctx, name)
		if spec.CodeOf(err) == spec.CodeNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, w)
	}
	return found, nil
}

// Worktree returns the one that has the name. Where there is none the error is
// CodeNotFound. One whose making was broken off is returned too; it can be removed, or
// made again.
func (r *Repository) Worktree(ctx context.Context, name string) (*Worktree, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rec, err := r.load(name)
	if err != nil {
		return nil, spec.Wrap(err, "open", "", "", r.Dir())
	}
	if rec == nil {
		return nil, &spec.Error{Op: "open", Path: r.Dir(), Code: spec.CodeNotFound, Err: fmt.Errorf("the repository has no work tree %q of ours", name), Hint: "`berth worktree ls` lists them"}
	}
	return r.worktree(*rec), nil
}

// Join says that another session than the one that made the work tree works in it too,
// which from then on nobody removes by RemoveOptions.Alone. One that has been removed
// meanwhile is CodeNotFound. A context that ends while others change work trees of the
// repository leaves everything as it was.
func (w *Worktree) Join(ctx context.Context) error {
	return spec.Wrap(w.join(ctx), "join", "", "", w.Dir)
}

func (w *Worktree) join(ctx context.Context) error {
	unlock, err := w.repo.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := w.repo.load(w.Name)
	switch {
	case err != nil:
		return err
	case rec == nil || !rec.Ready || !rec.Made.Equal(w.Made):
		return spec.New(spec.CodeNotFound, "the work tree has been removed")
	case rec.Joined:
		return nil
	}
	rec.Joined = true
	return w.repo.store(*rec)
}

// worktree is what a caller gets of a record.
func (r *Repository) worktree(rec record) *Worktree {
	w := rec.Worktree
	w.repo, w.admin, w.ready = r, rec.Admin, rec.Ready
	return &w
}

// checkName refuses what is no name: of a file, and of a branch.
func checkName(name string) error {
	if spec.ValidateKey(spec.Key(name)) != nil || strings.Contains(name, "..") || strings.HasSuffix(name, ".") || strings.HasSuffix(name, ".lock") || len(name) > maxName {
		return &spec.Error{
			Code: spec.CodeInvalid, Err: fmt.Errorf("%q is no name of a work tree", name[:min(len(name), maxName)]),
			Hint: fmt.Sprintf("want at most %d letters, digits, '.', '_' and '-', the first a letter or digit, and no end that git takes for its own", maxName),
		}
	}
	return nil
}

// maxName leaves room for what is put before and after a name.
const maxName = 100

func (r *Repository) recordPath(name string) string {
	return filepath.Join(r.data, recordDir, name+recordExt)
}

// load reads a record; nil: there is none.
func (r *Repository) load(name string) (*record, error) {
	data, err := os.ReadFile(r.recordPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileError(err)
	}
	var rec record
	if err := json.Unmarshal(data, &rec); err != nil || rec.Name != name || rec.Branch != BranchPrefix+name || !filepath.IsAbs(rec.Dir) || !isID(rec.Base) {
		return nil, &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("the record %s is damaged", r.recordPath(name))}
	}
	return &rec, nil
}

// store writes a record, whole or not at all.
func (r *Repository) store(rec record) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return &spec.Error{Code: spec.CodeInternal, Err: err}
	}
	path := r.recordPath(rec.Name)
	temp := path + ".new" // of whoever holds the lock
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return fileError(err)
	}
	return fileError(os.Rename(temp, path))
}

// forget removes a record.
func (r *Repository) forget(name string) error {
	if err := os.Remove(r.recordPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(err)
	}
	return nil
}

// admin is the directory that git keeps for a work tree.
func (r *Repository) admin(name string) string { return filepath.Join(r.common, "worktrees", name) }

// isID reports whether text is the id of a commit, of either kind, and not that of none.
func isID(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == "" && strings.Trim(text, "0") != ""
}
