package localfs

import (
	"context"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// Copy implements files.Copier. A new directory gets the mode of the one that is
// copied once it is full; times, owners and attributes are not copied.
func (f *FS) Copy(ctx context.Context, oldname, newname string, o files.CopyOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	from, err := f.resolve(oldname, reading, makeNothing)
	if err != nil {
		return err
	}
	defer from.close()
	st, err := sys.Lstat(from.dir, from.base)
	isDir := err == nil && sys.IsType(&st, unix.S_IFDIR)
	switch {
	case err != nil:
		return fail(oldname, reading, err)
	case from.slash && !isDir:
		return fail(oldname, reading, unix.ENOTDIR)
	case isDir && !o.Recursive:
		return refuse(oldname, spec.CodeIsDirectory, "a directory, and the copy is not recursive")
	case isDir:
		err = f.notInside(newname, &st)
	case !sys.IsType(&st, unix.S_IFLNK):
		err = regular(oldname, &st)
	}
	if err != nil {
		return err
	}
	to, err := f.resolve(newname, changing, makeMissing)
	if err != nil {
		return err
	}
	defer to.close()
	c := copier{ctx: ctx, o: o, oldname: oldname, newname: newname}
	if !isDir {
		return c.entry(from, to, &st)
	}
	if o.Overwrite {
		// newname may be a link to the directory that is to be filled.
		if fd, err := to.whole.openDir(makeNothing); err == nil {
			defer unix.Close(fd)
			to = target{dir: fd}
		}
	}
	return c.tree(from, to)
}

// notInside refuses a directory st that newname lies in, or would.
func (f *FS) notInside(newname string, st *unix.Stat_t) error {
	dir, err := f.locate(newname)
	if err != nil {
		return err
	}
	fd := -1
	for {
		// The nearest of its directories that exists.
		trimmed := strings.TrimRight(dir.path, "/")
		dir.path = trimmed[:strings.LastIndexByte(trimmed, '/')+1]
		if dir.path == "" {
			dir.path = "/"
		}
		if fd, err = dir.openDir(makeNothing); err != unix.ENOENT || dir.path == "/" {
			break
		}
	}
	for err == nil {
		var here, above unix.Stat_t
		if here, err = sys.Lstat(fd, ""); err != nil {
			break
		}
		if sys.SameFile(&here, st) {
			unix.Close(fd)
			return refuse(newname, spec.CodeInvalid, "a directory cannot be copied into itself")
		}
		up := -1
		if up, err = sys.Openat(fd, "..", unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
			break
		}
		unix.Close(fd)
		fd = up
		if above, err = sys.Lstat(fd, ""); err == nil && sys.SameFile(&here, &above) {
			break // the top
		}
	}
	if fd >= 0 {
		unix.Close(fd)
	}
	if err != nil {
		return fail(newname, changing, err)
	}
	return nil
}

// copier is one copy under way.
type copier struct {
	ctx              context.Context
	o                files.CopyOptions
	oldname, newname string
	// below leads from both to the directory that is copied now; its first element
	// stands for the two. Empty: it is they that are copied.
	below []string
}

// source and dest name an entry of what is copied now, for errors.
func (c *copier) source(name string) string { return c.join(c.oldname, name) }
func (c *copier) dest(name string) string   { return c.join(c.newname, name) }

func (c *copier) join(top, name string) string {
	if len(c.below) == 0 {
		return top
	}
	return strings.Join(append(append([]string{strings.TrimRight(top, "/")}, c.below[1:]...), name), "/")
}

// entry copies what is no directory; st describes it.
func (c *copier) entry(from, to target, st *unix.Stat_t) error {
	options := files.WriteOptions{Exclusive: !c.o.Overwrite}
	if _, err := to.replaceable(options); err != nil {
		return fail(c.dest(to.base), changing, err)
	}
	if sys.IsType(st, unix.S_IFLNK) {
		return c.link(from, to)
	}
	name := c.source(from.base)
	fd, opened, err := openRegularAt(from.dir, from.base)
	if err != nil {
		return fail(name, reading, err)
	}
	in, err := newFile(fd, &opened, name, from.base)
	if err != nil {
		return err
	}
	defer in.Close()
	err = to.replace(c.ctx, opened.Mode&0o777, options, func(out *os.File) error { return copyFile(c.ctx, out, in) })
	if err != nil {
		return fail(c.dest(to.base), changing, err)
	}
	return nil
}

// link copies a symbolic link.
func (c *copier) link(from, to target) error {
	where, err := sys.Readlink(from.dir, from.base)
	if err != nil {
		return fail(c.source(from.base), reading, err)
	}
	if err := to.symlink(where, c.o.Overwrite); err != nil {
		return fail(c.dest(to.base), changing, err)
	}
	return nil
}

// cloneBytes is how much is copied by the kernel between two looks at the context.
const cloneBytes = 8 << 20

// copyFile copies the bytes of in, which nobody has read from, to out. Where the
// file system can, the two share them.
func copyFile(ctx context.Context, out *os.File, in *file) error {
	if in.src != io.ReaderAt(in.os) || in.left == 0 {
		return copyBytes(ctx, out, in)
	}
	inFD, outFD := int(in.os.Fd()), int(out.Fd())
	if unix.IoctlFileClone(outFD, inFD) == nil {
		return nil
	}
	for in.left > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := 0
		err := sys.Retry(func() (err error) {
			n, err = unix.CopyFileRange(inFD, &in.pos, outFD, nil, int(min(in.left, cloneBytes)), 0)
			return err
		})
		if err == unix.ENOSPC || err == unix.EDQUOT || err == unix.EIO {
			return err
		}
		if err != nil || n == 0 {
			break // not for these two files: read and write go on from here
		}
		in.left -= int64(n)
	}
	return copyBytes(ctx, out, in)
}

// copyBytes reads in to its end.
func copyBytes(ctx context.Context, out io.Writer, in *file) error {
	buf := make([]byte, max(min(in.left, 256<<10), 1))
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := in.Read(buf)
		if _, werr := out.Write(buf[:n]); werr != nil {
			return werr
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
