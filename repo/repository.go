package repo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-dev/berth/internal/filelock"
	"github.com/berth-dev/berth/spec"
)

// BranchPrefix begins the branches of sessions.
const BranchPrefix = "berth/"

// Repository is a repository of this machine, from which work trees are made. It is
// trusted: its configuration can have git run programs.
type Repository struct {
	common string // the directory with HEAD, objects and refs
	top    string // the main work tree; "": it is bare
	data   string // what is ours for it
}

// Open returns the repository whose main work tree dir is or lies in, or the bare one that
// it is. dataDir is where records, and work trees at LocationData, are kept; it is made
// when it is needed, and no place may write it. Both are directories of this machine.
//
// Where there is no repository the error is CodeNotFound. A work tree that git has linked
// to a repository is CodeInvalid, since its own word is not taken for where that is, and
// a repository of another user is CodePermission, as for git.
func Open(dir, dataDir string) (*Repository, error) {
	r := &Repository{}
	err := r.find(dir)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return nil, spec.Wrap(err, "open", "", "", dir)
	}
	if dataDir, err = filepath.Abs(dataDir); err != nil {
		return nil, &spec.Error{Op: "open", Path: dataDir, Code: spec.CodeInvalidPath, Err: err}
	}
	sum := sha256.Sum256([]byte(r.common))
	r.data = filepath.Join(dataDir, "worktrees", slug(r.name())+"-"+hex.EncodeToString(sum[:6]))
	return r, nil
}

// Dir is the main work tree, or the directory of a bare repository.
func (r *Repository) Dir() string {
	if r.top != "" {
		return r.top
	}
	return r.common
}

// name is what people call the repository.
func (r *Repository) name() string { return strings.TrimSuffix(filepath.Base(r.Dir()), ".git") }

// slug makes a name one that any file system takes.
func slug(name string) string {
	const most = 40
	clean := strings.Map(func(c rune) rune {
		if c < '0' || c > 'z' || c > '9' && c < 'A' || c > 'Z' && c < 'a' {
			return '-'
		}
		return c
	}, name)
	return clean[:min(len(clean), most)]
}

// find looks for the repository at dir and above.
func (r *Repository) find(dir string) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return &spec.Error{Code: spec.CodeFileNotFound, Err: cause(err)}
	}
	for at := dir; ; at = filepath.Dir(at) {
		git := filepath.Join(at, ".git")
		info, err := os.Lstat(git)
		switch {
		case err == nil && info.IsDir():
			r.common, r.top = git, at
			return nil
		case err == nil:
			return &spec.Error{
				Code: spec.CodeInvalid, Err: fmt.Errorf("%s only points to a repository", git),
				Hint: "name the main work tree, or the bare repository, that it belongs to",
			}
		case isRepository(at):
			r.common = at
			return nil
		case at == filepath.Dir(at):
			return &spec.Error{Code: spec.CodeNotFound, Err: errors.New("there is no git repository here or above"), Hint: "name a directory of one (--repo DIR)"}
		}
	}
}

// check refuses what git would not trust, or would not take for the repository itself.
func (r *Repository) check() error {
	info, err := os.Lstat(r.common)
	switch {
	case err != nil || !isRepository(r.common):
		return &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("%s is no git repository", r.common)}
	case foreign(info):
		return &spec.Error{Code: spec.CodePermission, Err: errors.New("the repository belongs to another user"), Hint: "work as its owner"}
	}
	if _, err := os.Lstat(filepath.Join(r.common, "commondir")); err == nil {
		return &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("%s says that it is a part of another repository", r.common)}
	}
	return nil
}

// isRepository reports whether dir is what git takes for a repository.
func isRepository(dir string) bool {
	for name, want := range map[string]fs.FileMode{"HEAD": 0, "objects": fs.ModeDir, "refs": fs.ModeDir} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode().Type() != want {
			return false
		}
	}
	return true
}

// git is a call about the repository, made from inside of it.
func (r *Repository) git(args ...string) call {
	return call{args: args, dir: r.common, env: []string{"GIT_DIR=" + r.common, "GIT_COMMON_DIR=" + r.common}}
}

// commit returns the id of the commit that a name stands for; "": it stands for none.
func (r *Repository) commit(ctx context.Context, name string) (string, error) {
	id, err := r.git("rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}").run(ctx)
	var git *gitError
	if errors.As(err, &git) && git.status == 1 {
		return "", nil
	}
	return strings.TrimSpace(id), failed(err, spec.CodeUnavailable)
}

// tip returns the id of the commit that a branch is at; "": there is no such branch. One
// whose commit is not there is an error.
func (r *Repository) tip(ctx context.Context, branch string) (string, error) {
	ref := "refs/heads/" + branch
	_, err := r.git("show-ref", "--verify", "--quiet", ref).run(ctx)
	var git *gitError
	if errors.As(err, &git) && git.status == 1 {
		return "", nil
	}
	if err != nil {
		return "", failed(err, spec.CodeUnavailable)
	}
	id, err := r.commit(ctx, ref)
	if id == "" && err == nil {
		err = &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("the commit of the branch %s is missing", branch), Hint: "`git update-ref -d " + ref + "` removes the branch, and `git fsck` says what else is missing"}
	}
	return id, err
}

// calmHeads refuses a HEAD of a work tree that git would wait for: it reads all of them when
// it makes another.
func (r *Repository) calmHeads() error {
	all, err := os.ReadDir(filepath.Join(r.common, "worktrees"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(err)
	}
	for _, e := range all {
		head := filepath.Join(r.admin(e.Name()), "HEAD")
		if info, err := os.Lstat(head); err == nil && !info.Mode().IsRegular() {
			return oddFile(head)
		}
	}
	return nil
}

// calmRefs refuses what a place can put among the branches of sessions and their logs and git
// would wait for, or follow.
func (r *Repository) calmRefs() error {
	for _, way := range []string{"refs", "logs/refs"} {
		top := filepath.Join(r.common, filepath.FromSlash(way), "heads", strings.TrimSuffix(BranchPrefix, "/"))
		err := filepath.WalkDir(top, func(at string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return fileError(err)
			case !d.IsDir() && !d.Type().IsRegular():
				return oddFile(at)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func oddFile(at string) error {
	return &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("%s is no regular file", at), Hint: "somebody has changed the repository: look into it"}
}

// lock has all who change work trees of this repository wait for each other.
func (r *Repository) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(r.data, recordDir), 0o700); err != nil {
		return nil, fileError(err)
	}
	unlock, err = filelock.Lock(ctx, filepath.Join(r.data, "lock"))
	if err != nil && ctx.Err() == nil {
		err = fileError(err)
	}
	return unlock, err
}

// fileError is the failure of a file of this machine.
func fileError(err error) error {
	code := spec.CodeUnavailable
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		code = spec.CodePermission
	case errors.Is(err, fs.ErrExist):
		code = spec.CodeExists
	}
	return &spec.Error{Code: code, Err: err}
}

// cause takes the name off an error of package os.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// maxSmall bounds the small files by which git says where things are.
const maxSmall = 4 << 10

// readSmall reads a regular file that a place may have written: it waits for no pipe,
// follows no link and reads no more than it should.
func readSmall(path string) (string, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !before.Mode().IsRegular() || before.Size() > maxSmall {
		return "", &fs.PathError{Op: "read", Path: path, Err: fs.ErrInvalid}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openQuietly, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if after, err := f.Stat(); err != nil || !os.SameFile(before, after) {
		return "", &fs.PathError{Op: "read", Path: path, Err: fs.ErrInvalid}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSmall))
	return strings.TrimSpace(string(data)), err
}
