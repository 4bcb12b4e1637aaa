package localfs

import (
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// Remove implements files.FS.
func (f *FS) Remove(ctx context.Context, name string, o files.RemoveOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := f.resolveEntry(name)
	if err != nil {
		return err
	}
	defer t.close()
	if t.slash {
		if st, err := sys.Lstat(t.dir, t.base); err != nil || !sys.IsType(&st, unix.S_IFDIR) {
			if err == nil {
				err = unix.ENOTDIR
			}
			return fail(name, changing, err)
		}
	}
	isDir, err := unlink(t.dir, t.base)
	if isDir {
		err = rmdir(t.dir, t.base)
		if err == unix.ENOTEMPTY && o.Recursive {
			err = removeTree(ctx, t.dir, t.base)
		}
	}
	if err != nil {
		return fail(name, changing, err)
	}
	return nil
}

// unlink removes what is no directory, and says so if it is one.
func unlink(dir int, name string) (isDir bool, err error) {
	err = sys.Retry(func() error { return unix.Unlinkat(dir, name, 0) })
	if err == unix.EPERM { // what POSIX prescribes for a directory
		st, statErr := sys.Lstat(dir, name)
		isDir = statErr == nil && sys.IsType(&st, unix.S_IFDIR)
	}
	return isDir || err == unix.EISDIR, err
}

func rmdir(dir int, name string) error {
	err := sys.Retry(func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
	if err == unix.EEXIST { // the other name of ENOTEMPTY
		return unix.ENOTEMPTY
	}
	return err
}

// maxHeld is how many directories of a path removeTree holds open. Of those above
// it remembers which they were, and finds them again through "..".
const maxHeld = 32

// level is one directory on the way down.
type level struct {
	dir     *os.File // nil if it is not held open
	name    string   // in the level above
	id      unix.Stat_t
	pending []string
	removed bool // since the names were read from the start
	idle    int  // passes in a row that removed nothing
}

// maxIdlePasses is how often a directory that is not empty is read again although
// nothing in it could be found to remove: while others remove from it, a reading
// may pass over what is there.
const maxIdlePasses = 20

func (l *level) fd() int { return int(l.dir.Fd()) }

func (l *level) release() {
	if l.dir != nil {
		l.dir.Close()
		l.dir, l.pending = nil, nil
	}
}

// removeTree removes the directory name of parent and all in it. It takes one
// entry at a time from the deepest directory it has entered, so that neither the
// depth nor the width of the tree costs memory or descriptors.
func removeTree(ctx context.Context, parent int, name string) error {
	var stack []*level
	defer func() {
		for _, l := range stack {
			l.release()
		}
	}()
	top, err := enter(parent, name)
	if err == unix.ENOENT {
		return nil // somebody else has removed it
	}
	if err != nil {
		return err
	}
	stack = append(stack, top)
	for len(stack) > 0 {
		below, err := stack[len(stack)-1].removeNext(ctx)
		switch {
		case err != nil:
			return err
		case below != nil:
			stack = append(stack, below)
			if len(stack) > maxHeld {
				stack[len(stack)-1-maxHeld].release()
			}
			continue
		}
		last := stack[len(stack)-1]
		above := parent
		if len(stack) > 1 {
			up := stack[len(stack)-2]
			if err := up.reenter(last.fd()); err != nil {
				return err
			}
			above = up.fd()
		}
		emptied, err := last.removeSelf(above)
		if err != nil {
			return err
		}
		if emptied {
			last.release()
			stack = stack[:len(stack)-1]
		}
	}
	return nil
}

// enter opens a directory to be emptied. It has just refused rmdir for not being
// empty, which a mount point does otherwise (EBUSY): none is entered.
func enter(parent int, name string) (*level, error) {
	fd, err := sys.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	l := &level{dir: os.NewFile(uintptr(fd), name), name: name}
	if err := sys.Retry(func() error { return unix.Fstat(fd, &l.id) }); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// reenter opens the level again from the directory below it, if it is still the
// one that it was.
func (l *level) reenter(below int) error {
	if l.dir != nil {
		return nil
	}
	fd, err := sys.Openat(below, "..", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = sys.Retry(func() error { return unix.Fstat(fd, &st) })
	if err == nil && !sys.SameFile(&st, &l.id) {
		err = spec.New(spec.CodeUnavailable, "a directory moved away while it was removed")
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	l.dir = os.NewFile(uintptr(fd), l.name)
	return nil
}

// removeNext removes entries until none is left (nil), or one is a directory to be
// emptied first. What is gone already is as good as removed.
func (l *level) removeNext(ctx context.Context) (*level, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(l.pending) == 0 {
			names, err := l.dir.Readdirnames(batch)
			if err == io.EOF {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			l.pending = names
		}
		name := l.pending[0]
		l.pending = l.pending[1:]
		isDir, err := unlink(l.fd(), name)
		if isDir {
			if err = rmdir(l.fd(), name); err == unix.ENOTEMPTY {
				l.removed = true
				var below *level
				if below, err = enter(l.fd(), name); err != unix.ENOENT {
					return below, err
				}
			}
		}
		if err != nil && err != unix.ENOENT {
			return nil, err
		}
		l.removed = true
	}
}

// removeSelf removes the level, now empty, from the directory above. Where entries
// were missed or have been added it starts over, as long as that gets on, and a few
// times though it does not.
func (l *level) removeSelf(above int) (gone bool, err error) {
	err = rmdir(above, l.name)
	switch {
	case err == nil || err == unix.ENOENT:
		return true, nil
	case err != unix.ENOTEMPTY || l.idle == maxIdlePasses:
		return false, err
	case l.removed:
		l.idle = 0
	default:
		l.idle++
		time.Sleep(time.Millisecond)
	}
	l.removed = false
	_, err = l.dir.Seek(0, io.SeekStart)
	return false, err
}
