package localfs

import (
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

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
}

func (t target) close() { unix.Close(t.dir) }

// absolute checks name and returns the path that it means. Its elements stay as
// they are: behind a link, ".." leads elsewhere than its spelling says.
func (f *FS) absolute(name string) (string, error) {
	if err := spec.ValidatePath(name); err != nil {
		return "", spec.Wrap(err, "", "", "", name)
	}
	if strings.HasPrefix(name, "/") {
		return name, nil
	}
	return f.workdir + "/" + name, nil
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

// label is the name that an Info gives to the file at an absolute path. A path
// that is spelled as a directory is named after what its spelling means.
func label(abs string) string { return path.Base(path.Clean(abs)) }

// resolve opens the directory that holds name. The caller closes the target.
func (f *FS) resolve(name string, a access, m making) (target, error) {
	abs, err := f.absolute(name)
	if err != nil {
		return target{}, err
	}
	dir, base, slash := split(abs)
	if base == "" {
		m = makeNothing
	}
	fd, err := openDir(dir, m)
	if err != nil {
		return target{}, fail(name, a, err)
	}
	return target{fd, base, slash}, nil
}

// making says what openDir does about a directory that is missing.
type making int

const (
	makeNothing making = iota
	makeMissing
	makeDurable // and sync what holds it
)

// openDir returns an O_PATH descriptor of the directory at an absolute path.
// ENOTDIR means that something else stands in the way, at any distance; a link
// that leads nowhere does.
func openDir(abs string, m making) (int, error) {
	fd, err := openat(unix.AT_FDCWD, abs, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != unix.ENOENT {
		return fd, err
	}
	return walk(abs, m)
}

// walk opens a directory element by element, which tells a missing one from a
// dangling link, and makes what is missing.
func walk(abs string, m making) (int, error) {
	fd, err := openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY, 0)
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
		fd, err := openat(dir, elem, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != unix.ENOENT {
			return fd, err
		}
		switch st, err := lstat(dir, elem); {
		case err == nil && isType(&st, unix.S_IFLNK):
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
	if err := retry(func() error { return unix.Mkdirat(dir, temp, dirMode) }); err != nil {
		if _, statErr := lstat(dir, elem); statErr == nil {
			return unix.EEXIST // which says more than why nothing can be made beside it
		}
		return err
	}
	err := settle(dir, temp, elem)
	if err != nil {
		_ = retry(func() error { return unix.Unlinkat(dir, temp, unix.AT_REMOVEDIR) })
		return err
	}
	if m == makeDurable {
		return syncDir(dir)
	}
	return nil
}

// settle gives the new directory temp its mode and its name.
func settle(dir int, temp, elem string) error {
	fd, err := openat(dir, temp, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
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
	return retry(func() error { return unix.Renameat(dir, temp, dir, elem) })
}

// forceDirMode undoes what the umask or a default ACL made of dirMode. It keeps a
// set-group-ID bit, which a directory inherits.
func forceDirMode(fd int) error {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	if st.Mode&0o777 == dirMode {
		return nil
	}
	mode := st.Mode&0o7000 | dirMode
	// The directory may be unreadable to its maker, so that only O_PATH gets a
	// descriptor of it, which fchmod refuses.
	if err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH); err == nil {
		return nil
	}
	return retry(func() error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode) })
}

// syncDir makes the entries of dir, an O_PATH descriptor, durable.
func syncDir(dir int) error {
	fd, err := openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return retry(func() error { return unix.Fsync(fd) })
}
