package localfs

import (
	"context"
	"io"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/beneath"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// MakeSymlink implements files.Symlinker.
func (f *FS) MakeSymlink(ctx context.Context, where, name string, o files.SymlinkOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if spec.ValidatePath(where) != nil {
		return refuse(name, spec.CodeInvalid, "no target of a link")
	}
	t, err := f.resolve(name, changing, makeMissing)
	if err != nil {
		return err
	}
	defer t.close()
	if t.slash {
		return fail(name, changing, unix.ENOTDIR)
	}
	_, err = t.replaceable(files.WriteOptions{Exclusive: !o.Overwrite})
	if err == nil {
		err = t.symlink(where, o.Overwrite)
	}
	if err != nil {
		return fail(name, changing, err)
	}
	return nil
}

// symlink makes the target a symbolic link.
func (t target) symlink(where string, overwrite bool) error {
	temp := tempName()
	err := sys.Retry(func() error { return unix.Symlinkat(where, t.dir, temp) })
	if err != nil {
		return err
	}
	if overwrite {
		err = sys.Retry(func() error { return unix.Renameat(t.dir, temp, t.dir, t.base) })
	} else {
		err = renameNew(t.dir, temp, t.dir, t.base)
	}
	if err != nil {
		_ = sys.Retry(func() error { return unix.Unlinkat(t.dir, temp, 0) })
	}
	return err
}

// OpenRoot implements tree.Rooter: what changes in the tree while a name is followed
// makes none lead out, or through a link.
func (f *FS) OpenRoot(ctx context.Context, dir string) (files.FS, io.Closer, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s, err := f.locate(dir)
	if err != nil {
		return nil, nil, err
	}
	fd, err := s.openDir(makeNothing)
	if err != nil {
		return nil, nil, fail(dir, reading, err)
	}
	rooted := &FS{root: beneath.NewStrict(fd)}
	return rooted, rooted, nil
}
