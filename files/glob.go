package files

import (
	"context"
	"io/fs"
	"iter"

	"github.com/berth-dev/berth/files/internal/pattern"
	"github.com/berth-dev/berth/spec"
)

// Glob yields the files that o selects; Globber says what is promised.
//
// Over an FS that is no Globber it reads each directory that may hold a match, and
// has at most the names of the directories in memory that it stands in; more than
// 2,097,152 of them end the sequence with CodeTooLarge.
func Glob(ctx context.Context, fsys FS, o GlobOptions) iter.Seq2[Match, error] {
	if g, ok := fsys.(Globber); ok {
		return g.Glob(ctx, o)
	}
	return func(yield func(Match, error) bool) {
		g, err := newGlob(ctx, fsys, o)
		if err == nil {
			g.yield = yield
			err = g.run()
		}
		if err != nil && err != errStop {
			yield(Match{}, err)
		}
	}
}

// allTypes are the bits of GlobTypes that mean something.
const allTypes = GlobFiles | GlobDirs | GlobLinks | GlobOther

// has reports whether a file with mode is wanted.
func (g GlobTypes) has(mode fs.FileMode) bool {
	switch mode.Type() {
	case 0:
		return g&GlobFiles != 0
	case fs.ModeDir:
		return g&GlobDirs != 0
	case fs.ModeSymlink:
		return g&GlobLinks != 0
	}
	return g&GlobOther != 0
}

// glob is one Glob under way.
type glob struct {
	walker
	o       GlobOptions
	pattern *pattern.Matcher
	filter  Filter // of the top
	yield   func(Match, error) bool
	left    int // matches; negative: any number
}

// position is what a glob knows of a directory that it stands in.
type position struct {
	pattern pattern.State
	filter  Filter
}

func newGlob(ctx context.Context, fsys FS, o GlobOptions) (*glob, error) {
	g := &glob{walker: walker{ctx: ctx, fsys: fsys}, o: o, left: -1}
	if o.Pattern == "" {
		g.o.Pattern = "**"
	}
	if o.Dir == "" {
		g.o.Dir = "."
	}
	if o.Types == 0 {
		g.o.Types = allTypes
	}
	switch {
	case o.Limit < 0:
		return nil, spec.New(spec.CodeInvalid, "a negative limit")
	case o.Types&^allTypes != 0:
		return nil, spec.New(spec.CodeInvalid, "an unknown file type")
	case o.Limit > 0:
		g.left = o.Limit
	}
	if err := spec.ValidatePath(g.o.Dir); err != nil {
		return nil, spec.Wrap(err, "", "", "", o.Dir)
	}
	p, err := pattern.Compile(g.o.Pattern)
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeInvalid, Err: err}
	}
	g.pattern = pattern.NewMatcher(p)
	g.filter, err = newFilter(&g.walker, g.o.Dir, o.Exclude)
	return g, err
}

// run walks from the top.
func (g *glob) run() error {
	if g.o.Gitignore {
		all, err := g.filter.askGit()
		if err != nil {
			return err
		}
		if all {
			return g.exists()
		}
	}
	at := position{pattern: g.pattern.Begin(), filter: g.filter}
	if name, ok := g.pattern.Only(at.pattern); ok {
		if err := g.exists(); err != nil {
			return err
		}
		return g.look("", name, at)
	}
	entries, err := g.names(g.o.Dir, NamesOptions{})
	if err != nil {
		return err
	}
	return g.directory("", entries, at)
}

// exists checks that the search begins in a directory where none is listed.
func (g *glob) exists() error {
	info, err := g.fsys.Stat(g.ctx, g.o.Dir, StatOptions{Follow: true})
	if err == nil && !info.IsDir() {
		err = &spec.Error{Path: g.o.Dir, Code: spec.CodeNotDirectory}
	}
	return err
}

// directory takes what is in the directory at rel.
func (g *glob) directory(rel string, entries []entry, at position) error {
	if i, ok := find(entries, gitignoreName); ok && entries[i].mode.IsRegular() {
		if err := at.filter.Load(rel); err != nil {
			return err
		}
	}
	for i := range entries {
		if err := g.ctx.Err(); err != nil {
			return err
		}
		if err := g.entry(rel, entries[i], at); err != nil {
			return err
		}
		entries[i] = entry{}
		g.held--
	}
	return nil
}

// look takes the one entry of the directory at rel that can match, without listing.
func (g *glob) look(rel, name string, at position) error {
	if name == "." || name == ".." {
		return nil
	}
	info, err := g.fsys.Stat(g.ctx, join(g.o.Dir, join(rel, name)), StatOptions{})
	if err != nil {
		return pass(err)
	}
	if err := at.filter.Load(rel); err != nil {
		return err
	}
	return g.entry(rel, entry{name, info.Mode.Type()}, at)
}

// entry takes one entry of the directory at rel, and what is below it.
func (g *glob) entry(rel string, e entry, at position) error {
	here := position{pattern: g.pattern.Step(at.pattern, e.name)}
	dir := e.mode.IsDir()
	enter := dir && g.pattern.Open(here.pattern)
	match := g.o.Types.has(e.mode) && g.pattern.Matches(here.pattern, dir)
	if !enter && !match {
		return nil
	}
	path := join(rel, e.name)
	if len(join(g.o.Dir, path)) > spec.MaxPathBytes {
		return nil
	}
	var skip bool
	if here.filter, skip = at.filter.Step(path, dir); skip {
		return nil
	}
	if err := g.ctx.Err(); err != nil { // which makes the filter's answer void
		return err
	}
	if match {
		if err := g.found(path, e); err != nil {
			return err
		}
	}
	if !enter {
		return nil
	}
	if name, ok := g.pattern.Only(here.pattern); ok {
		return g.look(path, name, here)
	}
	entries, err := g.names(join(g.o.Dir, path), NamesOptions{NoFollow: true})
	if err != nil {
		return pass(err)
	}
	return g.directory(path, entries, here)
}

// found yields a match.
func (g *glob) found(path string, e entry) error {
	m := Match{Path: path, Info: Info{Name: e.name, Mode: e.mode.Type()}}
	if g.o.Metadata {
		info, err := g.fsys.Stat(g.ctx, join(g.o.Dir, path), StatOptions{})
		if err != nil {
			return pass(err)
		}
		if !g.o.Types.has(info.Mode) {
			return nil // it has become something else
		}
		m.Info = info
	}
	if !g.yield(m, nil) {
		return errStop
	}
	if g.left--; g.left == 0 {
		return errStop
	}
	return nil
}
