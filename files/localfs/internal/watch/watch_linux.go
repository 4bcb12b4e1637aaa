package watch

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/internal/feed"
	"github.com/berth-dev/berth/files/localfs/internal/beneath"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// Place is what is watched: an entry of a directory.
type Place struct {
	// Dir is an O_PATH descriptor of the directory that holds Base. It stays the
	// caller's, who keeps it open.
	Dir int
	// Base is the entry's name. "": it is Dir itself that is watched.
	Base string
}

// Options say what is told of it.
type Options struct {
	Recursive bool
	// Filter leaves out what it says; nil: nothing. With it a directory that is renamed
	// is told as removed and created, since its name decides on what is in it.
	Filter *files.Filter
	// Hidden reports whether a name is a temporary one that is never told.
	Hidden func(name string) bool
}

// Run tells what files.Watcher promises. What ends it is an errno (ENOENT: what is watched
// is gone itself), a *spec.Error, ctx's error or tell's.
func Run(ctx context.Context, p Place, o Options, ready func(), tell func(files.WatchEvent) error) error {
	w, err := newWatcher(ctx, p, o)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.begin(); err != nil {
		return err
	}
	if ready != nil {
		ready()
	}
	w.ready = true
	var stop context.CancelFunc
	w.ctx, stop = context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.out.End(w.see())
	}()
	err = w.out.Tell(ctx, tell)
	stop()
	<-done
	return err
}

// The events that are wanted of a directory, of the one at the top beside them, and of the
// directory that holds it.
const (
	dirMask    = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
	topMask    = dirMask | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	parentMask = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_ONLYDIR
)

// watcher is one watch under way. One goroutine at a time uses it.
type watcher struct {
	ctx   context.Context // of the call that watches
	place Place
	o     Options
	out   *feed.Queue

	in  *os.File // the kernel's events
	raw syscall.RawConn
	fd  int // of in

	events []event // that have come and not been taken
	buf    []byte

	// parent is the watch of the directory that holds what is watched; -1: there is
	// none.
	parent int32
	top    *dir          // nil: no directory is watched but a file
	root   *beneath.Root // of top
	inode  unix.Stat_t   // of top
	dirs   map[int32]*dir

	fresh   map[spot]struct{} // entries that a listing has told of, and maybe the queue will
	scans   []*dir            // that are to be listed
	later   []*dir            // that could not be reached
	quiet   bool              // a listing is not told
	lost    bool              // all is to be read again
	ready   bool
	refused error // why something cannot be watched, before ready
	gone    bool  // what is watched is

	short    []*dir    // that something was refused for
	next     time.Time // before which it is not tried again
	again    bool      // it is being tried again
	spent    bool      // what all need has run out
	attached int       // how many directories have been
	long     bool      // there are names too long to be told
}

// newWatcher opens what the kernel tells by.
func newWatcher(ctx context.Context, p Place, o Options) (*watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, limited(err)
	}
	w := &watcher{
		ctx: ctx, place: p, o: o, out: feed.New(), fd: fd, in: os.NewFile(uintptr(fd), "inotify"), buf: make([]byte, 64<<10),
		parent: -1, dirs: map[int32]*dir{}, fresh: map[spot]struct{}{},
	}
	if w.raw, err = w.in.SyscallConn(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *watcher) close() {
	w.in.Close()
	if w.root != nil {
		_ = w.root.Close()
	}
}

// limited makes what the kernel says where its watches do not suffice an answer.
func limited(err error) error {
	switch err {
	case unix.ENOSPC:
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("no watch is left: %w", err), Hint: "raise fs.inotify.max_user_watches, or leave directories out"}
	case unix.EMFILE:
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("too many are watching, or too much is open: %w", err), Hint: "raise fs.inotify.max_user_instances, or the limit of open files"}
	}
	return err
}

// begin watches what there is.
func (w *watcher) begin() error {
	p := w.place
	name, flags := p.Base, unix.O_PATH|unix.O_NOFOLLOW
	if name == "" {
		name = "."
	}
	fd, err := sys.Openat(p.Dir, name, flags, 0)
	if err != nil {
		return err
	}
	w.root = beneath.NewStrict(fd)
	if w.inode, err = sys.Lstat(fd, ""); err != nil {
		return err
	}
	isDir := sys.IsType(&w.inode, unix.S_IFDIR)
	if p.Base != "" {
		mask := uint32(parentMask)
		if !isDir {
			mask = dirMask
		}
		// Of a directory that cannot be read nothing is told; then what is watched
		// is looked at now and then.
		if w.parent, err = w.add(p.Dir, mask); err != nil && (!isDir || err != unix.EACCES) {
			return limited(err)
		}
	}
	if !isDir {
		return nil
	}
	wd, err := w.add(fd, topMask)
	if err != nil {
		return limited(err)
	}
	w.top = &dir{wd: wd}
	if w.o.Filter != nil {
		w.top.filter = *w.o.Filter
	}
	w.dirs[wd] = w.top
	if !w.o.Recursive {
		return nil
	}
	w.scans = append(w.scans, w.top)
	w.quiet = true
	w.scanAll()
	w.quiet = false
	if w.refused != nil {
		return limited(w.refused)
	}
	return w.ctx.Err()
}

// see takes what the kernel tells until what is watched is gone, or ctx has ended.
func (w *watcher) see() error {
	past := time.Unix(1, 0)
	defer context.AfterFunc(w.ctx, func() { _ = w.in.SetReadDeadline(past) })()
	for {
		more, err := w.fill()
		if err == nil && !more {
			w.settle()
			_, err = w.wait(w.patience())
		}
		switch {
		case w.ctx.Err() != nil:
			return w.ctx.Err()
		case err != nil:
			return err
		}
		for len(w.events) > 0 && w.ctx.Err() == nil {
			e := w.events[0]
			w.events = w.events[1:]
			w.take(e)
		}
		w.retry() // which may be due while there is no end of events
		if w.gone || w.unlinked() {
			w.out.Put(files.WatchEvent{Kind: files.WatchRemoved, Path: ".", Dir: w.top != nil})
			return unix.ENOENT
		}
	}
}

// patience is how long the kernel is waited for; 0: for ever. That a directory is gone is
// told by the one that holds it. Where that is not watched the watch itself, which holds
// the directory open, keeps the kernel from telling.
func (w *watcher) patience() time.Duration {
	if w.parent < 0 || w.owing() {
		return retryTime
	}
	return 0
}

func (w *watcher) unlinked() bool {
	if w.parent >= 0 {
		return false
	}
	fd, err := w.root.Open("/", unix.O_PATH, nil)
	if err != nil {
		return !exhausted(err)
	}
	defer unix.Close(fd)
	st, err := sys.Lstat(fd, "")
	return err == nil && st.Nlink == 0
}

// settle is called when all that the kernel has told has been taken.
func (w *watcher) settle() {
	clear(w.fresh)
	if w.lost {
		w.lost = false
		w.readAgain()
	}
	again := w.later
	w.later = nil
	for _, d := range again {
		d.missed = false
		w.scans = append(w.scans, d)
	}
	w.scanAll()
	w.retry()
}
