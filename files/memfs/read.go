package memfs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Open implements files.FS.
func (f *FS) Open(ctx context.Context, name string, o files.OpenOptions) (files.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Offset < 0 || o.Length < 0 || o.MaxBytes < 0 {
		return nil, fail(name, spec.New(spec.CodeInvalid, "a negative offset, length or limit"))
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.existing(name, !o.NoFollow)
	if err != nil {
		return nil, fail(name, err)
	}
	switch {
	case n.isDir():
		return nil, fail(name, errCode(spec.CodeIsDirectory))
	case !n.mode.IsRegular():
		return nil, fail(name, errCode(spec.CodeNotRegular))
	}
	size := int64(len(n.data))
	if o.MaxBytes > 0 && size > o.MaxBytes {
		return nil, fail(name, spec.New(spec.CodeTooLarge, fmt.Sprintf("%d bytes, at most %d are allowed", size, o.MaxBytes)))
	}
	from, to := min(o.Offset, size), size
	if o.Length > 0 {
		to = from + min(o.Length, size-from)
	}
	abs, _ := f.absolute(name)
	return &file{bytes.NewReader(n.data[from:to]), n.info(label(abs))}, nil
}

// file is an open regular file.
type file struct {
	data *bytes.Reader
	info files.Info
}

func (f *file) Info() files.Info { return f.info }
func (f *file) Close() error     { return nil }

func (f *file) Read(p []byte) (int, error) {
	if f.data.Len() == 0 {
		return 0, io.EOF
	}
	return f.data.Read(p)
}

// Stat implements files.FS.
func (f *FS) Stat(ctx context.Context, name string, o files.StatOptions) (files.Info, error) {
	if err := ctx.Err(); err != nil {
		return files.Info{}, err
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.existing(name, o.Follow)
	if err != nil {
		return files.Info{}, fail(name, err)
	}
	abs, _ := f.absolute(name)
	return n.info(label(abs)), nil
}

// List implements files.FS. It yields the entries as they were when it began.
func (f *FS) List(ctx context.Context, dir string) iter.Seq2[files.Info, error] {
	return func(yield func(files.Info, error) bool) {
		entries, err := f.entries(ctx, dir, true)
		if err != nil {
			yield(files.Info{}, err)
			return
		}
		for _, info := range entries {
			if err := ctx.Err(); err != nil {
				yield(files.Info{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (f *FS) entries(ctx context.Context, dir string, follow bool) ([]files.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.existing(dir, follow)
	if err != nil {
		return nil, fail(dir, err)
	}
	if n.mode.Type() != fs.ModeDir {
		return nil, fail(dir, errCode(spec.CodeNotDirectory))
	}
	var out []files.Info
	for name, child := range n.entries {
		out = append(out, child.info(name))
	}
	return out, nil
}
