package localfs

import (
	"context"
	"errors"
	"io/fs"
	"iter"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
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

// errEnough ends a listing whose caller has had enough.
var errEnough = errors.New("enough")

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
	if err := ctx.Err(); err != nil {
		return err
	}
	mounted := f.mounts.Names()
	err = sys.Entries(fd, func(name string, kind fs.FileMode) error {
		// On a directory there is nothing but a directory.
		if kind == fs.ModeIrregular || !kind.IsDir() && mounted.Has(name) {
			st, err := sys.Lstat(fd, name)
			switch {
			case err == unix.ENOENT:
				return nil
			case err == nil:
				kind = sys.FileMode(st.Mode).Type()
			case kind == fs.ModeIrregular:
				return err
			}
		}
		if !yield(files.Info{Name: name, Mode: kind}, nil) {
			return errEnough
		}
		return ctx.Err()
	})
	if err == nil || err == errEnough {
		return nil
	}
	return fail(dir, reading, err)
}
