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
	// maxIgnoreMemory is the most that the rules of a directory and of all above it
	// take.
	maxIgnoreMemory = 64 << 20
)

// ignoring is what git ignores in one directory and, where nothing new is said
// there, below it.
type ignoring struct {
	up *ignoring // of the directory above; nil at the top of the work tree
	// dir is the directory's path from the top with a slash behind it, "" for the
	// top itself.
	dir     string
	rules   *ignore.Rules // of its .gitignore; nil: it has none
	exclude *ignore.Rules // of .git/info/exclude, at the top only
	// from is the path from the top to where the walk began, as dir is spelled.
	from    string
	size    int             // of all rules from here to the top, in memory
	matcher *ignore.Matcher // one for the walk
}

// ignores reports whether git ignores what lies at rel, from where the walk began.
// The last rule of the deepest file that has something to say decides.
func (i *ignoring) ignores(rel string, dir bool) bool {
	full := i.from + rel
	for at := i; at != nil; at = at.up {
		for _, rules := range []*ignore.Rules{at.rules, at.exclude} {
			if rules == nil {
				continue
			}
			if ignored, decided := i.matcher.Match(rules, full[len(at.dir):], dir); decided {
				return ignored
			}
		}
	}
	return false
}

// below is what holds in the directory at rel until its .gitignore has been read.
func (i *ignoring) below(rel string) *ignoring {
	return &ignoring{up: i, dir: i.from + rel + "/", from: i.from, size: i.size, matcher: i.matcher}
}

// load reads the .gitignore of the directory at rel below start. As git does, it
// passes over one that is no regular file or cannot be read.
func (i *ignoring) load(w *walker, start, rel string) error {
	rules, err := i.read(w, join(join(start, rel), gitignoreName), OpenOptions{NoFollow: true})
	i.rules = rules
	return err
}

// read reads a file of patterns for which there is room.
func (i *ignoring) read(w *walker, name string, o OpenOptions) (*ignore.Rules, error) {
	o.MaxBytes = maxIgnoreBytes
	data, err := readAll(w.ctx, w.fsys, name, o)
	if err != nil {
		return nil, pass(err)
	}
	rules, ok := ignore.Parse(data, maxIgnoreMemory-i.size)
	if !ok {
		return nil, &spec.Error{Path: name, Code: spec.CodeTooLarge, Err: errors.New("too many patterns in this and the directories above")}
	}
	i.size += rules.Size()
	return rules, nil
}

// findIgnoring reads what git's rules say above and at the directory where a walk
// starts. all: it lies in a directory that is ignored, and so everything is. Outside
// of a work tree the walk's own directory is the top; so it is where the FS cannot say
// what is above a relative name.
func findIgnoring(w *walker, start string) (i *ignoring, all bool, err error) {
	i = &ignoring{matcher: &ignore.Matcher{Done: w.ctx.Done()}}
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
	if i.exclude, err = i.read(w, join(gitDir(w, top), "info/exclude"), OpenOptions{}); err != nil {
		return nil, false, err
	}
	below := strings.Trim(strings.TrimPrefix(abs, top), "/")
	if below == "" {
		return i, false, nil
	}
	rel := ""
	for elem := range strings.SplitSeq(below, "/") {
		if err := i.load(w, top, rel); err != nil {
			return nil, false, err
		}
		rel = join(rel, elem)
		if elem == ".git" || i.ignores(rel, true) {
			return i, true, nil
		}
		i = i.below(rel)
	}
	for at := i; at != nil; at = at.up {
		at.from = below + "/"
	}
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
