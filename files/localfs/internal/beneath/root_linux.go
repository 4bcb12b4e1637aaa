package beneath

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/internal/openat2"
	"github.com/berth-dev/berth/spec"
)

// Root is a directory that paths keep to. It is held open: what happens to its name
// later changes nothing.
type Root struct {
	// WalkOnly leaves openat2 out, as on a kernel that does not know it.
	WalkOnly bool

	fd     int  // O_PATH
	strict bool // no link is followed
	// spellings are the elements of its path, as given and as it is.
	spellings [][]string
}

// ErrOutside refuses what does not lie below the root. It is a *spec.Error with
// CodeInvalidPath.
var ErrOutside error = spec.New(spec.CodeInvalidPath, "it leads out of the workspace root")

// ErrLink refuses a link where none is followed. It is a *spec.Error with
// CodeNotDirectory.
var ErrLink error = spec.New(spec.CodeNotDirectory, "a symbolic link stands in the way")

// Mkdir makes the directory name in dir, or returns why not as an errno.
type Mkdir func(dir int, name string) error

// New opens the directory at an absolute path.
func New(dir string) (*Root, error) {
	fd, err := sys.Openat(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	r := &Root{fd: fd, spellings: [][]string{elements(path.Clean(dir))}}
	if real, err := sys.Readlink(unix.AT_FDCWD, sys.ProcPath(fd)); err == nil && strings.HasPrefix(real, "/") {
		r.spellings = append(r.spellings, elements(real))
	}
	return r, nil
}

// NewStrict returns a Root of the directory dir, an O_PATH descriptor that it owns. Its
// paths are absolute as if the directory were the root of everything, and lead through no
// link.
func NewStrict(dir int) *Root { return &Root{fd: dir, strict: true, spellings: [][]string{nil}} }

// Close lets go of the directory.
func (r *Root) Close() error { return os.NewSyscallError("close", unix.Close(r.fd)) }

// elements are those of a path that mean something.
func elements(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(e string) bool { return e == "" || e == "." })
}

// Below returns what follows the root in an absolute path, with a slash in front, if
// the path lies below it by its text.
func (r *Root) Below(abs string) (string, bool) {
	for _, spelling := range r.spellings {
		rest, ok := abs, true
		for _, want := range spelling {
			var elem string
			if elem, rest = cutElement(rest); elem != want {
				ok = false
				break
			}
		}
		if ok {
			return "/" + strings.TrimLeft(rest, "/"), staysBelow(rest)
		}
	}
	return "", false
}

// cutElement returns the first element of a path and what follows it.
func cutElement(p string) (elem, rest string) {
	for {
		p = strings.TrimLeft(p, "/")
		if elem, rest = p, ""; strings.Contains(p, "/") {
			i := strings.IndexByte(p, '/')
			elem, rest = p[:i], p[i:]
		}
		if elem != "." {
			return elem, rest
		}
		p = rest
	}
}

// staysBelow reports whether a path never climbs above where it begins, by its text.
func staysBelow(p string) bool {
	depth := 0
	for _, elem := range elements(p) {
		if elem != ".." {
			depth++
		} else if depth--; depth < 0 {
			return false
		}
	}
	return true
}

// Open opens a path that begins at the root and never leaves it; where flags ask for a
// directory, mkdir, if set, makes those that are missing. The kernel does it at once where it can; it refuses absolute links, makes no directories and tells a
// dangling link from a missing file badly, so that all else is done step by step.
func (r *Root) Open(p string, flags int, mkdir Mkdir) (int, error) {
	rel := strings.TrimLeft(p, "/")
	if rel == "" {
		rel = "."
	}
	if !r.WalkOnly {
		fd, err := r.openBeneath(rel, flags)
		switch err {
		case unix.EXDEV, unix.EAGAIN, unix.ENOSYS, unix.EPERM, unix.ELOOP:
		case unix.ENOENT:
			if flags&unix.O_DIRECTORY == 0 {
				return -1, err
			}
		default:
			return fd, err
		}
	}
	for range maxRaces {
		fd, err := r.walk(rel, flags, mkdir)
		if err != errMoved { //nolint:errorlint // the bare sentinel
			return fd, err
		}
	}
	return -1, unix.EBUSY
}

func (r *Root) openBeneath(rel string, flags int) (fd int, err error) {
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NOCTTY
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	if r.strict {
		how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	err = sys.Retry(func() error {
		fd, err = openat2.Open(r.fd, rel, &how)
		return err
	})
	return fd, err
}

// maxRaces is how often a path is followed again after somebody changed it under way.
const maxRaces = 16

// errMoved says that somebody changed what a walk had just looked at.
var errMoved = errors.New("a directory changed while a path was followed")
