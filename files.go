package berth

import (
	"context"
	"io"
	"iter"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Files is the files of a Sandbox: package files states what its methods promise.
// Relative names begin at the place's workdir.
type Files struct{ sb *Sandbox }

var (
	_ files.FS          = (*Files)(nil)
	_ files.Chmodder    = (*Files)(nil)
	_ files.Copier      = (*Files)(nil)
	_ files.Globber     = (*Files)(nil)
	_ files.Grepper     = (*Files)(nil)
	_ files.BatchWriter = (*Files)(nil)
	_ files.Namer       = (*Files)(nil)
	_ files.Resolver    = (*Files)(nil)
	_ files.Watcher     = (*Files)(nil)
)

// Files returns the place's files. It starts nothing by itself.
func (sb *Sandbox) Files() *Files { return &Files{sb} }

// fs returns the driver's files.
func (f *Files) fs(ctx context.Context) (files.FS, error) {
	session, err := f.sb.session(ctx)
	if err != nil {
		return nil, err
	}
	return session.Files(), nil
}

// ReadFile reads a regular file of at most files.DefaultReadLimit; a larger one is
// ErrTooLarge. files.ReadFile takes another limit, Open has none.
func (f *Files) ReadFile(ctx context.Context, name string) ([]byte, error) {
	return files.ReadFile(ctx, f, name, 0)
}

// WriteFile makes name a regular file with the bytes of data, atomically.
func (f *Files) WriteFile(ctx context.Context, name string, data []byte, o files.WriteOptions) error {
	return files.WriteFile(ctx, f, name, data, o)
}

// ReadDir returns the entries of a directory; more than 100,000 are ErrTooLarge.
// files.ReadDir takes another limit, List has none.
func (f *Files) ReadDir(ctx context.Context, dir string) ([]files.Info, error) {
	return files.ReadDir(ctx, f, dir, 0)
}

// Open opens a regular file for reading. The caller closes it.
func (f *Files) Open(ctx context.Context, name string, o files.OpenOptions) (files.File, error) {
	fsys, err := f.fs(ctx)
	if err != nil {
		return nil, f.sb.wrap(err, "read", name)
	}
	file, err := fsys.Open(ctx, name, o)
	if err != nil {
		return nil, f.sb.wrap(err, "read", name)
	}
	return &openFile{File: file, sb: f.sb, name: name}, nil
}

// Write makes name a regular file with exactly the bytes of src, or leaves it as it
// was.
func (f *Files) Write(ctx context.Context, name string, src io.Reader, size int64, o files.WriteOptions) error {
	err := f.change(ctx, spec.AuditRecord{Kind: spec.AuditWrite, Path: name}, func(fsys files.FS) error {
		return fsys.Write(ctx, name, src, size, o)
	})
	return f.sb.wrap(err, "write", name)
}

// Stat describes name.
func (f *Files) Stat(ctx context.Context, name string, o files.StatOptions) (files.Info, error) {
	fsys, err := f.fs(ctx)
	if err != nil {
		return files.Info{}, f.sb.wrap(err, "stat", name)
	}
	info, err := fsys.Stat(ctx, name, o)
	return info, f.sb.wrap(err, "stat", name)
}

// List yields the entries of a directory in no promised order. The first error ends
// the sequence.
func (f *Files) List(ctx context.Context, dir string) iter.Seq2[files.Info, error] {
	return each(ctx, f, "list", dir, func(fsys files.FS) iter.Seq2[files.Info, error] { return fsys.List(ctx, dir) })
}

// Mkdir makes a directory.
func (f *Files) Mkdir(ctx context.Context, name string, o files.MkdirOptions) error {
	err := f.change(ctx, spec.AuditRecord{Kind: spec.AuditMkdir, Path: name}, func(fsys files.FS) error {
		return fsys.Mkdir(ctx, name, o)
	})
	return f.sb.wrap(err, "mkdir", name)
}

// Remove removes a file, a link, an empty directory or, if asked, a whole one.
func (f *Files) Remove(ctx context.Context, name string, o files.RemoveOptions) error {
	err := f.change(ctx, spec.AuditRecord{Kind: spec.AuditRemove, Path: name}, func(fsys files.FS) error {
		return fsys.Remove(ctx, name, o)
	})
	return f.sb.wrap(err, "remove", name)
}

// Rename moves oldname to newname, which is not overwritten unless asked.
func (f *Files) Rename(ctx context.Context, oldname, newname string, o files.RenameOptions) error {
	err := f.change(ctx, spec.AuditRecord{Kind: spec.AuditMove, Path: oldname, NewPath: newname}, func(fsys files.FS) error {
		return fsys.Rename(ctx, oldname, newname, o)
	})
	return f.sb.wrap(err, "rename", oldname)
}
