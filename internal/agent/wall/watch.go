//go:build linux

package wall

import (
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/wire"
)

const (
	// maxTold and maxToldBytes bound what is told at a time; the rest is told with
	// the next command.
	maxTold      = 64
	maxToldBytes = 16 << 10
)

// watch looks for paths that did not exist, and into the indexes of repositories. It opens
// nothing else and never follows the last link of a path; links on the way it follows, as
// every program would.
//
// It looks after every command, so it is not to look at every path: nothing has been made
// in a directory that has not changed.
type watch struct {
	mu      sync.Mutex
	tops    []*node // directories that existed at the start
	indexes []*index
	seen    []string // have appeared, and are still to be told
}

// node is a path, with those of interest below it.
type node struct {
	path    string
	watched bool // to be told of when it appears
	below   []*node
	there   bool  // it was there when it was last looked at
	state   state // as it was then; zero: it may change without a sign of it
}

// state tells a directory from another one, and from itself after a change. A command
// cannot set the time of the last change.
type state struct {
	dev, ino uint64
	changed  unix.Timespec
}

// settling is how long a directory may change without another time of its change: file
// systems count in steps.
const settling = 2 * time.Second

// add watches for paths, but not for those that exist already or cannot be looked at.
func (w *watch) add(paths []string) {
	nodes := map[string]*node{}
	var reach func(path string) *node // returns the node of path, which is in the tree
	reach = func(path string) *node {
		n := nodes[path]
		if n != nil {
			return n
		}
		n = &node{path: path}
		nodes[path] = n
		if !missing(path) {
			w.tops = append(w.tops, n)
		} else {
			above := reach(filepath.Dir(path))
			above.below = append(above.below, n)
		}
		return n
	}
	for _, path := range paths {
		if missing(path) {
			reach(path).watched = true
		}
	}
}

// appeared returns what exists by now, each path once, and the indexes that lead astray. It
// reads an index if it may have changed, or all of them.
func (w *watch) appeared(readAll bool) []wire.Bytes {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tops = slices.DeleteFunc(w.tops, w.look)
	for _, x := range w.indexes {
		w.lookIn(x, readAll)
	}
	var told []wire.Bytes
	for size := 0; len(w.seen) > 0 && len(told) < maxTold; w.seen = w.seen[1:] {
		if size += len(w.seen[0]); size > maxToldBytes {
			break
		}
		told = append(told, wire.Bytes(w.seen[0]))
	}
	return told
}

// look notes what has appeared at n and below it, and reports whether nothing of it is
// still to come.
func (w *watch) look(n *node) (over bool) {
	var st unix.Stat_t
	now := time.Now()
	err := unix.Lstat(n.path, &st)
	if absent(err) {
		n.there = false
		return false
	}
	if n.watched {
		n.watched = false
		w.seen = append(w.seen, n.path)
	}
	var is state
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && now.Sub(time.Unix(st.Ctim.Unix())) > settling {
		is = state{st.Dev, st.Ino, st.Ctim}
	}
	same := n.there && is != state{} && is == n.state
	n.there, n.state = true, is
	n.below = slices.DeleteFunc(n.below, func(b *node) bool { return (b.there || !same) && w.look(b) })
	return len(n.below) == 0
}

// missing reports whether a path surely does not exist.
func missing(path string) bool {
	var st unix.Stat_t
	return absent(unix.Lstat(path, &st))
}

// absent reports whether an error of lstat says that nothing is there. Any other may mean
// that a command has closed to itself what is open to others.
func absent(err error) bool { return err == unix.ENOENT || err == unix.ENOTDIR }
