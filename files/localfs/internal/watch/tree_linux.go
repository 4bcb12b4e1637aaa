package watch

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/beneath"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// dir is a directory that is watched.
type dir struct {
	wd       int32
	parent   *dir // nil at the top
	name     string
	children map[string]*dir // that are watched
	filter   files.Filter
	dropped  bool // it is not watched any more, nor is anything below
	missed   bool // it is among those to be looked at later
	short    bool // it is among those that something was refused for
}

// spot is an entry of a directory.
type spot struct {
	in   *dir
	name string
}

// path is the path of an entry from the top; "": of the directory itself.
func (d *dir) path(name string) string {
	if d.parent == nil {
		return name
	}
	size, depth := len(name), 0
	for at := d; at.parent != nil; at = at.parent {
		size += len(at.name) + 1
		depth++
	}
	elements := make([]string, depth, depth+1)
	for at := d; at.parent != nil; at = at.parent {
		depth--
		elements[depth] = at.name
	}
	if name != "" {
		elements = append(elements, name)
	}
	return strings.Join(elements, "/")
}

// within reports whether d is top or lies below it.
func (d *dir) within(top *dir) bool {
	for ; d != nil; d = d.parent {
		if d == top {
			return true
		}
	}
	return false
}

// add watches what an O_PATH descriptor stands for. The name by which the kernel is told
// leads to that alone.
func (w *watcher) add(fd int, mask uint32) (int32, error) {
	wd := -1
	err := sys.Retry(func() (err error) {
		wd, err = unix.InotifyAddWatch(w.fd, sys.ProcPath(fd), mask)
		return err
	})
	return int32(wd), err
}

// errElsewhere says that a directory is not where it was thought to be.
var errElsewhere = errors.New("the directory is elsewhere")

// open returns an O_PATH descriptor of a directory that is watched.
func (w *watcher) open(d *dir) (int, error) {
	fd, err := w.root.Open("/"+d.path(""), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, nil)
	if err != nil || d == w.top {
		return fd, err
	}
	// Who else lies there now would be watched by this, and is found in due time. The
	// one that is meant needs no room for a new watch.
	wd, err := w.add(fd, dirMask)
	switch {
	case err == unix.ENOSPC:
		err = errElsewhere
	case err == nil && wd != d.wd:
		w.release(wd)
		err = errElsewhere
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// reach is open for a directory that is looked at again later where it cannot be reached.
func (w *watcher) reach(d *dir) (int, bool) {
	fd, err := w.open(d)
	switch {
	case err == nil || d.dropped:
	case err == unix.ENAMETOOLONG:
		w.unnamed() // and so is all that is in it
	case err != errElsewhere && err != beneath.ErrLink && err != unix.EBUSY && !passes(err): //nolint:errorlint // bare ones
		w.refuse(d, err)
	case w.again:
		w.owe(d) // not only what is there is to be told then
	case !d.missed:
		d.missed = true
		w.later = append(w.later, d)
	}
	return fd, err == nil
}

// passes reports whether err says that a directory is gone, is none any more, or may not be
// read. An event says when that changes.
func passes(err error) bool {
	return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP || err == unix.EACCES
}

// exhausted reports whether err says that something has run out, which all directories
// need.
func exhausted(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno) && (errno == unix.ENOSPC || errno == unix.EMFILE || errno == unix.ENFILE || errno == unix.ENOMEM)
}

func (w *watcher) forget(wd int32) { _, _ = unix.InotifyRmWatch(w.fd, uint32(wd)) }

// release is forget for a watch that may be one of those that are known.
func (w *watcher) release(wd int32) {
	if w.dirs[wd] == nil && wd != w.parent {
		w.forget(wd)
	}
}

// drop watches d and what is below it no more.
func (w *watcher) drop(d *dir) {
	if d.parent != nil && d.parent.children[d.name] == d {
		delete(d.parent.children, d.name)
	}
	d.dropped = true
	if w.dirs[d.wd] == d {
		delete(w.dirs, d.wd)
		w.forget(d.wd)
	}
	for _, c := range d.children {
		w.drop(c)
	}
}

// admit returns what an entry is called, and its Filter if it is a directory; !ok: it is
// not told of.
func (w *watcher) admit(d *dir, name string, isDir bool) (path string, below files.Filter, ok bool) {
	if w.o.Hidden(name) {
		return "", below, false
	}
	path = d.path(name)
	below, skip := d.filter.Step(path, isDir)
	if !skip && len(path) > spec.MaxPathBytes {
		w.unnamed()
		return "", below, false
	}
	return path, below, !skip
}

// unnamed notes that there is something whose name is too long to be told.
func (w *watcher) unnamed() {
	if !w.again {
		w.long = true
	}
}

// adopt watches the directory that is an entry of d.
func (w *watcher) adopt(d *dir, name string) {
	if !w.o.Recursive || d.dropped {
		return
	}
	if fd, ok := w.reach(d); ok {
		defer unix.Close(fd)
		w.attach(d, fd, name)
		w.scanAll()
	}
}

// attach watches the directory that is an entry of d, whose descriptor is fd.
func (w *watcher) attach(d *dir, fd int, name string) {
	path, filter, ok := w.admit(d, name, true)
	if !ok {
		return
	}
	sub, err := sys.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		w.refuse(d, err)
		return
	}
	defer unix.Close(sub)
	wd, err := w.add(sub, dirMask)
	if known := w.dirs[wd]; err == nil && known != nil {
		if known == d.children[name] {
			return
		}
		if d.within(known) {
			w.lost = true // what is known of the tree is not what it is
			return
		}
		// It was moved here, of which the queue will tell. What it holds is told now.
		w.tell(files.WatchRemoved, known.path(""), true)
		w.drop(known)
		wd, err = w.add(sub, dirMask)
	}
	if err != nil {
		w.refuse(d, err)
		return
	}
	if err := filter.Load(path); err != nil {
		w.refuse(d, err)
		if spec.CodeOf(err) != spec.CodeTooLarge { // then it counts for nothing
			w.release(wd)
			return
		}
	}
	if other := d.children[name]; other != nil {
		w.drop(other)
		w.tell(files.WatchRemoved, path, true)
		w.tell(files.WatchCreated, path, true)
	}
	c := &dir{wd: wd, parent: d, name: name, filter: filter}
	w.dirs[wd] = c
	w.attached++
	if d.children == nil {
		d.children = map[string]*dir{}
	}
	d.children[name] = c
	w.scans = append(w.scans, c)
}

// refuse notes that something in d could not be watched or read. It is tried again, and
// until then there may be what is not told. What has vanished, and what may not be read, is
// passed over, as by a search.
func (w *watcher) refuse(d *dir, err error) {
	var errno unix.Errno
	switch {
	case passes(err):
		return
	case !w.ready && (exhausted(err) || !errors.As(err, &errno)):
		w.refused = err
		return
	case spec.CodeOf(err) != spec.CodeTooLarge:
		w.owe(d)
	}
	w.spent = w.spent || exhausted(err)
	if !w.again {
		w.out.Lose()
	}
}

// owe notes that d is to be looked at again.
func (w *watcher) owe(d *dir) {
	if !d.short {
		d.short = true
		w.short = append(w.short, d)
	}
}

// scanAll lists the directories that are to be, and those that are found in them.
func (w *watcher) scanAll() {
	for len(w.scans) > 0 && w.ctx.Err() == nil && w.refused == nil {
		last := len(w.scans) - 1
		d := w.scans[last]
		w.scans = w.scans[:last]
		if !d.dropped {
			w.scan(d)
		}
	}
}

// maxFresh is how many entries are kept from being told twice.
const maxFresh = 65_536

// scan tells what is in a directory, unless listings are quiet, and watches the
// directories. It returns their names.
func (w *watcher) scan(d *dir) (found map[string]bool, ok bool) {
	fd, ok := w.reach(d)
	if !ok {
		return nil, false
	}
	defer unix.Close(fd)
	list, err := sys.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		w.refuse(d, err)
		return nil, false
	}
	defer unix.Close(list)
	found = map[string]bool{}
	err = sys.Entries(list, func(name string, kind fs.FileMode) error {
		if kind == fs.ModeIrregular {
			st, err := sys.Lstat(list, name)
			if err == nil {
				kind = sys.FileMode(st.Mode).Type()
			} else {
				w.refuse(d, err)
			}
		}
		if !w.quiet {
			w.find(d, name, kind.IsDir())
		}
		if kind.IsDir() && w.o.Recursive {
			found[name] = true
			if !w.again || d.children[name] == nil { // what has replaced one is told of
				w.attach(d, fd, name)
			}
		}
		if d.dropped || w.refused != nil || w.again && w.spent {
			return errElsewhere
		}
		return w.ctx.Err()
	})
	if err != nil && err != errElsewhere && w.ctx.Err() == nil { //nolint:errorlint // the bare sentinel
		w.refuse(d, err)
	}
	return found, err == nil
}

// find tells of an entry that a listing has found.
func (w *watcher) find(d *dir, name string, isDir bool) {
	path, _, ok := w.admit(d, name, isDir)
	if !ok {
		return
	}
	w.tell(files.WatchCreated, path, isDir)
	if len(w.fresh) < maxFresh {
		w.fresh[spot{d, name}] = struct{}{}
	}
}

// readAgain finds out after an overflow what directories there are, and says that
// everything is to be read.
func (w *watcher) readAgain() {
	w.quiet = true
	for todo := []*dir{w.top}; len(todo) > 0 && w.ctx.Err() == nil; {
		last := len(todo) - 1
		d := todo[last]
		todo = todo[:last]
		if d.dropped {
			continue
		}
		found, ok := w.scan(d)
		for name, c := range d.children {
			if ok && !found[name] {
				w.drop(c)
			} else {
				todo = append(todo, c)
			}
		}
		w.scans = nil // they are among the children
	}
	w.quiet = false
	w.out.Lose()
}

// retryTime is how long is waited before what was refused is tried again.
const retryTime = time.Second

// retry tries again what was refused, no more often than that. What is watched at last may
// have changed before, and so may what could not be looked at: everything is to be read.
func (w *watcher) retry() {
	if !w.owing() || time.Now().Before(w.next) {
		return
	}
	lose := w.long
	w.long = false
	again := w.short
	w.short, w.spent = nil, false
	w.quiet, w.again = true, true
	for _, d := range again {
		switch d.short = false; {
		case d.dropped:
			continue
		case w.spent: // nothing more is to be had
			w.owe(d)
			continue
		}
		before := w.attached
		w.scan(d)
		w.scanAll()
		lose = lose || !d.short || w.attached > before
	}
	w.quiet, w.again = false, false
	if lose {
		w.out.Lose()
	}
	w.next = time.Now().Add(retryTime)
}

// owing reports whether something is to be told or tried again.
func (w *watcher) owing() bool { return w.long || len(w.short) > 0 }

// tell tells of one path, unless listings are quiet.
func (w *watcher) tell(kind files.WatchKind, path string, isDir bool) {
	if !w.quiet {
		w.out.Put(files.WatchEvent{Kind: kind, Path: path, Dir: isDir})
	}
}
