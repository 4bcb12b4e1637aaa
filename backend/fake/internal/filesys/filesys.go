// Package filesys is the files of a fake's place as one session reaches them.
package filesys

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"path"

	"github.com/berth-dev/berth/backend/fake/internal/disk"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/spec"
)

// The operations, as Do is told of them.
const (
	Open   = "open"
	Write  = "write"
	Batch  = "write_batch"
	Stat   = "stat"
	List   = "list"
	Mkdir  = "mkdir"
	Remove = "remove"
	Rename = "rename"
	Chmod  = "chmod"
	Copy   = "copy"
	Glob   = "glob"
	Grep   = "grep"
	Watch  = "watch"
	Link   = "symlink"
)

// FS is all that memfs does, after what every request goes through.
type FS struct {
	Files *memfs.FS
	Disk  *disk.Disk
	// Do is what every request goes through, with its operation and first name.
	Do func(ctx context.Context, op, name string, do func() error) error
	// Tell is told of what has changed.
	Tell func(spec.Event)
}

var (
	_ files.FS          = (*FS)(nil)
	_ files.Chmodder    = (*FS)(nil)
	_ files.Copier      = (*FS)(nil)
	_ files.Globber     = (*FS)(nil)
	_ files.Grepper     = (*FS)(nil)
	_ files.BatchWriter = (*FS)(nil)
	_ files.Namer       = (*FS)(nil)
	_ files.Resolver    = (*FS)(nil)
	_ files.Watcher     = (*FS)(nil)
	_ files.Symlinker   = (*FS)(nil)
)

// change makes a change of which e tells.
func (f *FS) change(ctx context.Context, op, name string, e spec.Event, do func() error) error {
	return f.Do(ctx, op, name, func() error {
		err := do()
		if err == nil {
			f.Tell(e)
		}
		return err
	})
}

// written says that a file was written, made or changed.
func written(name string) spec.Event { return spec.Event{Kind: spec.EventFileWritten, Path: name} }

// each yields a sequence after what every request goes through.
func each[T any](ctx context.Context, f *FS, op, name string, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := f.Do(ctx, op, name, func() error { return nil }); err != nil {
			var none T
			yield(none, err)
			return
		}
		seq(yield)
	}
}

// Open implements files.FS.
func (f *FS) Open(ctx context.Context, name string, o files.OpenOptions) (files.File, error) {
	var out files.File
	err := f.Do(ctx, Open, name, func() (err error) {
		out, err = f.Files.Open(ctx, name, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Write implements files.FS.
func (f *FS) Write(ctx context.Context, name string, src io.Reader, size int64, o files.WriteOptions) error {
	return f.change(ctx, Write, name, written(name), func() error {
		bill := f.Disk.Bill()
		err := f.Files.Write(ctx, name, bill.Charge(src), size, o)
		if err != nil {
			bill.Refund()
		}
		return err
	})
}

// Stat implements files.FS.
func (f *FS) Stat(ctx context.Context, name string, o files.StatOptions) (files.Info, error) {
	var out files.Info
	err := f.Do(ctx, Stat, name, func() (err error) {
		out, err = f.Files.Stat(ctx, name, o)
		return err
	})
	return out, err
}

// List implements files.FS.
func (f *FS) List(ctx context.Context, dir string) iter.Seq2[files.Info, error] {
	return each(ctx, f, List, dir, f.Files.List(ctx, dir))
}

// Names implements files.Namer.
func (f *FS) Names(ctx context.Context, dir string, o files.NamesOptions) iter.Seq2[files.Info, error] {
	return each(ctx, f, List, dir, files.Names(ctx, f.Files, dir, o))
}

// Resolve implements files.Resolver.
func (f *FS) Resolve(ctx context.Context, name string) (string, error) {
	var out string
	err := f.Do(ctx, Stat, name, func() (err error) {
		out, err = files.Resolve(ctx, f.Files, name)
		return err
	})
	return out, err
}

// Mkdir implements files.FS.
func (f *FS) Mkdir(ctx context.Context, name string, o files.MkdirOptions) error {
	return f.change(ctx, Mkdir, name, written(name), func() error { return f.Files.Mkdir(ctx, name, o) })
}

// Remove implements files.FS.
func (f *FS) Remove(ctx context.Context, name string, o files.RemoveOptions) error {
	return f.change(ctx, Remove, name, spec.Event{Kind: spec.EventFileRemoved, Path: name}, func() error { return f.Files.Remove(ctx, name, o) })
}

// Rename implements files.FS.
func (f *FS) Rename(ctx context.Context, oldname, newname string, o files.RenameOptions) error {
	moved := spec.Event{Kind: spec.EventFileMoved, Path: newname, OldPath: oldname}
	return f.change(ctx, Rename, oldname, moved, func() error { return f.Files.Rename(ctx, oldname, newname, o) })
}

// Chmod implements files.Chmodder.
func (f *FS) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	return f.change(ctx, Chmod, name, written(name), func() error { return files.Chmod(ctx, f.Files, name, mode) })
}

// Copy implements files.Copier.
func (f *FS) Copy(ctx context.Context, oldname, newname string, o files.CopyOptions) error {
	return f.change(ctx, Copy, oldname, written(newname), func() error { return files.Copy(ctx, f.Files, oldname, newname, o) })
}

// MakeSymlink implements files.Symlinker.
// MakeSymlink implements files.Symlinker.
func (f *FS) MakeSymlink(ctx context.Context, target, name string, o files.SymlinkOptions) error {
	return f.change(ctx, Link, name, written(name), func() error { return f.Files.MakeSymlink(ctx, target, name, o) })
}

// below is FS for the files below dir, of which it tells by their whole names.
func (f *FS) below(dir string, rooted *memfs.FS) FS {
	return FS{
		Files: rooted, Disk: f.Disk,
		Do: func(ctx context.Context, op, name string, do func() error) error {
			return f.Do(ctx, op, path.Join(dir, name), do)
		},
		Tell: func(e spec.Event) {
			e.Path = path.Join(dir, e.Path)
			f.Tell(e)
		},
	}
}

// OpenRoot implements tree.Rooter; what it returns goes through Do as well.
func (f *FS) OpenRoot(ctx context.Context, dir string) (files.FS, io.Closer, error) {
	var rooted FS
	var closer io.Closer
	err := f.Do(ctx, Stat, dir, func() error {
		fsys, c, err := f.Files.OpenRoot(ctx, dir)
		if err == nil {
			rooted, closer = f.below(dir, fsys.(*memfs.FS)), c
		}
		return err
	})
	return &rooted, closer, err
}

// Glob implements files.Globber.
func (f *FS) Glob(ctx context.Context, o files.GlobOptions) iter.Seq2[files.Match, error] {
	return each(ctx, f, Glob, o.Dir, files.Glob(ctx, f.Files, o))
}

// Grep implements files.Grepper.
func (f *FS) Grep(ctx context.Context, o files.GrepOptions) iter.Seq2[files.Line, error] {
	return each(ctx, f, Grep, o.Files.Dir, files.Grep(ctx, f.Files, o))
}

// WriteBatch implements files.BatchWriter.
func (f *FS) WriteBatch(ctx context.Context, next iter.Seq2[files.BatchFile, error], o files.BatchOptions) (int, error) {
	n := 0
	var names []string
	err := f.Do(ctx, Batch, "", func() (err error) {
		all := f.Disk.Bill()
		n, err = files.WriteBatch(ctx, f.Files, func(yield func(files.BatchFile, error) bool) {
			for file, err := range next {
				if err == nil && len(names) < batchTold {
					names = append(names, file.Name)
				}
				if file.Src != nil {
					file.Src = all.Charge(file.Src)
				}
				if !yield(file, err) {
					return
				}
			}
		}, o)
		if err != nil && n == 0 {
			all.Refund()
		}
		f.tellBatch(names, n)
		return err
	})
	return n, err
}

// batchTold is how many files of a batch have an event each.
const batchTold = 1000

// tellBatch tells of the files of a batch that have landed.
func (f *FS) tellBatch(names []string, landed int) {
	for _, name := range names[:min(landed, len(names))] {
		f.Tell(written(name))
	}
	if rest := landed - len(names); rest > 0 {
		f.Tell(spec.Event{Kind: spec.EventFileWritten, Count: int64(rest)})
	}
}

// Watch goes through Do at its beginning.
func (f *FS) Watch(ctx context.Context, name string, o files.WatchOptions, ready func(), tell func(files.WatchEvent) error) error {
	if err := f.Do(ctx, Watch, name, func() error { return nil }); err != nil {
		return err
	}
	f.Tell(spec.Event{Kind: spec.EventWatchBegun, Path: name})
	return f.Files.Watch(ctx, name, o, ready, func(e files.WatchEvent) error {
		if e.Kind == files.WatchOverflow {
			f.Tell(spec.Event{Kind: spec.EventWatchOverflow, Path: name})
		}
		return tell(e)
	})
}
