package watch

import (
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
)

// take tells what an event means.
func (w *watcher) take(e event) {
	d := w.dirs[e.wd]
	switch {
	case e.mask == 0:
	case e.is(unix.IN_Q_OVERFLOW):
		w.lookBeside()
		if w.top == nil {
			w.out.Lose()
		} else {
			w.readAgain()
		}
	case e.wd == w.parent:
		w.takeBeside(e)
	case d == nil:
	case e.is(unix.IN_IGNORED):
		delete(w.dirs, e.wd)
		d.wd = -1
		w.gone = w.gone || d == w.top
	case e.is(unix.IN_UNMOUNT):
		w.lost = true // what the mount covered shows
	case e.name == "" && d != w.top:
	case e.name == "" && e.is(unix.IN_ATTRIB):
		w.tell(files.WatchMode, ".", true)
	case e.name == "":
		w.gone = w.gone || e.is(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF)
	default:
		w.takeEntry(d, e)
	}
}

// takeEntry tells what an event means for an entry of d.
func (w *watcher) takeEntry(d *dir, e event) {
	switch {
	case e.is(unix.IN_CREATE):
		w.appeared(d, e, true)
	case e.is(unix.IN_MOVED_TO):
		w.appeared(d, e, false)
	case e.is(unix.IN_DELETE):
		w.vanished(d, e)
	case e.is(unix.IN_MOVED_FROM):
		w.moved(d, e)
	default:
		path, _, ok := w.admit(d, e.name, e.isDir())
		switch {
		case !ok:
		case !e.is(unix.IN_ATTRIB):
			w.tell(files.WatchWritten, path, false)
		default:
			w.tell(files.WatchMode, path, e.isDir())
			if e.isDir() && d.children[e.name] == nil {
				w.adopt(d, e.name) // it may be read from now on
			}
		}
	}
}

// appeared tells of a new entry; made: it was made here and not moved, so that a listing
// has found just that if anything. Whether a directory is the same is found out by adopt.
func (w *watcher) appeared(d *dir, e event, made bool) {
	path, _, ok := w.admit(d, e.name, e.isDir())
	if !ok {
		return
	}
	at := spot{d, e.name}
	if _, told := w.fresh[at]; !told || !made && !e.isDir() {
		w.tell(files.WatchCreated, path, e.isDir())
	}
	delete(w.fresh, at)
	if e.isDir() {
		w.adopt(d, e.name)
	}
}

// vanished tells that an entry is gone.
func (w *watcher) vanished(d *dir, e event) {
	delete(w.fresh, spot{d, e.name})
	if c := d.children[e.name]; c != nil {
		w.drop(c)
	}
	if path, _, ok := w.admit(d, e.name, e.isDir()); ok {
		w.tell(files.WatchRemoved, path, e.isDir())
	}
}

// look tells of an entry if it is there.
func (w *watcher) look(d *dir, name string) {
	if d.dropped {
		return
	}
	fd, ok := w.reach(d)
	if !ok {
		return
	}
	defer unix.Close(fd)
	st, err := sys.Lstat(fd, name)
	if err != nil {
		w.refuse(d, err)
		return
	}
	isDir := sys.IsType(&st, unix.S_IFDIR)
	w.find(d, name, isDir)
	if isDir && w.o.Recursive {
		w.attach(d, fd, name)
		w.scanAll()
	}
}

// moved tells of a rename, of which e is the first end.
func (w *watcher) moved(d *dir, e event) {
	at, ok := w.pair(e)
	var into *dir
	if ok {
		into = w.dirs[w.events[at].wd]
	}
	if into == nil {
		w.vanished(d, e)
		w.look(d, e.name) // it may have been exchanged for something from elsewhere
		return
	}
	to := w.events[at]
	w.events[at].mask = 0
	if w.exchanged(e, to, at) {
		w.vanished(d, e)
		w.vanished(into, to)
		w.look(d, e.name)
		w.look(into, to.name)
		return
	}
	oldPath, _, told := w.admit(d, e.name, e.isDir())
	newPath, _, tell := w.admit(into, to.name, e.isDir())
	if !told || !tell || e.isDir() && w.o.Filter != nil {
		w.vanished(d, e)
		w.appeared(into, to, false)
		return
	}
	delete(w.fresh, spot{d, e.name})
	delete(w.fresh, spot{into, to.name})
	c := d.children[e.name]
	if c != nil && into.within(c) {
		w.lost = true // what is known is not what was
		return
	}
	if over := into.children[to.name]; over != nil && over != c {
		w.drop(over)
	}
	if c != nil {
		w.reattach(c, into, to.name)
	}
	w.out.Put(files.WatchEvent{Kind: files.WatchRenamed, OldPath: oldPath, Path: newPath, Dir: e.isDir()})
	if e.isDir() {
		w.adopt(into, to.name) // which finds out if it is another one
	}
}

func (w *watcher) reattach(c, into *dir, name string) {
	delete(c.parent.children, c.name)
	c.parent, c.name = into, name
	if into.children == nil {
		into.children = map[string]*dir{}
	}
	into.children[name] = c
}

// lookBeside finds out whether what is watched is gone, of which the queue may have had no
// room to tell.
func (w *watcher) lookBeside() {
	if w.parent < 0 {
		return // it is looked at now and then
	}
	st, err := sys.Lstat(w.place.Dir, w.place.Base)
	w.gone = w.gone || err == unix.ENOENT || err == nil && w.top != nil && !sys.SameFile(&st, &w.inode)
}

// takeBeside takes an event of the directory that holds what is watched.
func (w *watcher) takeBeside(e event) {
	if e.name != w.place.Base {
		return
	}
	left := e.is(unix.IN_DELETE | unix.IN_MOVED_FROM)
	if w.top != nil {
		st, err := sys.Lstat(w.place.Dir, w.place.Base)
		w.gone = w.gone || left && (err != nil || !sys.SameFile(&st, &w.inode))
		return
	}
	switch {
	case left:
		if _, err := sys.Lstat(w.place.Dir, w.place.Base); err != nil {
			w.gone = true
			return
		}
		w.tell(files.WatchRemoved, ".", e.isDir())
	case e.is(unix.IN_CREATE | unix.IN_MOVED_TO):
		w.tell(files.WatchCreated, ".", e.isDir())
	case e.is(unix.IN_ATTRIB):
		w.tell(files.WatchMode, ".", e.isDir())
	default:
		w.tell(files.WatchWritten, ".", false)
	}
}
