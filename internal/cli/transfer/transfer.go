// Package transfer copies trees of files between this machine and a place, and between
// two places.
//
// # What is kept
//
// Bytes, names, the nine permission bits, less this machine's mask, empty directories. A link
// that comes out of a place stays a link if it points into the tree that is copied; a
// place cannot be given links. What cannot be copied - such a link, a FIFO, a device, a
// socket - is refused before anything is written, or left out if asked.
//
// # Existing files
//
// Directories are merged. A file that exists is refused before anything is written,
// unless Force is set. A file under its final name is always whole.
//
// # Trust
//
// What a place says is untrusted. On this machine everything below the name that the
// caller gave goes through an os.Root; each name is one element; a directory is never
// reached through a link; a link is made only if it leads up by no more than its own
// depth and down from there. Of a place at most MaxEntries files are copied at once.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync/atomic"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// MaxEntries bounds the files of one copy.
const MaxEntries = 2_000_000

// Options modify Prepare.
type Options struct {
	// Force replaces files that exist.
	Force bool
	// Skip, if set, is called with what cannot be copied, which is left out then.
	Skip func(path, why string)
}

// Summary counts what was copied.
type Summary struct {
	Files, Directories, Links, Skipped int64
	Bytes                              int64
}

// Add adds what another copy did.
func (s *Summary) Add(o Summary) {
	s.Files += o.Files
	s.Directories += o.Directories
	s.Links += o.Links
	s.Skipped += o.Skipped
	s.Bytes += o.Bytes
}

// Counter says how far copies are. It is safe for concurrent use.
type Counter struct{ Files, Bytes atomic.Int64 }

// side is where files are read.
type side interface {
	// Stat describes name; of a link the link itself, unless follow is set.
	Stat(ctx context.Context, name string, follow bool) (files.Info, error)
	// List returns the entries of a directory in any order. Those that find no room
	// are CodeTooLarge.
	List(ctx context.Context, dir string, r *Room) ([]files.Info, error)
	// Open opens a regular file; its Info is of what was opened.
	Open(ctx context.Context, name string) (files.File, error)
	// path is how messages call name.
	path(name string) string
}

// target is a side where files are written.
type target interface {
	side
	// check refuses a name that cannot be had here; it is one element.
	check(name string) error
	// mkdir makes a directory, with whatever mode; chmod gives it its own, as far as
	// the machine lets that be.
	mkdir(ctx context.Context, name string) error
	chmod(ctx context.Context, name string, mode fs.FileMode) error
	// symlinks makes links, each in place of what was found there.
	symlinks(ctx context.Context, links []entry) error
	traits() traits
	// write writes all files.
	write(ctx context.Context, from side, items []item, count *Counter) error
}

// traits say what a target can do.
type traits struct {
	// leadsOut reports whether a link would lead out of the target by what is there
	// now; nil: it can be given no links.
	leadsOut func(link entry) bool
	parents  bool // write makes the directories of files
}

// item is one file that is to be written.
type item struct {
	from, to string
	mode     fs.FileMode
	// old describes what is replaced, if there is something.
	old *files.Info
	// fresh: the directory was made for this copy; nobody else writes there.
	fresh bool
	force bool
}

// Plan is a copy that can be made.
type Plan struct {
	from side
	to   target
	// Target is the name that is made.
	Target string

	dirs  []entry // that are to be made, parents first
	files []item
	links []entry
	info  Summary
	// inPlace is set if the place does it all by itself.
	inPlace func(ctx context.Context) error
}

// Size says what there is to copy.
func (p *Plan) Size() Summary { return p.info }

// Run makes the copy and counts it as it goes. One that fails or is cancelled leaves
// the directories and the whole files that it had made.
func (p *Plan) Run(ctx context.Context, count *Counter) error {
	if p.inPlace != nil {
		if err := p.inPlace(ctx); err != nil {
			return err
		}
		count.Files.Add(p.info.Files)
		count.Bytes.Add(p.info.Bytes)
		return nil
	}
	err := p.fill(ctx, count)
	// Last and deepest first, so that a directory may be one that cannot be written. It
	// is done for what a copy leaves that has failed too, as far as there is something.
	for i := len(p.dirs) - 1; i >= 0; i-- {
		failed := p.to.chmod(ctx, p.dirs[i].to, p.dirs[i].info.Mode.Perm())
		switch {
		case failed == nil || err != nil && spec.CodeOf(failed) == spec.CodeFileNotFound:
		case err != nil:
			return err
		default:
			return failed
		}
	}
	return err
}

// fill makes all but the modes of directories.
func (p *Plan) fill(ctx context.Context, count *Counter) error {
	for _, d := range p.dirs {
		if d.implied {
			continue
		}
		if err := p.to.mkdir(ctx, d.to); err != nil {
			return err
		}
	}
	if len(p.files) > 0 {
		if err := p.to.write(ctx, p.from, p.files, count); err != nil {
			return err
		}
	}
	if len(p.links) > 0 {
		return p.to.symlinks(ctx, p.links)
	}
	return nil
}

// join appends rel to a directory's name, byte by byte: "a/.." stays what it is.
func join(dir, rel string) string {
	switch {
	case rel == "" || rel == ".":
		return dir
	case dir == "" || dir == ".":
		return rel
	case dir[len(dir)-1] == '/':
		return dir + rel
	}
	return dir + "/" + rel
}

// base is the last element of a name, or "." where that says nothing.
func base(name string) string {
	if b := path.Base(name); b != "/" && b != ".." {
		return b
	}
	return "."
}

// Join appends the name of what is in a directory to the directory's name.
func Join(dir, rel string) string { return join(dir, rel) }

// Into is the name that something called from gets in a directory.
func Into(dir, from string) string { return join(dir, base(from)) }

func failed(name string, code spec.Code, text string) error {
	e := &spec.Error{Op: "copy", Path: name, Code: code}
	if text != "" {
		e.Err = errors.New(text)
	}
	return e
}

func tooMany(name string) error {
	return failed(name, spec.CodeTooLarge, fmt.Sprintf("more than %d files, or %d MiB of names", MaxEntries, maxNameBytes>>20))
}
