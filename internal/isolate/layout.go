package isolate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// layout is a policy with every path resolved: free of links, and there.
type layout struct {
	program   string
	state     string   // "" if there is none
	roots     []string // writable, none within another
	nested    []string // writable because they lie in a root, and asked for by name
	revealed  []string // writable, within state
	hidden    []mask
	protected []string // read-only within a writable root
}

func (p *Policy) resolve() (*layout, error) {
	l := &layout{}
	program, err := trace(p.Program)
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest binary: %w", err)}
	}
	l.program = program.target
	var state way
	if p.State != "" {
		if state, err = trace(p.State); err != nil {
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
	if err := l.resolveHidden(p.Hidden, p.Own); err != nil {
		return nil, err
	}
	return l, l.resolveProtected(append([]string{p.Program}, p.Protected...))
}

// resolveProtected finds what is to be protected and lies in a writable root.
func (l *layout) resolveProtected(paths []string) error {
	for _, path := range paths {
		w, err := trace(path)
		if err != nil {
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
	w, err := trace(path)
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
		w, err := trace(path)
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
	if l.shadowed(m.path) && !slices.ContainsFunc(l.revealed, func(r string) bool { return within(m.path, r) }) {
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

// shadowed reports whether a mount of the guard, so far as the layout holds them,
// covers path.
func (l *layout) shadowed(path string) bool {
	if slices.ContainsFunc(l.hidden, func(m mask) bool { return within(path, m.path) }) || (l.state != "" && within(path, l.state)) {
		return true
	}
	return l.rootOf(path) == "" && slices.ContainsFunc([]string{"/run", "/dev", "/proc"}, func(dir string) bool { return within(path, dir) })
}

// pins lists the directories between a writable root and what is fixed in it: what is
// protected or hidden, the state directory, a root that was asked for. As mount points
// of their own they can be neither renamed nor removed, so that nothing else can take
// their place, in this sandbox or for the next one. Those in the state directory come
// apart: they are mounted after it.
func (l *layout) pins() (outside, inState []string) {
	pin := func(root, dir string) {
		for ; root != "" && dir != root; dir = filepath.Dir(dir) {
			if l.state != "" && within(root, l.state) {
				inState = append(inState, dir)
			} else {
				outside = append(outside, dir)
			}
		}
	}
	for _, path := range l.protected {
		pin(l.rootOf(path), filepath.Dir(path))
	}
	for _, m := range l.hidden {
		if root := l.holder(m.path); root != "" {
			pin(root, filepath.Dir(m.path))
		}
	}
	for _, path := range l.nested {
		pin(l.rootOf(path), path)
	}
	if root := l.rootOf(l.state); l.state != "" && root != "" {
		pin(root, filepath.Dir(l.state))
	}
	for _, dirs := range []*[]string{&outside, &inState} {
		slices.Sort(*dirs) // a parent before what is in it
		*dirs = slices.Compact(*dirs)
	}
	return outside, inState
}

// hideState hides the state directory, and shows in it the roots that lie there.
func (l *layout) hideState(pins []string) []string {
	if l.state == "" {
		return nil
	}
	args := []string{"--tmpfs", l.state}
	for _, root := range slices.Concat(l.revealed, pins) {
		args = append(args, "--bind", root, root)
	}
	return append(args, "--remount-ro", l.state)
}

// sealed lists the mount points on which the wall stands.
func (l *layout) sealed() []string {
	out := slices.Clone(l.protected)
	for _, m := range l.hidden {
		out = append(out, m.path)
	}
	if l.state != "" {
		out = append(out, l.state)
	}
	return out
}

// within reports whether path is dir or lies in it; both are clean.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
