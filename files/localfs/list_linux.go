package localfs

import (
	"context"
	"io"
	"iter"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
)

// batch is how many names are read from a directory at a time.
const batch = 256

// List implements files.FS. A link to a directory is followed. An entry that is
// gone before it could be described is left out.
func (f *FS) List(ctx context.Context, dir string) iter.Seq2[files.Info, error] {
	return func(yield func(files.Info, error) bool) {
		if err := f.list(ctx, dir, yield); err != nil {
			yield(files.Info{}, err)
		}
	}
}

// list returns the error that the caller is still to be told.
func (f *FS) list(ctx context.Context, dir string, yield func(files.Info, error) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := f.locate(dir)
	if err != nil {
		return err
	}
	fd, err := s.open(unix.O_RDONLY | unix.O_DIRECTORY)
	if err != nil {
		return fail(dir, reading, s.blocked(err))
	}
	d := os.NewFile(uintptr(fd), s.abs)
	defer d.Close()
	for {
		names, err := d.Readdirnames(batch)
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			info, err := describe(fd, name, name)
			if err == unix.ENOENT {
				continue
			}
			if err != nil {
				return fail(dir, reading, err)
			}
			if !yield(info, nil) {
				return nil
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fail(dir, reading, err)
		}
	}
}
