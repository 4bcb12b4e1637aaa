package localfs

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// Rename implements files.FS. It makes no directories. A directory over a
// directory that is not empty is CodeExists even with o.Overwrite.
func (f *FS) Rename(ctx context.Context, oldname, newname string, o files.RenameOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	from, err := f.resolveEntry(oldname)
	if err != nil {
		return err
	}
	defer from.close()
	to, err := f.resolveEntry(newname)
	if err != nil {
		return err
	}
	defer to.close()
	st, err := sys.Lstat(from.dir, from.base)
	if err != nil {
		return fail(oldname, changing, err)
	}
	if !sys.IsType(&st, unix.S_IFDIR) && (from.slash || to.slash) {
		name := oldname
		if to.slash {
			name = newname
		}
		return fail(name, changing, unix.ENOTDIR)
	}
	if !o.Overwrite {
		err = renameNew(from.dir, from.base, to.dir, to.base)
	} else if err = renameOver(from, to); errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) {
		return fail(newname, changing, err)
	}
	switch {
	case err == unix.EXDEV:
		return refuse(newname, spec.CodeUnsupported, "it lies on another file system")
	case err == unix.EINVAL:
		return refuse(newname, spec.CodeInvalid, "a directory cannot move into itself")
	case err == unix.ENOENT:
		return fail(oldname, changing, err)
	case err != nil:
		return fail(newname, changing, err)
	}
	return nil
}

// resolveEntry resolves a name that is to be a directory's entry itself, as "/",
// "." and ".." are not.
func (f *FS) resolveEntry(name string) (target, error) {
	t, err := f.resolve(name, changing, makeNothing)
	if err == nil && t.base == "" {
		t.close()
		return target{}, refuse(name, spec.CodeInvalidPath, "the last element names no entry of a directory")
	}
	return t, err
}

// renameOver renames, whatever stands at the new name. Two names of one file are
// left alone by the kernel; then only the old one has to go.
func renameOver(from, to target) error {
	if err := sys.Retry(func() error { return unix.Renameat(from.dir, from.base, to.dir, to.base) }); err != nil {
		return err
	}
	before, err := sys.Lstat(from.dir, from.base)
	if err != nil {
		return nil // moved, as it nearly always is
	}
	after, err := sys.Lstat(to.dir, to.base)
	if err != nil || !sys.SameFile(&before, &after) || sameEntry(from, to) {
		return nil
	}
	return sys.Retry(func() error { return unix.Unlinkat(from.dir, from.base, 0) })
}

// sameEntry reports whether two targets are one entry of one directory.
func sameEntry(a, b target) bool {
	var x, y unix.Stat_t
	return a.base == b.base && unix.Fstat(a.dir, &x) == nil && unix.Fstat(b.dir, &y) == nil && sys.SameFile(&x, &y)
}

// renameNew renames unless the new name exists. Where the file system knows no such
// rename, a hard link to a file does the same; it has both names for a moment.
func renameNew(fromDir int, from string, toDir int, to string) error {
	err := sys.Retry(func() error { return unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE) })
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	st, statErr := sys.Lstat(fromDir, from)
	if statErr != nil || sys.IsType(&st, unix.S_IFDIR) {
		return err
	}
	if err := sys.Retry(func() error { return unix.Linkat(fromDir, from, toDir, to, 0) }); err != nil {
		if err == unix.EPERM {
			return unix.EOPNOTSUPP // what a file system without hard links says
		}
		return err
	}
	return sys.Retry(func() error { return unix.Unlinkat(fromDir, from, 0) })
}
