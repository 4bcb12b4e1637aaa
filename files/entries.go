package files

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// Entries are the file operations of a user interface. None of them overwrites: where
// something stands already, also if it has appeared a moment before, the answer is
// CodeExists. Names are those that the interface uses; the hooks say what they mean.
type Entries struct {
	FS FS
	// Resolve returns the name in FS of what name leads to. nil: name itself.
	Resolve func(ctx context.Context, name string) (string, error)
	// Entry is Resolve for an operation on the entry itself, where a link as the
	// last element is meant and not what it leads to. nil: as Resolve.
	Entry func(ctx context.Context, name string) (string, error)
	// Writable refuses by its error a change of a name in FS. nil: none is refused.
	Writable func(ctx context.Context, name string) error
	// Trash takes a name in FS out of sight, to be had back. nil: what is removed
	// is gone.
	Trash func(ctx context.Context, name string) error
}

// EntryKind is what Entries tell apart.
type EntryKind string

// The kinds of entries.
const (
	EntryAbsent EntryKind = ""
	EntryFile   EntryKind = "file" // also a link, whatever it leads to, a FIFO, a device
	EntryDir    EntryKind = "dir"
)

// entry returns the name in FS of an entry.
func (e Entries) entry(ctx context.Context, name string) (string, error) {
	switch {
	case e.Entry != nil:
		return e.Entry(ctx, name)
	case e.Resolve != nil:
		return e.Resolve(ctx, name)
	}
	return name, nil
}

// changed is entry for one that is to be changed.
func (e Entries) changed(ctx context.Context, name string) (string, error) {
	at, err := e.entry(ctx, name)
	if err == nil && e.Writable != nil {
		err = e.Writable(ctx, at)
	}
	return at, spec.Wrap(err, "", "", "", name)
}

// Stat says what name is. A link is never followed.
func (e Entries) Stat(ctx context.Context, name string) (EntryKind, error) {
	at, err := e.entry(ctx, name)
	if err != nil {
		return EntryAbsent, spec.Wrap(err, "", "", "", name)
	}
	info, err := e.FS.Stat(ctx, at, StatOptions{})
	switch code := spec.CodeOf(err); {
	case code == spec.CodeFileNotFound || code == spec.CodeNotDirectory:
		return EntryAbsent, nil
	case err != nil:
		return EntryAbsent, err
	case info.IsDir():
		return EntryDir, nil
	}
	return EntryFile, nil
}

// List returns what is in a directory, in no promised order; more than 100,000 entries
// are CodeTooLarge.
func (e Entries) List(ctx context.Context, dir string) ([]Info, error) {
	at, err := e.resolve(ctx, dir)
	if err != nil {
		return nil, err
	}
	return ReadDir(ctx, e.FS, at, 0)
}

func (e Entries) resolve(ctx context.Context, name string) (string, error) {
	if e.Resolve == nil {
		return name, nil
	}
	at, err := e.Resolve(ctx, name)
	return at, spec.Wrap(err, "", "", "", name)
}

// Mkdir makes a directory and those above it that are missing. One that is there is
// no error.
func (e Entries) Mkdir(ctx context.Context, name string) error {
	at, err := e.changed(ctx, name)
	if err != nil {
		return err
	}
	return e.FS.Mkdir(ctx, at, MkdirOptions{Parents: true})
}

// WriteNew makes a new file with the bytes of src, exactly size of them.
func (e Entries) WriteNew(ctx context.Context, name string, src io.Reader, size int64) error {
	at, err := e.changed(ctx, name)
	if err != nil {
		return err
	}
	return e.FS.Write(ctx, at, src, size, WriteOptions{Exclusive: true})
}

// Move gives an entry another name, in a directory that is there.
func (e Entries) Move(ctx context.Context, oldname, newname string) error {
	from, err := e.changed(ctx, oldname)
	if err != nil {
		return err
	}
	to, err := e.changed(ctx, newname)
	if err != nil {
		return err
	}
	return e.FS.Rename(ctx, from, to, RenameOptions{})
}

// Copy copies an entry, a directory with all in it, a link as a link.
func (e Entries) Copy(ctx context.Context, oldname, newname string) error {
	from, err := e.entry(ctx, oldname)
	if err != nil {
		return spec.Wrap(err, "", "", "", oldname)
	}
	to, err := e.changed(ctx, newname)
	if err != nil {
		return err
	}
	return Copy(ctx, e.FS, from, to, CopyOptions{Recursive: true})
}

// Remove removes an entry, a directory with all in it, or puts it into the trash.
func (e Entries) Remove(ctx context.Context, name string) error {
	at, err := e.changed(ctx, name)
	if err != nil {
		return err
	}
	if e.Trash == nil {
		return e.FS.Remove(ctx, at, RemoveOptions{Recursive: true})
	}
	return spec.Wrap(e.Trash(ctx, at), "", "", "", name)
}

// EmptyDirs returns at most limit of the empty directories below dir, relative to it;
// 0: all. What is in a .git or a node_modules is left out. A directory that has vanished
// or cannot be read is none of them.
func (e Entries) EmptyDirs(ctx context.Context, dir string, limit int) ([]string, error) {
	at, err := e.resolve(ctx, dir)
	if err != nil {
		return nil, err
	}
	var empty []string
	// A directory comes before what is in it: it may be empty if nothing follows.
	last, open := "", false
	seen := func() (full bool, err error) {
		if open && path.Base(last) != ".git" && path.Base(last) != "node_modules" {
			var ok bool
			if ok, err = isEmpty(ctx, e.FS, join(at, last)); ok {
				empty = append(empty, last)
			}
		}
		return limit > 0 && len(empty) == limit, err
	}
	for m, err := range Glob(ctx, e.FS, GlobOptions{Dir: at, Exclude: []string{"**/{.git,node_modules}/*"}}) {
		if err != nil {
			return empty, err
		}
		open = open && !strings.HasPrefix(m.Path, last+"/")
		if full, err := seen(); full || err != nil {
			return empty, err
		}
		last, open = m.Path, m.Info.IsDir()
	}
	_, err = seen()
	return empty, err
}

// isEmpty reports whether a directory can be read and holds nothing.
func isEmpty(ctx context.Context, fsys FS, dir string) (bool, error) {
	for _, err := range Names(ctx, fsys, dir, NamesOptions{NoFollow: true}) {
		return false, pass(err)
	}
	return true, nil
}
