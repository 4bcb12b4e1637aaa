//go:build !linux

package localfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// FS answers every call with CodeUnsupported.
type FS struct{}

// New returns an FS.
func New(string) *FS { return &FS{} }

// NewRooted returns CodeUnsupported.
func NewRooted(_, dir string) (*FS, error) { return nil, unsupported(dir) }

// Close does nothing.
func (*FS) Close() error { return nil }

func unsupported(name string) error {
	return &spec.Error{Path: name, Code: spec.CodeUnsupported, Err: errors.New("local files are served on linux only")}
}

// Open implements files.FS.
func (*FS) Open(_ context.Context, name string, _ files.OpenOptions) (files.File, error) {
	return nil, unsupported(name)
}

// Write implements files.FS.
func (*FS) Write(_ context.Context, name string, _ io.Reader, _ int64, _ files.WriteOptions) error {
	return unsupported(name)
}

// Stat implements files.FS.
func (*FS) Stat(_ context.Context, name string, _ files.StatOptions) (files.Info, error) {
	return files.Info{}, unsupported(name)
}

// List implements files.FS.
func (*FS) List(_ context.Context, dir string) iter.Seq2[files.Info, error] {
	return func(yield func(files.Info, error) bool) { yield(files.Info{}, unsupported(dir)) }
}

// Mkdir implements files.FS.
func (*FS) Mkdir(_ context.Context, name string, _ files.MkdirOptions) error {
	return unsupported(name)
}

// Remove implements files.FS.
func (*FS) Remove(_ context.Context, name string, _ files.RemoveOptions) error {
	return unsupported(name)
}

// Rename implements files.FS.
func (*FS) Rename(_ context.Context, oldname, _ string, _ files.RenameOptions) error {
	return unsupported(oldname)
}

// Chmod implements files.Chmodder.
func (*FS) Chmod(_ context.Context, name string, _ fs.FileMode) error { return unsupported(name) }

// Copy implements files.Copier.
func (*FS) Copy(_ context.Context, oldname, _ string, _ files.CopyOptions) error {
	return unsupported(oldname)
}

// Names implements files.Namer.
func (*FS) Names(_ context.Context, dir string, _ files.NamesOptions) iter.Seq2[files.Info, error] {
	return func(yield func(files.Info, error) bool) { yield(files.Info{}, unsupported(dir)) }
}

// Resolve implements files.Resolver.
func (*FS) Resolve(_ context.Context, name string) (string, error) { return "", unsupported(name) }

// WriteBatch implements files.BatchWriter.
func (*FS) WriteBatch(context.Context, iter.Seq2[files.BatchFile, error], files.BatchOptions) (int, error) {
	return 0, unsupported("")
}

// MakeSymlink implements files.Symlinker.
func (*FS) MakeSymlink(_ context.Context, _, name string, _ files.SymlinkOptions) error {
	return unsupported(name)
}

// OpenRoot implements tree.Rooter.
func (*FS) OpenRoot(_ context.Context, dir string) (files.FS, io.Closer, error) {
	return nil, nil, unsupported(dir)
}
