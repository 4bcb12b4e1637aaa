package beneath

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files/localfs/internal/sys"
)

// maxLinks is how many links a path may lead through, as in the kernel.
const maxLinks = 40

// walker follows one path, element by element, without ever letting the kernel
// follow a link.
type walker struct {
	root  *Root
	flags int
	mkdir Mkdir
	dir   int       // O_PATH, its own; where it stands
	names []string  // from the root to dir, all of them directories
	rest  []element // still to go
	links int
	found int // what was opened at the end; -1 before
}

// element is one of a path; linked: it comes out of a link.
type element struct {
	name   string
	linked bool
	made   int // how often it was made and was missing again
}

// walk opens rel as the kernel would, were the root the root of everything but that
// nothing leads above it.
func (r *Root) walk(rel string, flags int, mkdir Mkdir) (int, error) {
	w := &walker{root: r, flags: flags, mkdir: mkdir, found: -1}
	w.push(rel, false)
	var err error
	if w.dir, err = r.top(); err != nil {
		return -1, err
	}
	defer func() { unix.Close(w.dir) }()
	for len(w.rest) > 0 && w.found < 0 {
		e := w.rest[0]
		w.rest = w.rest[1:]
		switch e.name {
		case "", ".":
		case "..":
			err = w.up()
		default:
			err = w.enter(e)
		}
		if err != nil {
			return -1, err
		}
	}
	if w.found >= 0 {
		return w.found, nil
	}
	return sys.Openat(w.dir, ".", flags&^unix.O_NOFOLLOW, 0)
}

// top opens the root once more.
func (r *Root) top() (int, error) {
	return sys.Openat(r.fd, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
}

// push puts the elements of a path before what is still to go.
func (w *walker) push(p string, linked bool) {
	var front []element
	for name := range strings.SplitSeq(p, "/") {
		front = append(front, element{name: name, linked: linked})
	}
	w.rest = append(front, w.rest...)
}

// up goes to the directory above, which is found from the root again: what ".."
// leads to may have been moved out of it.
func (w *walker) up() error {
	if len(w.names) == 0 {
		return ErrOutside
	}
	w.names = w.names[:len(w.names)-1]
	dir, err := w.root.top()
	if err != nil {
		return err
	}
	for _, name := range w.names {
		next, err := sys.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		unix.Close(dir)
		if err != nil {
			return errMoved
		}
		dir = next
	}
	w.stand(dir)
	return nil
}

func (w *walker) stand(dir int) {
	unix.Close(w.dir)
	w.dir = dir
}

// enter goes one element on: into a directory, through a link, or to the end.
func (w *walker) enter(e element) error {
	fd, err := sys.Openat(w.dir, e.name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	last := len(w.rest) == 0
	if err == unix.ENOENT {
		return w.missing(e, last)
	}
	if err != nil {
		return err
	}
	st, err := sys.Lstat(fd, "")
	switch {
	case err != nil:
	case sys.IsType(&st, unix.S_IFLNK) && last && w.flags&unix.O_NOFOLLOW != 0:
		return w.arriveAtLink(fd)
	case sys.IsType(&st, unix.S_IFLNK):
		err = w.follow(fd)
	case last:
		return w.arrive(fd, e, sys.IsType(&st, unix.S_IFDIR))
	case sys.IsType(&st, unix.S_IFDIR):
		w.names = append(w.names, e.name)
		w.stand(fd)
		return nil
	default:
		err = unix.ENOTDIR
	}
	unix.Close(fd)
	return err
}

// missing makes the directory that is missing, or says that it is.
func (w *walker) missing(e element, last bool) error {
	switch {
	case e.linked && (!last || w.flags&unix.O_DIRECTORY != 0):
		return unix.ENOTDIR // a dangling link
	case e.linked || w.mkdir == nil:
		return unix.ENOENT
	}
	if err := w.mkdir(w.dir, e.name); err != nil && err != unix.EEXIST {
		return err
	}
	if e.made++; e.made > maxRaces {
		return unix.EBUSY
	}
	w.rest = append([]element{e}, w.rest...)
	return nil
}

// follow goes where the link fd points to, if that is below the root.
func (w *walker) follow(fd int) error {
	if w.root.strict {
		return ErrLink
	}
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	to, err := sys.Readlink(fd, "")
	if err != nil {
		return err
	}
	if strings.HasPrefix(to, "/") {
		below, ok := w.root.Below(to)
		if !ok {
			return ErrOutside
		}
		top, err := w.root.top()
		if err != nil {
			return err
		}
		w.names = nil
		w.stand(top)
		to = below
	}
	w.push(to, true)
	return nil
}

// arriveAtLink ends at a link that is not to be followed.
func (w *walker) arriveAtLink(fd int) error {
	if w.flags&unix.O_DIRECTORY == 0 && w.flags&unix.O_PATH != 0 {
		w.found = fd
		return nil
	}
	unix.Close(fd)
	if w.flags&unix.O_DIRECTORY != 0 {
		return unix.ENOTDIR
	}
	return unix.ELOOP
}

// arrive ends at fd, an O_PATH descriptor of e.
func (w *walker) arrive(fd int, e element, isDir bool) error {
	switch {
	case !isDir && w.flags&unix.O_DIRECTORY != 0:
		unix.Close(fd)
		return unix.ENOTDIR
	case w.flags&unix.O_PATH != 0:
		w.found = fd
		return nil
	}
	defer unix.Close(fd)
	var err error
	if isDir {
		w.found, err = sys.Openat(fd, ".", w.flags&^unix.O_NOFOLLOW, 0)
	} else if w.found, err = sys.Openat(w.dir, e.name, w.flags|unix.O_NOFOLLOW, 0); err == unix.ELOOP {
		err = errMoved // it has become a link
	}
	return err
}
