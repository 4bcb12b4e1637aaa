package berth

import (
	"context"
	"io/fs"
	"iter"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// FS returns the files below root, a directory of the place, as package io/fs has
// them; files.NewIOFS says what is promised. ctx is the context of every call. It
// starts nothing by itself.
func (sb *Sandbox) FS(ctx context.Context, root string) fs.FS {
	return files.NewIOFS(ctx, sb.Files(), root)
}

// Chmod sets the permission bits of name.
func (f *Files) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	err := f.change(ctx, spec.AuditRecord{Kind: spec.AuditChmod, Path: name}, func(fsys files.FS) error {
		return files.Chmod(ctx, fsys, name, mode)
	})
	return f.sb.wrap(err, "chmod", name)
}

// Copy copies oldname to newname in the place; see files.Copier.
func (f *Files) Copy(ctx context.Context, oldname, newname string, o files.CopyOptions) error {
	err := f.change(ctx, spec.AuditRecord{Kind: spec.AuditCopy, Path: oldname, NewPath: newname}, func(fsys files.FS) error {
		return files.Copy(ctx, fsys, oldname, newname, o)
	})
	return f.sb.wrap(err, "copy", oldname)
}

// Glob yields the files that o selects; see files.Globber.
func (f *Files) Glob(ctx context.Context, o files.GlobOptions) iter.Seq2[files.Match, error] {
	return each(ctx, f, "glob", o.Dir, func(fsys files.FS) iter.Seq2[files.Match, error] { return files.Glob(ctx, fsys, o) })
}

// Grep yields the lines that o selects; see files.Grepper.
func (f *Files) Grep(ctx context.Context, o files.GrepOptions) iter.Seq2[files.Line, error] {
	return each(ctx, f, "grep", o.Files.Dir, func(fsys files.FS) iter.Seq2[files.Line, error] { return files.Grep(ctx, fsys, o) })
}

// Names yields the entries of a directory without their metadata; see files.Namer.
func (f *Files) Names(ctx context.Context, dir string, o files.NamesOptions) iter.Seq2[files.Info, error] {
	return each(ctx, f, "list", dir, func(fsys files.FS) iter.Seq2[files.Info, error] { return files.Names(ctx, fsys, dir, o) })
}

// WriteBatch writes many files and returns how many have landed; see
// files.BatchWriter.
func (f *Files) WriteBatch(ctx context.Context, next iter.Seq2[files.BatchFile, error], o files.BatchOptions) (int, error) {
	fsys, err := f.fs(ctx)
	if err != nil {
		return 0, f.sb.wrap(err, "write", "")
	}
	a, err := f.sb.announce(ctx, spec.AuditRecord{Kind: spec.AuditBatch})
	if err != nil {
		return 0, f.sb.wrap(err, "write", "")
	}
	n, err := files.WriteBatch(ctx, fsys, next, o)
	a.end(err, func(r *spec.AuditRecord) { r.Count = int64(n) })
	return n, f.sb.wrap(err, "write", "")
}

// Resolve returns the absolute name of what name leads to; see files.Resolver.
func (f *Files) Resolve(ctx context.Context, name string) (string, error) {
	fsys, err := f.fs(ctx)
	if err != nil {
		return "", f.sb.wrap(err, "resolve", name)
	}
	abs, err := files.Resolve(ctx, fsys, name)
	return abs, f.sb.wrap(err, "resolve", name)
}

// ReadLines returns a window of the lines of a text file; see files.ReadLines.
func (f *Files) ReadLines(ctx context.Context, name string, o files.LinesOptions) (files.Lines, error) {
	lines, err := files.ReadLines(ctx, f, name, o)
	return lines, f.sb.wrap(err, "read", name)
}

// ReadHead returns the first n bytes of a regular file.
func (f *Files) ReadHead(ctx context.Context, name string, n int64) ([]byte, error) {
	head, err := files.ReadHead(ctx, f, name, n)
	return head, f.sb.wrap(err, "read", name)
}

// Hash returns the SHA-256 of a regular file as 64 hex digits.
func (f *Files) Hash(ctx context.Context, name string) (string, error) {
	return files.Hash(ctx, f, name)
}

// Edit changes a regular file unless it has changed meanwhile; see files.Edit.
func (f *Files) Edit(ctx context.Context, name string, o files.EditOptions, change func(data []byte) ([]byte, error)) (files.Edited, error) {
	e, err := files.Edit(ctx, f, name, o, change)
	return e, f.sb.wrap(err, "edit", name)
}

// Replace replaces text in a regular file; see files.Replace.
func (f *Files) Replace(ctx context.Context, name string, oldText, newText []byte, o files.ReplaceOptions) (files.Edited, error) {
	e, err := files.Replace(ctx, f, name, oldText, newText, o)
	return e, f.sb.wrap(err, "edit", name)
}

// each yields what seq yields of the driver's files.
func each[T any](ctx context.Context, f *Files, op, path string, seq func(files.FS) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		fsys, err := f.fs(ctx)
		if err != nil {
			var none T
			yield(none, f.sb.wrap(err, op, path))
			return
		}
		for v, err := range seq(fsys) {
			if !yield(v, f.sb.wrap(err, op, path)) {
				return
			}
		}
	}
}

// openFile says in the errors of a file where they happened.
type openFile struct {
	files.File
	sb   *Sandbox
	name string
}

func (o *openFile) Read(p []byte) (int, error) {
	n, err := o.File.Read(p)
	return n, o.sb.wrap(err, "read", o.name)
}

func (o *openFile) Close() error { return o.sb.wrap(o.File.Close(), "read", o.name) }
