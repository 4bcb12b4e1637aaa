package localfs

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files/localfs/internal/beneath"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// dirMode is the mode of every directory that is made, whatever the umask.
const dirMode = 0o755

// target is a name whose directory has been resolved.
type target struct {
	// dir is an O_PATH descriptor of the directory that holds base.
	dir int
	// base is the last element. It is empty where the name is spelled as a
	// directory ("/", "a/.", "a/.."); dir is then that directory itself.
	base string
	// slash: the name ends with a slash, so that only a directory will do.
	slash bool
	// whole is the name again, for looking through a link that is the last
	// element; nil: a link is looked at as such only.
	whole *spot
}

func (t target) close() { unix.Close(t.dir) }

// spot is what a name means. Its elements stay as they are: behind a link, ".."
// leads elsewhere than its spelling says.
type spot struct {
	abs  string        // as an absolute path of the place
	path string        // what follows the root, with a slash in front; abs if there is none
	root *beneath.Root // nil: the place is the boundary
}

// locate checks name and returns what it means.
func (f *FS) locate(name string) (spot, error) {
	if err := spec.ValidatePath(name); err != nil {
		return spot{}, spec.Wrap(err, "", "", "", name)
	}
	abs := name
	if !strings.HasPrefix(name, "/") {
		abs = f.workdir + "/" + name
	}
	if f.root == nil {
		return spot{abs: abs, path: abs}, nil
	}
	below, ok := f.root.Below(abs)
	if !ok {
		return spot{}, fail(name, reading, beneath.ErrOutside)
	}
	return spot{abs, below, f.root}, nil
}

// open opens what s leads to. Links in it are followed, the last one unless flags
// say no.
func (s spot) open(flags int) (int, error) {
	if s.root != nil {
		return s.root.Open(s.path, flags, nil)
	}
	return sys.Openat(unix.AT_FDCWD, s.path, flags, 0)
}

// stat describes what s leads to, or itself if it is a link and noFollow is set.
func (s spot) stat(noFollow bool) (st unix.Stat_t, err error) {
	flags := unix.O_PATH
	if noFollow {
		flags |= unix.O_NOFOLLOW
	}
	switch {
	case s.root != nil:
		fd, err := s.root.Open(s.path, flags, nil)
		if err != nil {
			return st, err
		}
		defer unix.Close(fd)
		return sys.Lstat(fd, "")
	case noFollow:
		return sys.Lstat(unix.AT_FDCWD, s.path)
	}
	return sys.Stat(unix.AT_FDCWD, s.path)
}

// label is the name that an Info gives to the file. A path that is spelled as a
// directory is named after what its spelling means.
func (s spot) label() string { return path.Base(path.Clean(s.abs)) }

// parent is the directory that holds s, and the name of s in it; see target.
func (s spot) parent() (dir spot, base string, slash bool) {
	dir = s
	dir.path, base, slash = split(s.path)
	return dir, base, slash
}

// split separates the last element of an absolute path from what comes before.
func split(abs string) (dir, base string, slash bool) {
	trimmed := strings.TrimRight(abs, "/")
	slash = trimmed != abs
	i := strings.LastIndexByte(trimmed, '/')
	dir, base = trimmed[:i+1], trimmed[i+1:]
	if base == "" || base == "." || base == ".." {
		return trimmed + "/", "", slash
	}
	return dir, base, slash
}

// resolve opens the directory that holds name. The caller closes the target.
func (f *FS) resolve(name string, a access, m making) (target, error) {
	s, err := f.locate(name)
	if err != nil {
		return target{}, err
	}
	dir, base, slash := s.parent()
	if base == "" {
		m = makeNothing
	}
	fd, err := dir.openDir(m)
	if err != nil {
		return target{}, fail(name, a, err)
	}
	return target{fd, base, slash, &s}, nil
}

// leadsToDir reports whether the target, a link, leads to a directory. One that
// leads out of the root is an error.
func (t target) leadsToDir() (bool, error) {
	if t.whole == nil {
		return false, nil
	}
	st, err := t.whole.stat(false)
	if err == beneath.ErrOutside {
		return false, err
	}
	return err == nil && sys.IsType(&st, unix.S_IFDIR), nil
}

// making says what openDir does about a directory that is missing.
type making int

const (
	makeNothing making = iota
	makeMissing
	makeDurable // and sync what holds it
)

// mkdir is what makes directories; nil: nothing does.
func (m making) mkdir() beneath.Mkdir {
	if m == makeNothing {
		return nil
	}
	return func(dir int, name string) error { return mkdir(dir, name, m) }
}

// openDir returns an O_PATH descriptor of the directory. ENOTDIR means that
// something else stands in the way, at any distance; a link that leads nowhere does.
func (s spot) openDir(m making) (int, error) {
	if s.root != nil {
		return s.root.Open(s.path, unix.O_PATH|unix.O_DIRECTORY, m.mkdir())
	}
	fd, err := sys.Openat(unix.AT_FDCWD, s.path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != unix.ENOENT {
		return fd, err
	}
	return walk(s.path, m)
}

// walk opens a directory element by element, which tells a missing one from a
// dangling link, and makes what is missing.
func walk(abs string, m making) (int, error) {
	fd, err := sys.Openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	for _, elem := range strings.Split(abs, "/") {
		if elem == "" {
			continue
		}
		next, err := step(fd, elem, m)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// maxRaces is how often a step looks again after somebody changed the directory
// between two of its looks.
const maxRaces = 16

// step opens the directory elem of dir.
func step(dir int, elem string, m making) (int, error) {
	for range maxRaces {
		fd, err := sys.Openat(dir, elem, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != unix.ENOENT {
			return fd, err
		}
		switch st, err := sys.Lstat(dir, elem); {
		case err == nil && sys.IsType(&st, unix.S_IFLNK):
			return -1, unix.ENOTDIR
		case err == nil:
			continue // it has appeared
		case err != unix.ENOENT || m == makeNothing:
			return -1, err
		}
		if err := mkdir(dir, elem, m); err != nil && err != unix.EEXIST {
			return -1, err
		}
	}
	return -1, unix.EBUSY
}

// mkdir makes the directory elem of dir with dirMode. Where the umask or a default ACL
// makes another mode of it, that is mended under a temporary name: nobody meets a
// directory of ours that is shut.
func mkdir(dir int, elem string, m making) error {
	temp := tempName()
	if err := sys.Retry(func() error { return unix.Mkdirat(dir, temp, dirMode) }); err != nil {
		if _, statErr := sys.Lstat(dir, elem); statErr == nil {
			return unix.EEXIST // which says more than why nothing can be made beside it
		}
		return err
	}
	err := settle(dir, temp, elem)
	if err != nil {
		_ = sys.Retry(func() error { return unix.Unlinkat(dir, temp, unix.AT_REMOVEDIR) })
		return err
	}
	if m == makeDurable {
		return sys.SyncDir(dir)
	}
	return nil
}

// settle gives the new directory temp its mode and its name.
func settle(dir int, temp, elem string) error {
	fd, err := sys.Openat(dir, temp, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := forceDirMode(fd); err != nil {
		return err
	}
	err = renameNew(dir, temp, dir, elem)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	// A file system without such a rename: its plain one replaces an empty
	// directory at most, by one that is just the same.
	return sys.Retry(func() error { return unix.Renameat(dir, temp, dir, elem) })
}

// forceDirMode undoes what the umask or a default ACL made of dirMode. It keeps a
// set-group-ID bit, which a directory inherits.
func forceDirMode(fd int) error {
	var st unix.Stat_t
	if err := sys.Retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	if st.Mode&0o777 == dirMode {
		return nil
	}
	// The directory may be unreadable to its maker, so that only O_PATH gets a
	// descriptor of it.
	return sys.Chmod(fd, dirMode)
}
