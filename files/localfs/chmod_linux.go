package localfs

import (
	"context"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// Chmod implements files.Chmodder.
func (f *FS) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if mode&^fs.ModePerm != 0 {
		return refuse(name, spec.CodeInvalid, "more than the nine permission bits")
	}
	s, err := f.locate(name)
	if err != nil {
		return err
	}
	fd, err := s.open(unix.O_PATH)
	if err != nil {
		return fail(name, changing, s.blocked(err))
	}
	defer unix.Close(fd)
	if err := sys.Chmod(fd, uint32(mode)); err != nil {
		return fail(name, changing, err)
	}
	return nil
}
