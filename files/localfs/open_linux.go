package localfs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/kernelfile"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// Open implements files.FS. Reading the File is not bound to ctx.
func (f *FS) Open(ctx context.Context, name string, o files.OpenOptions) (files.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Offset < 0 || o.Length < 0 || o.MaxBytes < 0 {
		return nil, refuse(name, spec.CodeInvalid, "a negative offset, length or limit")
	}
	s, err := f.locate(name)
	if err != nil {
		return nil, err
	}
	fd, st, err := openRegular(name, s, o.NoFollow)
	if err != nil {
		return nil, err
	}
	opened, err := newFile(fd, &st, name, s.label())
	if err != nil {
		return nil, err
	}
	size := opened.info.Size
	if o.MaxBytes > 0 && size > o.MaxBytes {
		opened.Close()
		return nil, refuse(name, spec.CodeTooLarge, fmt.Sprintf("%d bytes, at most %d are allowed", size, o.MaxBytes))
	}
	opened.pos = min(o.Offset, size)
	opened.left = size - opened.pos
	if o.Length > 0 {
		opened.left = min(opened.left, o.Length)
	}
	return opened, nil
}

// openRegular opens what is a regular file before and after: what is none is not
// opened at all, unless it is swapped in between the two looks, and then it is not
// waited for.
func openRegular(name string, s spot, noFollow bool) (int, unix.Stat_t, error) {
	flags := unix.O_RDONLY | unix.O_NONBLOCK
	if noFollow {
		flags |= unix.O_NOFOLLOW
	}
	st, err := s.stat(noFollow)
	if err != nil {
		return -1, st, fail(name, reading, s.blocked(err))
	}
	if err := regular(name, &st); err != nil {
		return -1, st, err
	}
	fd, err := s.open(flags)
	if err == unix.ELOOP && noFollow {
		err = regular(name, &unix.Stat_t{Mode: unix.S_IFLNK})
	}
	if err != nil {
		return -1, st, fail(name, reading, err)
	}
	err = sys.Retry(func() error { return unix.Fstat(fd, &st) })
	if err == nil {
		err = regular(name, &st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, fail(name, reading, err)
	}
	return fd, st, nil
}

// openRegularAt opens what name in dir is, if that is a regular file.
func openRegularAt(dir int, name string) (int, unix.Stat_t, error) {
	st, err := sys.Lstat(dir, name)
	if err == nil {
		err = regular("", &st)
	}
	if err != nil {
		return -1, st, err
	}
	fd, err := sys.Openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err == unix.ELOOP {
		err = regular("", &unix.Stat_t{Mode: unix.S_IFLNK})
	}
	if err != nil {
		return -1, st, err
	}
	if st, err = sys.Lstat(fd, ""); err == nil {
		err = regular("", &st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// regular refuses what is no regular file.
func regular(name string, st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return &spec.Error{Path: name, Code: spec.CodeIsDirectory}
	case unix.S_IFLNK:
		return refuse(name, spec.CodeNotRegular, "a symbolic link")
	case unix.S_IFIFO:
		return refuse(name, spec.CodeNotRegular, "a FIFO")
	case unix.S_IFSOCK:
		return refuse(name, spec.CodeNotRegular, "a socket")
	}
	return refuse(name, spec.CodeNotRegular, "a device")
}

// file is an open regular file. It reads by position, never past the size that it
// had when it was opened.
type file struct {
	os   *os.File
	src  io.ReaderAt // os, or what a snapshot took of it
	name string
	info files.Info
	pos  int64
	left int64
}

// newFile makes a file of a descriptor, which it owns. name is for errors.
func newFile(fd int, st *unix.Stat_t, name, label string) (*file, error) {
	f := &file{os: os.NewFile(uintptr(fd), label), name: name, info: fileInfo(st, label)}
	f.src = f.os
	if kernelfile.Is(fd, st) {
		data, err := kernelfile.Read(fd)
		if err != nil {
			f.Close()
			return nil, fail(name, reading, err)
		}
		f.src, f.info.Size = bytes.NewReader(data), int64(len(data))
	}
	f.left = f.info.Size
	return f, nil
}

func (f *file) Info() files.Info { return f.info }

func (f *file) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n, err := f.src.ReadAt(p[:min(int64(len(p)), f.left)], f.pos)
	f.pos += int64(n)
	f.left -= int64(n)
	switch {
	case n > 0 || err == nil:
		return n, nil // an error comes again with the next read
	case err == io.EOF:
		return 0, refuse(f.name, spec.CodeUnavailable, fmt.Sprintf("the file shrank to %d bytes while it was read", f.pos))
	default:
		return 0, fail(f.name, reading, err)
	}
}

func (f *file) Close() error {
	if err := f.os.Close(); err != nil {
		return fail(f.name, reading, err)
	}
	return nil
}
