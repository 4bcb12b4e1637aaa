package files

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/berth-dev/berth/spec"
)

// NewIOFS returns the files below root, a directory of fsys, as package io/fs has
// them. It is also an fs.ReadDirFS, fs.ReadFileFS, fs.StatFS and fs.ReadLinkFS; its
// files are io.Seekers and io.ReaderAts, at the price of one Open for each jump.
//
// ctx is the context of every call, since io/fs has none: when it ends the FS fails.
// Names in io/fs are UTF-8; a file with another name is left out and cannot be
// opened. Links are followed wherever they lead inside the place, also out of root.
// A directory of more than 100,000 entries is read with fs.ReadDirFile only. ReadFile
// takes at most DefaultReadLimit. Errors are *fs.PathErrors whose cause is the
// *spec.Error.
func NewIOFS(ctx context.Context, fsys FS, root string) fs.FS {
	return &ioFS{ctx: ctx, fsys: fsys, root: root}
}

type ioFS struct {
	ctx  context.Context // of every call: io/fs has none
	fsys FS
	root string
}

var (
	_ fs.ReadDirFS  = (*ioFS)(nil)
	_ fs.ReadFileFS = (*ioFS)(nil)
	_ fs.StatFS     = (*ioFS)(nil)
	_ fs.ReadLinkFS = (*ioFS)(nil)
)

// locate returns the name in fsys.
func (f *ioFS) locate(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return f.root, nil
	}
	return join(f.root, name), nil
}

// pathError makes err one of io/fs.
func pathError(op, name string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open opens a file or a directory.
func (f *ioFS) Open(name string) (fs.File, error) {
	at, err := f.locate("open", name)
	if err != nil {
		return nil, err
	}
	file, err := f.fsys.Open(f.ctx, at, OpenOptions{})
	if spec.CodeOf(err) == spec.CodeIsDirectory {
		info, err := f.stat("open", name, StatOptions{Follow: true})
		if err != nil {
			return nil, err
		}
		return &ioDir{f: f, name: name, info: info}, nil
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &ioFile{f: f, name: name, at: at, file: file, info: file.Info()}, nil
}

func (f *ioFS) stat(op, name string, o StatOptions) (fileInfo, error) {
	at, err := f.locate(op, name)
	if err != nil {
		return fileInfo{}, err
	}
	info, err := f.fsys.Stat(f.ctx, at, o)
	info.Name = path.Base(name)
	return fileInfo{info}, pathError(op, name, err)
}

// Stat implements fs.StatFS.
func (f *ioFS) Stat(name string) (fs.FileInfo, error) {
	return orNil(f.stat("stat", name, StatOptions{Follow: true}))
}

// Lstat implements fs.ReadLinkFS.
func (f *ioFS) Lstat(name string) (fs.FileInfo, error) {
	return orNil(f.stat("lstat", name, StatOptions{}))
}

func orNil(info fileInfo, err error) (fs.FileInfo, error) {
	if err != nil {
		return nil, err
	}
	return info, nil
}

// ReadLink implements fs.ReadLinkFS.
func (f *ioFS) ReadLink(name string) (string, error) {
	info, err := f.stat("readlink", name, StatOptions{})
	if err != nil {
		return "", err
	}
	if info.Mode().Type() != fs.ModeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return info.info.Target, nil
}

// ReadFile implements fs.ReadFileFS.
func (f *ioFS) ReadFile(name string) ([]byte, error) {
	at, err := f.locate("readfile", name)
	if err != nil {
		return nil, err
	}
	data, err := ReadFile(f.ctx, f.fsys, at, 0)
	return data, pathError("readfile", name, err)
}

// ReadDir implements fs.ReadDirFS.
func (f *ioFS) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := f.locate("readdir", name)
	if err != nil {
		return nil, err
	}
	infos, err := ReadDir(f.ctx, f.fsys, at, 0)
	var out []fs.DirEntry
	for _, info := range infos {
		if utf8.ValidString(info.Name) {
			out = append(out, fs.FileInfoToDirEntry(fileInfo{info}))
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return out, pathError("readdir", name, err)
}

// fileInfo is an Info as fs.FileInfo. Its Sys is the Info.
type fileInfo struct{ info Info }

func (i fileInfo) Name() string       { return i.info.Name }
func (i fileInfo) Size() int64        { return i.info.Size }
func (i fileInfo) Mode() fs.FileMode  { return i.info.Mode }
func (i fileInfo) ModTime() time.Time { return i.info.ModTime }
func (i fileInfo) IsDir() bool        { return i.info.IsDir() }
func (i fileInfo) Sys() any           { return i.info }

// ioDir is an open directory. It holds nothing of the place between two calls of
// ReadDir but, after the first with a positive n, a listing under way until Close.
type ioDir struct {
	f    *ioFS
	name string
	info fileInfo
	next func() (Info, error, bool)
	stop func()
	done bool
}

func (d *ioDir) Stat() (fs.FileInfo, error) { return d.info, nil }

func (d *ioDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: &spec.Error{Code: spec.CodeIsDirectory}}
}

func (d *ioDir) Close() error {
	if d.stop != nil {
		d.stop()
	}
	d.done = true
	return nil
}

// ReadDir implements fs.ReadDirFile.
func (d *ioDir) ReadDir(n int) ([]fs.DirEntry, error) {
	var out []fs.DirEntry
	if d.next == nil && !d.done {
		at, err := d.f.locate("readdir", d.name)
		if err != nil {
			return nil, err
		}
		d.next, d.stop = iter.Pull2(d.f.fsys.List(d.f.ctx, at))
	}
	for size := 0; !d.done && (n <= 0 || len(out) < n); {
		if len(out) == maxEntries || size > maxEntryBytes {
			return out, pathError("readdir", d.name, tooMany(d.name, len(out)))
		}
		info, err, ok := d.next()
		size += len(info.Name) + len(info.Target)
		switch {
		case !ok:
			d.done = true
		case err != nil:
			return out, pathError("readdir", d.name, err)
		case utf8.ValidString(info.Name):
			out = append(out, fs.FileInfoToDirEntry(fileInfo{info}))
		}
	}
	if n > 0 && len(out) == 0 {
		return nil, io.EOF
	}
	return out, nil
}
