package files

import (
	"context"
	"strings"

	"github.com/berth-dev/berth/files/internal/ignore"
	"github.com/berth-dev/berth/files/internal/pattern"
	"github.com/berth-dev/berth/spec"
)

// Filter says what Exclude and Gitignore of GlobOptions leave out of one directory of a
// tree. The zero value leaves out nothing. The Filters of one tree are not safe for
// concurrent use.
type Filter struct {
	of      *filtering
	exclude pattern.State
	ignored *ignore.Dir // nil: git's rules are not asked
}

// filtering is what all Filters of a tree share.
type filtering struct {
	walker  *walker
	dir     string           // where the tree begins
	exclude *pattern.Matcher // nil: nothing is excluded
}

// NewFilter returns the Filter of the directory dir, in which its tree begins. all: git
// ignores dir itself, and so everything. A malformed pattern is CodeInvalid.
func NewFilter(ctx context.Context, fsys FS, dir string, exclude []string, gitignore bool) (f Filter, all bool, err error) {
	if f, err = newFilter(&walker{ctx: ctx, fsys: fsys}, dir, exclude); err == nil && gitignore {
		all, err = f.askGit()
	}
	return f, all, err
}

func newFilter(w *walker, dir string, exclude []string) (Filter, error) {
	f := Filter{of: &filtering{walker: w, dir: dir}}
	if len(exclude) == 0 {
		return f, nil
	}
	p, err := pattern.Compile(exclude...)
	if err != nil {
		return f, &spec.Error{Code: spec.CodeInvalid, Err: err}
	}
	f.of.exclude = pattern.NewMatcher(p)
	f.exclude = f.of.exclude.Begin()
	return f, nil
}

// askGit makes git's rules count, and reports whether they leave out everything.
func (f *Filter) askGit() (all bool, err error) {
	f.ignored, all, err = findIgnoring(f.of.walker, f.of.dir)
	return all, err
}

// Step reports whether an entry of the directory is left out. name is its path from where
// the tree begins; dir: it is a directory, and below its own Filter.
func (f Filter) Step(name string, dir bool) (below Filter, skip bool) {
	below.of = f.of
	if f.of == nil {
		return below, false
	}
	base := name[strings.LastIndexByte(name, '/')+1:]
	if f.of.exclude != nil {
		below.exclude = f.of.exclude.Step(f.exclude, base)
		if f.of.exclude.Matches(below.exclude, dir) {
			return below, true
		}
	}
	if f.ignored == nil {
		return below, false
	}
	if base == ".git" || f.ignored.Ignores(name, dir) {
		return below, true
	}
	if dir {
		below.ignored = f.ignored.Below(name)
	}
	return below, false
}

// Load reads the .gitignore of the directory itself, which lies at name; "": it is where
// the tree begins. Until then only what is said above counts.
func (f Filter) Load(name string) error {
	if f.ignored == nil {
		return nil
	}
	return loadIgnoring(f.of.walker, join(f.of.dir, name), f.ignored)
}
