package isolate

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-dev/berth/internal/isolate/repository"
)

// maxWorktrees is how many other work trees a repository may have whose parts are protected
// one by one.
const maxWorktrees = 512

// Repository is what git writes for a linked worktree outside of it.
type Repository struct {
	// Dir is the repository's directory; "": there is none.
	Dir string
	// Protected are the parts of it by which a program can be made to run outside,
	// those that say which repository the worktree belongs to, and all that it keeps of
	// other worktrees.
	Protected []string
}

// Worktree returns the repository that the linked worktree at dir belongs to, or the
// zero value. What the files say is believed only where they point at each other, where
// the repository lies as git itself puts it, belongs to the owner of dir or to the
// caller, holds neither dir nor one of homes, has at most maxWorktrees others, and lies in
// none of the writable roots: a command could have made it there, and can write to it anyway.
func Worktree(dir string, homes, writable []string) Repository {
	gitDir := linkedGitDir(dir)
	if gitDir == "" {
		return Repository{}
	}
	common, ok := follow(gitDir, "commondir", "")
	if !ok || gitDir != filepath.Join(common, "worktrees", filepath.Base(gitDir)) || !repository.Is(common) {
		return Repository{}
	}
	for _, path := range append([]string{dir}, homes...) {
		if w, err := trace(path); err == nil && within(w.target, common) {
			return Repository{}
		}
	}
	for _, path := range writable {
		if w, err := trace(path); err == nil && (within(common, w.target) || within(gitDir, w.target)) {
			return Repository{}
		}
	}
	if !ownedBy(common, dir) || !ownedBy(gitDir, dir) {
		return Repository{}
	}
	r := Repository{Dir: common}
	for _, name := range []string{"commondir", "config", "config.worktree", "hooks", "modules"} {
		r.Protected = append(r.Protected, filepath.Join(common, name))
	}
	for _, name := range []string{"commondir", "config.worktree", "gitdir"} {
		r.Protected = append(r.Protected, filepath.Join(gitDir, name))
	}
	r.Protected = append(r.Protected, repository.ModuleParts(filepath.Join(gitDir, "modules"))...)
	all := filepath.Dir(gitDir)
	others, err := os.ReadDir(all)
	if err != nil || len(others) > maxWorktrees {
		return Repository{}
	}
	for _, o := range others {
		if o.IsDir() && o.Name() != filepath.Base(gitDir) {
			r.Protected = append(r.Protected, filepath.Join(all, o.Name()))
		}
	}
	if slices.ContainsFunc(r.Protected, isLink) { // it could be replaced
		return Repository{}
	}
	return r
}

// linkedGitDir returns the directory that the repository keeps for the worktree at dir,
// if each names the other.
func linkedGitDir(dir string) string {
	gitDir, ok := follow(dir, ".git", "gitdir: ")
	if !ok {
		return ""
	}
	back, ok := follow(gitDir, "gitdir", "")
	if !ok || !sameFile(back, filepath.Join(dir, ".git")) {
		return ""
	}
	return gitDir
}

// follow resolves the path that a file of dir holds after a prefix.
func follow(dir, name, prefix string) (string, bool) {
	path, err := repository.Pointer(filepath.Join(dir, name), dir, prefix)
	if err != nil || path == "" {
		return "", false
	}
	w, err := trace(path)
	return w.target, err == nil
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
