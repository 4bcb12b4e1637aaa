//go:build !linux

package localfs

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// FS answers every call with CodeUnsupported.
type FS struct{}

// New returns an FS.
func New(string) *FS { return &FS{} }

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
