package memfs

import (
	"path"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// The limits that Linux has.
const (
	maxNameBytes = 255
	maxLinks     = 40
)

// errCode is a failure whose code says all.
type errCode spec.Code

func (e errCode) Error() string { return spec.Code(e).Info().Text }

// fail makes err the answer about name.
func fail(name string, err error) error {
	if code, ok := err.(errCode); ok {
		return &spec.Error{Path: name, Code: spec.Code(code)}
	}
	return spec.Wrap(err, "", "", "", name)
}

// spot is where a name leads: an entry of a directory, there or not.
type spot struct {
	dir *node
	// base is the entry's name, empty where the name is spelled as a directory
	// ("/", "a/.", "a/.."); node is that directory then.
	base string
	node *node // nil if there is none
	// slash: the name ends with a slash, so that only a directory will do.
	slash bool
}

// absolute checks name and returns the path that it means, unchanged otherwise.
func (f *FS) absolute(name string) (string, error) {
	if err := spec.ValidatePath(name); err != nil {
		return "", err
	}
	if strings.HasPrefix(name, "/") {
		return name, nil
	}
	return f.workdir + "/" + name, nil
}

// label is the name that an Info gives to the file at an absolute path.
func label(abs string) string { return path.Base(path.Clean(abs)) }

// locate finds where name leads without following a link as its last element. With
// parents it makes the directories that are missing before that.
func (f *FS) locate(name string, parents bool) (spot, error) {
	abs, err := f.absolute(name)
	if err != nil {
		return spot{}, err
	}
	return f.walker(parents).locate(f.root, abs)
}

// entry is locate for a name that must be an entry of a directory itself.
func (f *FS) entry(name string) (spot, error) {
	p, err := f.locate(name, false)
	if err == nil && p.base == "" {
		err = errCode(spec.CodeInvalidPath)
	}
	return p, err
}

// existing is locate for a name that must be there; a link is followed if follow.
func (f *FS) existing(name string, follow bool) (*node, error) {
	abs, err := f.absolute(name)
	if err != nil {
		return nil, err
	}
	w := f.walker(false)
	p, err := w.locate(f.root, abs)
	if err != nil {
		return nil, err
	}
	return w.finish(p, follow || p.slash)
}

// directory resolves the whole of an absolute path to a directory.
func (f *FS) directory(abs string, parents bool) (*node, error) {
	return f.walker(parents).directory(f.root, abs)
}

func (f *FS) walker(parents bool) *walker { return &walker{f: f, parents: parents, links: maxLinks} }

// walker resolves one path.
type walker struct {
	f       *FS
	parents bool // make missing directories
	links   int  // that may still be followed
}

// locate resolves p from dir up to its last element.
func (w *walker) locate(dir *node, p string) (spot, error) {
	trimmed := strings.TrimRight(p, "/")
	slash := trimmed != p
	i := strings.LastIndexByte(trimmed, '/')
	before, base := p[:i+1], trimmed[i+1:]
	if base == "" || base == "." || base == ".." {
		w.parents = false
		d, err := w.directory(dir, p)
		return spot{dir: d, node: d, slash: slash}, err
	}
	d, err := w.directory(dir, before)
	if err != nil {
		return spot{}, err
	}
	if len(base) > maxNameBytes {
		return spot{}, errCode(spec.CodeInvalidPath)
	}
	return spot{dir: d, base: base, node: d.entries[base], slash: slash}, nil
}

// directory resolves all of p, every element of which must be a directory.
func (w *walker) directory(dir *node, p string) (*node, error) {
	if strings.HasPrefix(p, "/") {
		dir = w.f.root
	}
	for _, elem := range strings.Split(p, "/") {
		next, err := w.step(dir, elem)
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

func (w *walker) step(dir *node, elem string) (*node, error) {
	switch elem {
	case "", ".":
		return dir, nil
	case "..":
		if dir == w.f.root {
			return dir, nil
		}
		return dir.parent, nil
	}
	if len(elem) > maxNameBytes {
		return nil, errCode(spec.CodeInvalidPath)
	}
	n := dir.entries[elem]
	switch {
	case n == nil && w.parents:
		n = newDir()
		w.f.set(dir, elem, n)
	case n == nil:
		return nil, errCode(spec.CodeFileNotFound)
	case n.isLink():
		dest, err := w.follow(dir, n)
		if err == errCode(spec.CodeFileNotFound) {
			err = errCode(spec.CodeNotDirectory) // a dangling link stands in the way
		}
		if err != nil {
			return nil, err
		}
		n = dest
	}
	if !n.isDir() {
		return nil, errCode(spec.CodeNotDirectory)
	}
	return n, nil
}

// follow returns what link, an entry of dir, leads to. It makes nothing.
func (w *walker) follow(dir, link *node) (*node, error) {
	if w.links--; w.links < 0 {
		return nil, errCode(spec.CodeInvalidPath)
	}
	if w.f.strict {
		return nil, errCode(spec.CodeNotDirectory)
	}
	parents := w.parents
	w.parents = false
	defer func() { w.parents = parents }()
	p, err := w.locate(dir, link.target)
	if err != nil {
		return nil, err
	}
	return w.finish(p, true)
}

// finish returns the node of p, or what it leads to.
func (w *walker) finish(p spot, follow bool) (*node, error) {
	n := p.node
	if n == nil {
		return nil, errCode(spec.CodeFileNotFound)
	}
	if n.isLink() && follow {
		dest, err := w.follow(p.dir, n)
		if err != nil {
			return nil, err
		}
		n = dest
	}
	if p.slash && !n.isDir() {
		return nil, errCode(spec.CodeNotDirectory)
	}
	return n, nil
}
