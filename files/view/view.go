// Package view lets an FS be spoken to by the names of a sandbox: the workspace and
// the mounts of a container by way of the host's files, say.
package view

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// Mount says under which name a directory is seen.
type Mount struct {
	// Name is the absolute name that a View answers with: "/workspace".
	Name string
	// Source is the absolute name that the FS beneath has for it.
	Source string
	// ReadOnly refuses every change with CodeNotWritable.
	ReadOnly bool
}

// View is how a sandbox sees directories that an FS has under other names: the files
// of a container by way of the host's, say. It understands three spellings of a
// name: as mounted, as the FS beneath has it, and relative to Workdir. Where one
// name could be both of the first two it is the mounted one.
//
// Names are translated by their spelling, "." and ".." included, so that none is
// spelled out of the mounts. A View is no wall: a link is followed by the FS beneath,
// and where it may lead is for that one to say (localfs with a root).
type View struct {
	// Workdir is the mounted name where relative names begin; "": the first mount.
	Workdir string
	// Mounts lie beside one another: no Name is inside another one.
	Mounts []Mount
}

// Located is what a View knows of a name.
type Located struct {
	Name   string // as mounted
	Source string // as the FS beneath has it
	Mount  Mount
}

// Root reports whether the name is that of the mount itself.
func (l Located) Root() bool { return path.Clean(l.Name) == l.Mount.Name }

// Validate refuses a View that makes no sense with CodeInvalid.
func (v View) Validate() error {
	bad := func(format string, args ...any) error {
		return &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf(format, args...)}
	}
	if len(v.Mounts) == 0 {
		return bad("a view without mounts")
	}
	for i, m := range v.Mounts {
		for _, name := range []string{m.Name, m.Source} {
			if err := spec.ValidatePath(name); err != nil || !path.IsAbs(name) || path.Clean(name) != name {
				return bad("%.256q: a mount needs absolute, clean names", name)
			}
		}
		for _, other := range v.Mounts[:i] {
			if within(m.Name, other.Name) || within(other.Name, m.Name) {
				return bad("the mounts %.256q and %.256q are not beside one another", other.Name, m.Name)
			}
		}
	}
	if v.Workdir == "" {
		return nil
	}
	if _, ok := v.find(path.Clean(v.Workdir), mountName); !ok || !path.IsAbs(v.Workdir) {
		return bad("%.256q: the workdir is not in a mount", v.Workdir)
	}
	return nil
}

// Locate translates name, in any of its spellings. A name outside of every mount is
// CodeInvalidPath.
func (v View) Locate(name string) (Located, error) {
	if err := spec.ValidatePath(name); err != nil {
		return Located{}, spec.Wrap(err, "", "", "", name)
	}
	clean := path.Clean(name)
	if !path.IsAbs(name) {
		clean = path.Join(v.workdir(), name)
	}
	m, ok := v.find(clean, mountName)
	below := strings.TrimPrefix(clean, m.Name)
	if !ok {
		m, ok = v.find(clean, mountSource)
		below = strings.TrimPrefix(clean, m.Source)
	}
	if !ok {
		return Located{}, &spec.Error{Path: name, Code: spec.CodeInvalidPath, Err: errors.New("outside of every mount")}
	}
	below = strings.TrimLeft(below, "/")
	if strings.HasSuffix(name, "/") {
		below += "/" // only a directory will do
	}
	return Located{Name: join(m.Name, below), Source: join(m.Source, below), Mount: m}, nil
}

func (v View) workdir() string {
	if v.Workdir == "" && len(v.Mounts) > 0 {
		return v.Mounts[0].Name
	}
	return v.Workdir
}

func mountName(m Mount) string   { return m.Name }
func mountSource(m Mount) string { return m.Source }

// find returns the mount that name lies in, by one of its two names: of several the
// innermost.
func (v View) find(name string, of func(Mount) string) (best Mount, ok bool) {
	for _, m := range v.Mounts {
		if within(name, of(m)) && (!ok || len(of(m)) > len(of(best))) {
			best, ok = m, true
		}
	}
	return best, ok
}

// within reports whether name is dir or lies in it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

func join(dir, below string) string {
	if below == "" {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + strings.TrimPrefix(below, "/")
}
