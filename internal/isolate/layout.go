package isolate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// layout is a policy with every path resolved: free of links, and there.
type layout struct {
	jail bool      // what is not listed does not exist
	drop *Identity // nil: the sandbox runs as who started it
	attr func(path string) (Identity, fs.FileMode, error)
	// passed are the directories on the ways of this layout.
	passed directories

	program   string
	state     string   // "" if there is none
	roots     []string // writable, none within another
	nested    []string // writable because they lie in a root, and asked for by name
	asked     []string // the roots and nested ones that were asked for by name
	revealed  []string // writable, within state
	shared    []string // for temporary files: a guard writes there, though this may be none
	idmapped  []string // of these, where what is root's is to be the sandbox's
	system    []string // in jail: read-only
	emptied   []string // empty, but for what is to be reached in them
	homes     []string // of those emptied, other people's homes
	kept      []string // read-only within what is emptied
	own       []own
	hidden    []mask
	protected []string // read-only within a writable root
	obeyed    []string // so too, but for a root that was asked for in it
	absent    []string
	unwatched []string // what can be made without it being told
	indexes   []Index
	links     int        // how many submodules are looked at
	modules   []checkout // where submodules are kept, still to be looked at
	mounted   int        // how many mounts it takes at most to have what is obeyed read-only
}

// own is a directory that is empty at the start, and the sandbox's own.
type own struct{ path, perms string }

func (p *Policy) resolve(jail bool) (*layout, error) {
	l := &layout{jail: jail, drop: p.dropped(), attr: p.Attr, passed: directories{}}
	if l.attr == nil {
		l.attr = attributes
	}
	program, err := l.passed.trace(p.Program)
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest binary: %w", err)}
	}
	l.program = program.target
	var state way
	if p.State != "" {
		if state, err = l.passed.trace(p.State); err != nil {
			return nil, &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("the state directory: %w", err)}
		}
		l.state = state.target
	}
	if err := l.resolveRoots(p); err != nil {
		return nil, err
	}
	if err := l.checkBwrap(p.Bwrap); err != nil {
		return nil, err
	}
	for what, w := range map[string]way{"the guest binary": program, "the state directory": state} {
		if link := l.swappable(w); link != "" {
			return nil, swapped(what, w, link)
		}
	}
	l.idmap()
	if jail {
		l.furnish(p)
	} else {
		l.emptyHomes(p)
	}
	l.open()
	if err := l.resolveHidden(p.Hidden, p.Own); err != nil {
		return nil, err
	}
	if err := l.resolveProtected(append([]string{p.Program}, p.Protected...)); err != nil {
		return nil, err
	}
	l.resolveObeyed(p)
	return l, nil
}

// resolveProtected finds what is to be protected and lies in a writable root.
func (l *layout) resolveProtected(paths []string) error {
	for _, path := range paths {
		w, err := l.passed.trace(path)
		if err != nil {
			if path = filepath.Clean(path); errors.Is(err, fs.ErrNotExist) && l.rootOf(path) != "" && !l.shadowed(path) {
				l.absent = append(l.absent, path)
			}
			continue
		}
		if link := l.swappable(w); link != "" {
			return swapped("the protected path", w, link)
		}
		if l.rootOf(w.target) != "" && !l.shadowed(w.target) {
			l.protected = append(l.protected, w.target)
		}
	}
	slices.Sort(l.protected)
	l.protected = slices.Compact(l.protected)
	return nil
}

// checkBwrap refuses a wrapper that a command could have replaced: it is run by the
// host, outside of every wall.
func (l *layout) checkBwrap(path string) error {
	if path == "" {
		return nil
	}
	w, err := l.passed.trace(path)
	if err != nil {
		return nil // its start says more
	}
	if root := l.holder(w.target); root != "" || l.swappable(w) != "" {
		return &spec.Error{
			Code: spec.CodeUnsupported, Path: path, Err: errors.New("bubblewrap lies where commands can replace it, in a writable root"),
			Hint: "install it for the whole system (/usr/bin/bwrap), or name one outside of the writable roots and of the temporary directories",
		}
	}
	return nil
}

// mask is one path that is hidden.
type mask struct {
	path string
	kind maskKind
}

type maskKind int

const (
	maskFile maskKind = iota
	maskDir           // empty, and nothing can be made in it
	maskOwn           // empty at the start, and the sandbox's own
)

func (m mask) args() []string {
	switch m.kind {
	case maskDir:
		return []string{"--tmpfs", m.path, "--remount-ro", m.path}
	case maskOwn:
		return []string{"--perms", "0700", "--tmpfs", m.path}
	default:
		return []string{"--ro-bind", "/dev/null", m.path}
	}
}

// resolveHidden finds what is to be hidden and exists, without what is out of sight
// anyway. own are directories that the sandbox gets in the machine's stead.
func (l *layout) resolveHidden(hidden, own []string) error {
	var ways []way
	for i, path := range slices.Concat(hidden, own) {
		if !filepath.IsAbs(path) {
			return &spec.Error{Code: spec.CodeInvalidPath, Path: path, Err: errors.New("the hidden path is not absolute")}
		}
		// What cannot be reached out here cannot be reached in there either.
		w, err := l.passed.trace(path)
		if err != nil {
			continue
		}
		st, err := os.Stat(w.target)
		if err != nil {
			continue
		}
		m := mask{w.target, maskFile}
		switch {
		case st.IsDir() && i >= len(hidden):
			m.kind = maskOwn
		case st.IsDir():
			m.kind = maskDir
		}
		if err := l.hide(m, path); err != nil {
			return err
		}
		ways = append(ways, w)
	}
	return l.checkHidden(ways)
}

// hide adds a mask. path is what it was called.
func (l *layout) hide(m mask, path string) error {
	for _, root := range slices.Concat(l.roots, l.revealed, l.nested) {
		if within(root, m.path) {
			return &spec.Error{Code: spec.CodeInvalid, Path: path, Err: fmt.Errorf("the hidden path contains the writable root %q", root)}
		}
	}
	if l.shadowed(m.path) {
		return nil
	}
	l.hidden = slices.DeleteFunc(l.hidden, func(o mask) bool { return within(o.path, m.path) })
	l.hidden = append(l.hidden, m)
	return nil
}

// checkHidden refuses a hidden path that a command could make lead elsewhere, so that
// the next sandbox would hide something else: one with a link in a writable root, but
// where what it leads to is hidden by a name without one.
func (l *layout) checkHidden(ways []way) error {
	var firm []string
	for _, w := range ways {
		if l.swappable(w) == "" {
			firm = append(firm, w.target)
		}
	}
	for _, w := range ways {
		link := l.swappable(w)
		if link == "" || slices.ContainsFunc(firm, func(f string) bool { return within(w.target, f) }) {
			continue
		}
		e := swapped("the hidden path", w, link)
		e.Hint = fmt.Sprintf("hide what it leads to as well (--hide %s), or take a workdir without the link", w.target)
		return e
	}
	return nil
}

// shadowed reports whether the machine's own path cannot be seen inside, so far as the
// layout is known: the innermost directory decides of which the layout says something.
func (l *layout) shadowed(path string) bool {
	innermost, shadowed := -1, l.jail
	decide := func(dirs []string, hidden bool) {
		for _, dir := range dirs {
			if dir != "" && within(path, dir) && len(dir) >= innermost {
				innermost, shadowed = len(dir), hidden
			}
		}
	}
	decide([]string{"/run", "/dev", "/proc"}, true)
	decide(l.system, false)
	decide(l.emptied, true)
	decide(l.kept, false)
	for _, o := range l.own {
		decide([]string{o.path}, true)
	}
	decide([]string{l.state}, true)
	decide(slices.Concat(l.roots, l.nested, l.revealed), false)
	for _, m := range l.hidden {
		decide([]string{m.path}, true)
	}
	return shadowed
}

// within reports whether path is dir or lies in it; both are clean.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
