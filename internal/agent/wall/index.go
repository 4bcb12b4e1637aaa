//go:build linux

package wall

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/gitindex"
)

const (
	// maxIndexes bounds how many indexes are looked at after each command.
	maxIndexes = 64
	// maxLinks bounds how many gitlinks of an index are known at a time. Of one that has
	// had more its own path is told instead.
	maxLinks = 4 * gitindex.MaxLinks
	// unmapped is after how long an index is read again that seems unchanged: what is
	// written to a mapped file may show in no time of its change.
	unmapped = 10 * time.Second
)

// index is the index of a repository, which commands write and programs outside trust.
type index struct {
	path, tree string // absolute
	ours       string // why it could not be read at the start: a person's own affair

	version version // when it was last read
	settled bool    // then a change of it shows in its version
	read    time.Time
	found   gitindex.Index
	links   map[string]bool // were there at the start, or have been told of
	full    version         // the last one with a link for which there was no room
}

// version tells a file from another one, and from itself after a change.
type version struct {
	state
	size     int64
	modified unix.Timespec
}

// addIndexes watches indexes, each given as its path and that of its work tree.
func (w *watch) addIndexes(pairs [][2]string) {
	for _, pair := range pairs {
		x := &index{path: pair[0], tree: pair[1], links: map[string]bool{}}
		x.lookAgain(false)
		x.ours = x.found.Unread
		for _, link := range x.found.Links {
			x.links[link] = true
		}
		if x.found.Astray != "" {
			w.seen = append(w.seen, x.path)
		}
		w.indexes = append(w.indexes, x)
	}
}

// lookIn notes what is to be told of an index: its own path, once for each version that leads
// git astray or of which that is not known, and the repositories that its new gitlinks lead
// to. It reads it if it may have changed, or in any case.
func (w *watch) lookIn(x *index, anyway bool) {
	if x.lookAgain(anyway) && (x.found.Astray != "" || x.found.Unread != "" && x.found.Unread != x.ours) {
		w.tellOf(x)
	}
	if !slices.ContainsFunc(x.found.Links, func(link string) bool { return !x.links[link] }) {
		return
	}
	for _, link := range x.found.Links {
		repository := filepath.Join(x.tree, link, ".git")
		if x.links[link] || missing(repository) {
			continue
		}
		if len(x.links) >= maxLinks {
			if x.full != x.version {
				x.full = x.version
				w.tellOf(x)
			}
			break
		}
		x.links[link] = true
		w.seen = append(w.seen, repository)
	}
}

// tellOf has the path of an index told, unless it is about to be.
func (w *watch) tellOf(x *index) {
	if !slices.Contains(w.seen, x.path) {
		w.seen = append(w.seen, x.path)
	}
}

// lookAgain reads an index if it may have changed, or in any case, and reports whether there
// is another one than before.
func (x *index) lookAgain(anyway bool) bool {
	var st unix.Stat_t
	now := time.Now()
	err := unix.Lstat(x.path, &st)
	if absent(err) {
		x.version, x.settled, x.found = version{}, false, gitindex.Index{}
		return false
	}
	var is version
	if err == nil {
		is = version{state{st.Dev, st.Ino, st.Ctim}, st.Size, st.Mtim}
	}
	same := is == x.version
	if same && x.settled && !anyway && now.Sub(x.read) < unmapped {
		return false
	}
	before := x.found
	x.version, x.settled, x.read = is, err == nil && now.Sub(time.Unix(st.Ctim.Unix())) > settling, now
	x.found, err = gitindex.Read(x.path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // gone since
	case err != nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
		x.found.Unread = "no regular file"
	case err != nil:
		x.found.Unread = "cannot be read"
	}
	return !same || x.found.Astray != before.Astray || x.found.Unread != before.Unread
}

// splitIndex returns what INDEX:WORKTREE may mean: it is more than one pair where a directory
// has a name that ends in a colon, and then all are watched.
func splitIndex(text string) [][2]string {
	var pairs [][2]string
	for i := range text {
		if i > 0 && text[0] == '/' && strings.HasPrefix(text[i:], ":/") {
			pairs = append(pairs, [2]string{filepath.Clean(text[:i]), filepath.Clean(text[i+1:])})
		}
	}
	return pairs
}
