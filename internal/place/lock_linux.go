package place

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lock is the right to make, start, stop or remove one place, among all processes.
type lock struct {
	file *os.File
	path string
}

// errLocked says that somebody else is at it.
var errLocked = errors.New("the place is locked")

// lock waits for the lock of a place. Only contenders wait, and they poll: a thread
// that sleeps in flock cannot be called off.
func (r *Root) lock(ctx context.Context, id string) (*lock, error) {
	const first, most = time.Millisecond, 20 * time.Millisecond
	for wait := first; ; wait = min(2*wait, most) {
		l, err := r.tryLock(id)
		if !errors.Is(err, errLocked) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// tryLock takes the lock of a place, or returns errLocked.
func (r *Root) tryLock(id string) (*lock, error) {
	path := filepath.Join(r.Dir, locksName, id)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, hostError(err)
		}
		if err := flock(f); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, errLocked
			}
			return nil, hostError(&fs.PathError{Op: "flock", Path: path, Err: err})
		}
		// Whoever removed a place has removed its lock file too: the one that
		// is locked must still be the one that others would open.
		held, err := f.Stat()
		if err == nil {
			var named fs.FileInfo
			if named, err = os.Stat(path); err == nil && os.SameFile(held, named) {
				return &lock{f, path}, nil
			}
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, hostError(err)
		}
	}
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// unlock gives the lock back.
func (l *lock) unlock() { l.file.Close() }

// unlockAndForget gives the lock back and leaves no lock file behind.
func (l *lock) unlockAndForget() {
	os.Remove(l.path)
	l.file.Close()
}
