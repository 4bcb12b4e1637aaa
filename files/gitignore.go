package files

import (
	"errors"
	"path"
	"strings"

	"github.com/berth-dev/berth/files/internal/ignore"
	"github.com/berth-dev/berth/spec"
)

const (
	gitignoreName = ".gitignore"
	// maxIgnoreBytes is the most of a file of patterns: a larger one is
	// CodeTooLarge, because a walk without it would find what is ignored.
	maxIgnoreBytes = 1 << 20
)

// loadIgnoring reads the .gitignore of the directory dir. As git does, it passes over one
// that is no regular file or cannot be read.
func loadIgnoring(w *walker, dir string, into *ignore.Dir) error {
	return loadRules(w, join(dir, gitignoreName), OpenOptions{NoFollow: true}, into.Load)
}

// loadRules reads a file of patterns for which there is room.
func loadRules(w *walker, name string, o OpenOptions, load func([]byte) bool) error {
	o.MaxBytes = maxIgnoreBytes
	data, err := readAll(w.ctx, w.fsys, name, o)
	if err != nil {
		return pass(err)
	}
	if !load(data) {
		return &spec.Error{Path: name, Code: spec.CodeTooLarge, Err: errors.New("too many patterns in this and the directories above")}
	}
	return nil
}

// findIgnoring reads what git's rules say above and at the directory where a walk
// starts. all: it lies in a directory that is ignored, and so everything is. Outside
// of a work tree the walk's own directory is the top; so it is where the FS cannot say
// what is above a relative name.
func findIgnoring(w *walker, start string) (i *ignore.Dir, all bool, err error) {
	i = ignore.Top(w.ctx.Done())
	abs, err := Resolve(w.ctx, w.fsys, start)
	if spec.CodeOf(err) == spec.CodeUnsupported {
		abs, err = path.Clean(start), nil
	}
	if err != nil {
		return nil, false, err
	}
	top, found := "", false
	for dir := abs; ; dir = path.Dir(dir) {
		if found = isWorkTree(w, dir); found {
			top = dir
		}
		if found || dir == "/" || !strings.HasPrefix(dir, "/") {
			break
		}
	}
	if !found {
		return i, false, nil
	}
	if err := loadRules(w, join(gitDir(w, top), "info/exclude"), OpenOptions{}, i.LoadExclude); err != nil {
		return nil, false, err
	}
	below := strings.Trim(strings.TrimPrefix(abs, top), "/")
	if below == "" {
		return i, false, nil
	}
	rel := ""
	for elem := range strings.SplitSeq(below, "/") {
		if err := loadIgnoring(w, join(top, rel), i); err != nil {
			return nil, false, err
		}
		rel = join(rel, elem)
		if elem == ".git" || i.Ignores(rel, true) {
			return i, true, nil
		}
		i = i.Below(rel)
	}
	i.Begin()
	return i, false, nil
}

// isWorkTree reports whether a work tree of git has its top in dir.
func isWorkTree(w *walker, dir string) bool {
	info, err := w.fsys.Stat(w.ctx, join(dir, ".git"), StatOptions{Follow: true})
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return info.IsRegular()
	}
	_, err = w.fsys.Stat(w.ctx, join(dir, ".git/HEAD"), StatOptions{})
	return err == nil
}

// gitDir returns the directory that holds the info of the work tree at top: its
// .git or, where that is a file, as in a linked work tree, what it names.
func gitDir(w *walker, top string) string {
	dir := join(top, ".git")
	link, ok := strings.CutPrefix(firstLine(w, dir), "gitdir: ")
	if !ok {
		return dir
	}
	dir = below(top, link)
	if common := firstLine(w, join(dir, "commondir")); common != "" {
		dir = below(dir, common)
	}
	return dir
}

// below is name, which may be relative to dir.
func below(dir, name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return join(dir, name)
}

// firstLine returns the first line of a small file, "" if there is none.
func firstLine(w *walker, name string) string {
	data, err := ReadFile(w.ctx, w.fsys, name, spec.MaxPathBytes)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSuffix(line, "\r")
}
