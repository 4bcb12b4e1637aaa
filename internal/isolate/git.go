package isolate

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/berth-dev/berth/internal/gitindex"
	"github.com/berth-dev/berth/internal/isolate/repository"
)

const (
	// maxLinks is how many submodules are protected one by one in all, and of one index
	// as many as there may be in one directory.
	maxLinks = 256
	// maxIndexes is how many indexes the program watches.
	maxIndexes = 64
)

// Index is a list of files of git's, in which a command can make a directory a submodule,
// and the work tree that its names are relative to.
type Index struct{ Path, WorkTree string }

// checkout is a directory that git works in: a root, or a submodule in one.
type checkout struct {
	root, dir string
	depth     int // of how many others it is a submodule
}

// obeyGit adds what programs outside obey of the repositories of the roots that were asked for
// and of their submodules. One depth comes after the other: what commands make up in one root
// takes nothing from another, nor from what contains it.
func (l *layout) obeyGit(homes []string) {
	var next []checkout
	for _, root := range l.asked {
		next = append(next, checkout{root: root, dir: root})
	}
	for len(next) > 0 {
		var deeper []checkout
		for _, c := range next {
			deeper = append(deeper, l.obeyCheckout(c, homes)...)
		}
		for _, m := range l.modules {
			l.obeyModules(m.root, m.dir)
		}
		next, l.modules = deeper, nil
	}
}

// obeyCheckout does so for one of them, and returns its submodules.
func (l *layout) obeyCheckout(c checkout, homes []string) []checkout {
	gitDir, common := l.obeyDot(c)
	if bare := c.dir == c.root && l.obeyBare(c.root); bare && gitDir == "" {
		gitDir, common = c.root, c.root
	}
	if gitDir == "" {
		return nil
	}
	l.obeyHooks(c.dir, gitDir, common, homes)
	return l.obeyIndex(c, gitDir)
}

// obeyBare adds the parts of a root that is a repository itself, or the names that a command
// has to make before it is one, and reports whether it may be one. One within another root
// was asked for to be written.
func (l *layout) obeyBare(root string) bool {
	wants := repository.Wants(root)
	for _, name := range wants {
		l.obeyOne(root, name)
	}
	if len(wants) > 0 || slices.Contains(l.nested, root) {
		return false
	}
	l.obeyParts(root, root, inGit)
	return true
}

// obeyDot adds what programs outside obey because the .git of a checkout leads there, and
// returns where that is: the directory of its own and the one that it shares with other work
// trees, free of links. "": nowhere.
func (l *layout) obeyDot(c checkout) (gitDir, common string) {
	dot := filepath.Join(c.dir, ".git")
	name, err := filepath.Rel(c.root, dot)
	w, traceErr := l.passed.trace(dot)
	if err != nil {
		return "", ""
	}
	if c.depth > 0 && len(w.links) > 0 { // git is not led by it until it is replaced
		l.unwatched = append(l.unwatched, dot)
	}
	info, err := os.Lstat(w.target)
	switch {
	case traceErr != nil, err != nil: // missing, or closed
		l.obeyOne(c.root, name)
		return "", ""
	case info.IsDir():
		l.obeyParts(c.root, dot, inGit)
		return w.target, l.commonOf(c.root, w.target)
	}
	l.obeyOne(c.root, name)
	path, err := repository.Pointer(w.target, c.dir, "gitdir: ")
	if err != nil && info.Mode().IsRegular() {
		l.unwatched = append(l.unwatched, dot)
	}
	if gitDir = l.reached(path); gitDir == "" {
		return "", ""
	}
	common = l.commonOf(c.root, gitDir)
	parts := inGit
	if common != gitDir { // the rest is read there
		parts = []string{"commondir", "config.worktree"}
	}
	l.obeyParts(c.root, gitDir, parts)
	return gitDir, common
}

// commonOf is the directory whose configuration and hooks hold for gitDir. It adds what
// programs outside obey in it, if it is another one.
func (l *layout) commonOf(root, gitDir string) string {
	path, err := repository.Pointer(filepath.Join(gitDir, "commondir"), gitDir, "")
	common := l.reached(path)
	if err != nil || common == "" || common == gitDir {
		return gitDir
	}
	l.obeyParts(root, common, inGit)
	return common
}

// reached is what a pointer of git's leads to, free of links; "": nothing. What it names may
// be made in a root. What cannot be seen inside is not read: what is told to the program of
// it would be.
func (l *layout) reached(path string) string {
	if path == "" {
		return ""
	}
	w, err := l.passed.trace(path)
	if root := l.rootOf(filepath.Clean(path)); err != nil && root != "" {
		name, _ := filepath.Rel(root, filepath.Clean(path)) // it lies in it
		l.obeyOne(root, name)
	}
	switch {
	case err != nil:
		return ""
	case l.shadowed(w.target):
		l.unwatched = append(l.unwatched, w.target)
		return ""
	}
	return w.target
}

// obeyParts adds those parts of a directory of git's, if it lies in a root, and of the
// submodules that it keeps. root is the one for which it is looked at.
func (l *layout) obeyParts(root, dir string, parts []string) {
	if !within(dir, root) {
		root = l.rootOf(dir)
	}
	name, err := filepath.Rel(root, dir)
	if root == "" || err != nil {
		return
	}
	for _, part := range parts {
		l.obey(root, name, part)
	}
	l.modules = append(l.modules, checkout{root: root, dir: filepath.Join(dir, "modules")})
	if trees := filepath.Join(dir, "worktrees"); !l.fixed(trees) {
		for _, tree := range entriesOf(trees) {
			l.modules = append(l.modules, checkout{root: root, dir: filepath.Join(trees, tree, "modules")})
		}
	}
}

// obeyModules adds what programs outside obey of the submodules in a modules directory of
// root, one by one if there is room for that.
func (l *layout) obeyModules(root, dir string) {
	parts := repository.ModuleParts(dir)
	mounts := 0
	for _, part := range parts {
		mounts += depth(root, part)
	}
	if l.mounted+mounts > maxObeyed {
		parts = []string{dir}
	}
	for _, part := range parts {
		if name, err := filepath.Rel(root, part); err == nil {
			l.obeyOne(root, name)
		}
	}
}

// obeyHooks adds the directories in which git looks for the hooks of a checkout because a
// configuration says so: the repository's, that of the work tree, or its user's.
func (l *layout) obeyHooks(dir, gitDir, common string, homes []string) {
	files := []string{filepath.Join(common, "config"), filepath.Join(gitDir, "config.worktree")}
	for _, home := range homes {
		files = append(files, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config/git/config"))
	}
	for _, path := range repository.HooksPaths(files...) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		path = filepath.Clean(path)
		if root := l.rootOf(path); root != "" && path != root && path != dir {
			name, _ := filepath.Rel(root, path) // it lies in it
			l.obeyOne(root, name)
		}
	}
}

// obeyIndex returns the submodules that the index of a checkout names, as many as are
// protected one by one, and adds that index to those that are watched: a command that can
// write it makes others.
func (l *layout) obeyIndex(c checkout, gitDir string) []checkout {
	path := filepath.Join(gitDir, "index")
	switch index := (Index{path, c.dir}); {
	case l.rootOf(path) == "" || l.shadowed(path) || l.fixed(path) || slices.Contains(l.indexes, index):
	case len(l.indexes) == maxIndexes:
		l.unwatched = append(l.unwatched, path)
	default:
		l.indexes = append(l.indexes, index)
	}
	index, err := gitindex.Read(path)
	if (err != nil && !isMissing(err)) || index.Unread != "" {
		l.unwatched = append(l.unwatched, path)
	}
	var out []checkout
	for i, link := range index.Links {
		dir := filepath.Join(c.dir, link)
		switch {
		case !filepath.IsLocal(link) || dir == c.dir:
		case i >= repository.MaxModules || l.links == maxLinks || c.depth == repository.MaxDepth:
			l.unwatched = append(l.unwatched, filepath.Join(dir, ".git"))
		default:
			l.links++
			out = append(out, checkout{c.root, dir, c.depth + 1})
		}
	}
	return out
}
