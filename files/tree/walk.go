package tree

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// maxHeld is how many names a walk has in memory at most.
const maxHeld = 2 << 20

// walker walks a tree. Unlike a search it passes over nothing but what has vanished, since
// what it finds counts for all that there is.
type walker struct {
	*tree
	each func(name string, kind fs.FileMode) error
	held int // names in memory
}

// entry is what a walk knows of a file.
type entry struct {
	name string
	kind fs.FileMode // type bits
}

// walk calls each for what is in the tree, in the order of the bytes of names, a directory
// before what is in it; what exclude and gitignore say, as in files.GlobOptions, is left
// out. An entry that has vanished meanwhile is passed over; one that cannot be read or
// named is an error.
func walk(t *tree, fsys files.FS, exclude []string, gitignore bool, each func(name string, kind fs.FileMode) error) error {
	filter, all, err := files.NewFilter(t.ctx, fsys, t.root, exclude, gitignore)
	if err != nil || all {
		return err
	}
	w := &walker{tree: t, each: each}
	return w.directory("", filter)
}

// directory takes what is in a directory of the tree; "": its own.
func (w *walker) directory(dir string, filter files.Filter) error {
	entries, err := w.names(dir)
	if err != nil {
		return w.answer(dir, err)
	}
	if slices.ContainsFunc(entries, func(e entry) bool { return e.name == ".gitignore" && e.kind == 0 }) {
		if err := filter.Load(dir); err != nil {
			return err
		}
	}
	for i := range entries {
		if err := w.entry(dir, entries[i], filter); err != nil {
			return err
		}
		entries[i] = entry{}
		w.held--
	}
	return nil
}

// entry takes one entry of a directory, and what is below it.
func (w *walker) entry(dir string, e entry, filter files.Filter) error {
	name := strings.TrimPrefix(dir+"/"+e.name, "/")
	below, skip := filter.Step(name, e.kind == fs.ModeDir)
	if err := w.ctx.Err(); err != nil { // which makes the filter's answer void
		return err
	}
	switch {
	case skip:
		return nil
	case len(w.root)+len("/")+len(name) > spec.MaxPathBytes:
		return w.answer(name, &spec.Error{Code: spec.CodeInvalidPath, Err: fmt.Errorf("a name of more than %d bytes", spec.MaxPathBytes)})
	}
	if err := w.each(name, e.kind); err != nil || e.kind != fs.ModeDir {
		return w.answer(name, err)
	}
	return w.directory(name, below)
}

// answer makes err, which happened at an entry, that of the walk; nil: it has vanished.
func (w *walker) answer(name string, err error) error {
	switch {
	case name == "":
		return err
	case spec.CodeOf(err) == spec.CodeFileNotFound:
		return nil
	case spec.CodeOf(err) == "":
		return err
	}
	return about(err, w.root, name)
}

// names returns the entries of a directory in the order of their bytes.
func (w *walker) names(dir string) ([]entry, error) {
	name, o := "/", files.NamesOptions{NoFollow: dir != ""}
	switch {
	case dir != "":
		var err error
		if name, err = w.name(dir); err != nil {
			return nil, err
		}
	case w.dir != "":
		name = w.root
	}
	var all []entry
	for info, err := range files.Names(w.ctx, w.fsys, name, o) {
		if w.held++; err == nil && w.held > maxHeld {
			err = spec.New(spec.CodeTooLarge, fmt.Sprintf("more than %d names at once", maxHeld))
		}
		if err != nil {
			w.held -= len(all) + 1
			return nil, err
		}
		all = append(all, entry{info.Name, info.Mode.Type()})
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return all, nil
}
