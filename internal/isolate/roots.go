package isolate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-dev/berth/spec"
)

// way is where a path leads to, and the symbolic links that take it there.
type way struct {
	path, target string
	links        []string // where each of them lies, free of links itself
}

// trace follows an absolute path as the kernel does.
func trace(path string) (way, error) { return directories{}.trace(path) }

// directories are those that have been found to be such, and no links: many paths of one
// layout lead through the same ones.
type directories map[string]bool

// trace follows an absolute path, and adds to d what it has passed.
func (d directories) trace(path string) (way, error) {
	const most = 40 // the kernel's own limit
	w := way{path: path}
	at, rest := "/", strings.Split(path, "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		if d[next] && len(rest) > 0 {
			at = next
			continue
		}
		info, err := os.Lstat(next)
		switch {
		case err != nil:
			return way{}, err
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(next)
			if err != nil {
				return way{}, err
			}
			if w.links = append(w.links, next); len(w.links) > most {
				return way{}, &fs.PathError{Op: "trace", Path: path, Err: syscall.ELOOP}
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
			continue
		case !info.IsDir() && len(rest) > 0:
			return way{}, &fs.PathError{Op: "trace", Path: path, Err: syscall.ENOTDIR}
		case len(rest) > 0:
			d[next] = true
		}
		at = next
	}
	w.target = at
	return w, nil
}

// ResolveWorkdir returns where a working directory leads to, which is followed once: from
// then on the answer is used, and no link is followed. It refuses, with CodeInvalid, one
// that is reached through a symbolic link in one of the roots that commands can write: the
// link may be theirs. Where it leads within that root, it gains them nothing. What does not
// exist is returned as it is.
func ResolveWorkdir(dir string, roots []string) (string, error) {
	w, err := trace(dir)
	if err != nil {
		return dir, nil // its use says why
	}
	l := &layout{}
	for _, path := range roots {
		if root, err := trace(path); err == nil {
			l.roots = append(l.roots, root.target)
		}
	}
	return w.target, l.checkRoot(w)
}

// resolveRoots finds the writable roots, without those that lie in another one.
func (l *layout) resolveRoots(p *Policy) error {
	required := 1 + len(p.WritableRoots)
	optional := p.OptionalRoots
	if !l.jail {
		optional = slices.Concat(optional, p.Temporary)
	}
	for _, path := range p.Temporary {
		if w, err := trace(path); err == nil {
			l.shared = append(l.shared, w.target)
		}
	}
	var asked []way
	for i, path := range slices.Concat([]string{p.Workdir}, p.WritableRoots, optional) {
		root, err := resolveRoot(path)
		switch {
		case err != nil && i < required:
			return err
		case err != nil:
			continue
		case i == 0 && len(root.links) > 0:
			return swapped("the working directory", root, root.links[0])
		case i < required:
			asked = append(asked, root)
		case l.checkRoot(root) != nil:
			continue
		}
		if l.state != "" && within(root.target, l.state) {
			if root.target == l.state {
				return &spec.Error{Code: spec.CodeInvalid, Path: path, Err: errors.New("the state directory cannot be writable")}
			}
			l.revealed = append(l.revealed, root.target)
		} else if l.rootOf(root.target) == "" {
			l.roots = slices.DeleteFunc(l.roots, func(o string) bool { return within(o, root.target) })
			l.roots = append(l.roots, root.target)
		}
	}
	for _, root := range asked {
		if err := l.checkRoot(root); err != nil {
			return err
		}
		l.asked = append(l.asked, root.target)
		if at := l.rootOf(root.target); at != "" && at != root.target {
			l.nested = append(l.nested, root.target)
		}
	}
	return nil
}

// checkRoot refuses a writable root whose name a command of an earlier sandbox can have
// made lead out of another root.
func (l *layout) checkRoot(w way) error {
	for _, link := range w.links {
		if root := l.holder(link); root != "" && !within(w.target, root) {
			e := swapped("the writable directory", w, link)
			e.Hint = "if that is what you mean, name the directory itself: " + w.target
			return e
		}
	}
	return nil
}

// swappable returns a link on the way that lies in a writable root, so that a command
// can put something else in its place; or "".
func (l *layout) swappable(w way) string {
	for _, link := range w.links {
		if l.holder(link) != "" {
			return link
		}
	}
	return ""
}

// swapped is the refusal of a path with a link that commands can replace.
func swapped(what string, w way, link string) *spec.Error {
	text := fmt.Sprintf("%s leads to %q by the symbolic link %q, which commands can replace: it lies in a writable root", what, w.target, link)
	return &spec.Error{Code: spec.CodeInvalid, Path: w.path, Err: errors.New(text), Hint: "put what it leads to in the place of the link"}
}

// rootOf returns the writable root outside of the state directory that holds path, or "".
func (l *layout) rootOf(path string) string {
	return holding(l.roots, path)
}

// holder returns what commands can write, of this sandbox or of another one, that holds
// path, or "".
func (l *layout) holder(path string) string {
	if root := holding(l.revealed, path); root != "" || (l.state != "" && within(path, l.state)) {
		return root
	}
	if root := l.rootOf(path); root != "" {
		return root
	}
	return holding(l.shared, path)
}

func holding(roots []string, path string) string {
	at := slices.IndexFunc(roots, func(root string) bool { return within(path, root) })
	if at < 0 {
		return ""
	}
	return roots[at]
}

func resolveRoot(path string) (way, error) {
	if !filepath.IsAbs(path) {
		return way{}, &spec.Error{Code: spec.CodeInvalidPath, Path: path, Err: errors.New("the writable root is not an absolute path")}
	}
	w, err := trace(path)
	if err != nil {
		return way{}, unresolved(path, err)
	}
	if st, err := os.Stat(w.target); err != nil || !st.IsDir() {
		return way{}, &spec.Error{Code: spec.CodeInvalidPath, Path: path, Err: errors.New("the writable root is not a directory")}
	}
	refuse := func(why string) error { return &spec.Error{Code: spec.CodeInvalid, Path: path, Err: errors.New(why)} }
	if w.target == "/" {
		return way{}, refuse("/ as a writable root leaves no wall")
	}
	if w.target == "/run" {
		return way{}, refuse("/run as a writable root opens the sockets of every service")
	}
	for _, dir := range kernelDirs {
		if within(w.target, dir) {
			return way{}, refuse(dir + " cannot be writable")
		}
	}
	return w, nil
}

// unresolved says why a writable root cannot be followed to where it leads.
func unresolved(path string, err error) error {
	e := &spec.Error{Code: spec.CodeInvalidPath, Path: path, Err: fmt.Errorf("the writable root: %w", err)}
	if errors.Is(err, fs.ErrNotExist) {
		e.Err = errors.New("the writable root does not exist")
		e.Hint = "mkdir -p " + path + ", or name a directory that exists"
	}
	return e
}

// Reaches reports whether path, which is free of links and may be missing, lies in one
// of the roots.
func Reaches(roots []string, path string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		w, err := trace(root)
		return err == nil && within(path, w.target)
	})
}
