package localfs

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Mkdir implements files.FS. With o.Parents something else than a directory in
// the place of the last one is CodeNotDirectory, without it CodeExists.
func (f *FS) Mkdir(ctx context.Context, name string, o files.MkdirOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.Parents {
		s, err := f.locate(name)
		if err != nil {
			return err
		}
		fd, err := s.openDir(makeMissing)
		if err != nil {
			return fail(name, changing, err)
		}
		unix.Close(fd)
		return nil
	}
	t, err := f.resolve(name, changing, makeNothing)
	if err != nil {
		return err
	}
	defer t.close()
	if t.base == "" {
		return refuse(name, spec.CodeExists, "the directory exists")
	}
	if err := mkdir(t.dir, t.base, makeMissing); err != nil {
		return fail(name, changing, err)
	}
	return nil
}
