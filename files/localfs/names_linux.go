package localfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"io/fs"
	"iter"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// Names implements files.Namer. An entry is described only where its directory does not
// tell its type, or tells that of what a mount covers; one that is gone by then is left
// out.
func (f *FS) Names(ctx context.Context, dir string, o files.NamesOptions) iter.Seq2[files.Info, error] {
	return func(yield func(files.Info, error) bool) {
		if err := f.names(ctx, dir, o, yield); err != nil {
			yield(files.Info{}, err)
		}
	}
}

// direntBytes is how much is read of a directory at a time.
const direntBytes = 32 << 10

// names returns the error that the caller is still to be told.
func (f *FS) names(ctx context.Context, dir string, o files.NamesOptions, yield func(files.Info, error) bool) error {
	s, err := f.locate(dir)
	if err != nil {
		return err
	}
	flags := unix.O_RDONLY | unix.O_DIRECTORY
	if o.NoFollow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := s.open(flags)
	if err != nil {
		return fail(dir, reading, s.blocked(err))
	}
	defer unix.Close(fd)
	mounted := f.mounts.Names()
	buf := make([]byte, direntBytes)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := 0
		err := sys.Retry(func() (err error) {
			n, err = unix.Getdents(fd, buf)
			return err
		})
		if err != nil {
			return fail(dir, reading, err)
		}
		if n == 0 {
			return nil
		}
		for rest := buf[:n]; len(rest) > 0; {
			var info files.Info
			var ok bool
			if info, rest, ok = nextEntry(rest); !ok {
				return refuse(dir, spec.CodeInternal, "the kernel returned a broken directory entry")
			}
			if info.Name == "." || info.Name == ".." {
				continue
			}
			// On a directory there is nothing but a directory.
			if info.Mode == fs.ModeIrregular || !info.IsDir() && mounted.Has(info.Name) {
				st, err := sys.Lstat(fd, info.Name)
				if err == unix.ENOENT {
					continue
				}
				if err == nil {
					info.Mode = fileMode(st.Mode).Type()
				} else if info.Mode == fs.ModeIrregular {
					return fail(dir, reading, err)
				}
			}
			if !yield(info, nil) {
				return nil
			}
		}
	}
}

// The layout of a struct linux_dirent64: inode, offset, length, type, name.
const (
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

// nextEntry parses the first entry of what getdents returned. A type that is not
// known is fs.ModeIrregular.
func nextEntry(buf []byte) (info files.Info, rest []byte, ok bool) {
	if len(buf) < direntName {
		return info, nil, false
	}
	length := int(binary.NativeEndian.Uint16(buf[direntLength:]))
	if length < direntName || length > len(buf) {
		return info, nil, false
	}
	name := buf[direntName:length]
	if end := bytes.IndexByte(name, 0); end >= 0 {
		name = name[:end]
	}
	mode := fs.ModeIrregular
	if kind := buf[direntType]; kind != unix.DT_UNKNOWN {
		mode = fileMode(uint32(kind) << 12).Type() // as in a mode: S_IFMT is 0170000
	}
	return files.Info{Name: string(name), Mode: mode}, buf[length:], true
}
