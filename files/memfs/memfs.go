// Package memfs is files.FS in memory: the reference implementation, which says in
// a few hundred lines what the contract means, and a stand-in for a place's files
// in tests. It knows no owners and refuses nothing for lack of permission.
//
// Links, FIFOs and devices, which the contract cannot make, are made by Symlink,
// Mkfifo and Mkdev; OpenFile changes a file in place, as programs do.
package memfs

import (
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// FS is a file tree of its own. It is safe for concurrent use.
type FS struct {
	workdir string

	mu      *sync.RWMutex // of the tree, also where it is seen from another root
	root    *node
	strict  bool // no link in a name is followed, and nothing leads above root
	watches map[*watch]struct{}
}

var _ files.FS = (*FS)(nil)

// New returns an FS that holds nothing but workdir, an absolute path: relative
// names begin there. An empty workdir means "/".
func New(workdir string) *FS {
	f := &FS{workdir: path.Join("/", workdir), mu: &sync.RWMutex{}, root: newDir(), watches: map[*watch]struct{}{}}
	f.root.parent = f.root
	if _, err := f.directory(f.workdir, true); err != nil {
		panic("memfs: " + err.Error()) // only a path that is no path
	}
	return f
}

// node is one file. A Write makes another node, so that whoever reads sees one or the
// other; only a Handle changes what a node holds, and never bytes that a reader has.
type node struct {
	mode    fs.FileMode
	modTime time.Time
	data    []byte           // of a regular file
	grower  *node            // the one node that may append to data without copying it
	target  string           // of a link
	entries map[string]*node // of a directory
	parent  *node            // the directory that it is in; the root is its own; nil: none
	name    string           // in parent
}

func newDir() *node {
	return &node{mode: fs.ModeDir | 0o755, modTime: time.Now(), entries: map[string]*node{}}
}

func (n *node) isDir() bool  { return n.mode.IsDir() }
func (n *node) isLink() bool { return n.mode.Type() == fs.ModeSymlink }

// link makes name lead to child.
func (n *node) link(name string, child *node) {
	n.entries[name] = child
	n.modTime = time.Now()
	child.parent, child.name = n, name
}

// unlink makes the entry of n lead nowhere.
func (n *node) unlink() {
	delete(n.parent.entries, n.name)
	n.parent.modTime = time.Now()
	n.parent, n.name = nil, ""
}

// set makes name in dir lead to child, which is new.
func (f *FS) set(dir *node, name string, child *node) {
	f.unset(dir, name)
	dir.link(name, child)
	f.tell(files.WatchCreated, child)
}

// unset takes away what name in dir leads to, if there is something, for something else.
func (f *FS) unset(dir *node, name string) {
	if over := dir.entries[name]; over != nil {
		f.lose(over)
		over.unlink()
	}
}

func (n *node) info(name string) files.Info {
	info := files.Info{Name: name, Size: int64(len(n.data)), Mode: n.mode, ModTime: n.modTime, Links: 1, Target: n.target}
	if n.isLink() {
		info.Size = int64(len(n.target))
	}
	return info
}

// Symlink makes name a symbolic link to target. An existing name is CodeExists.
func (f *FS) Symlink(target, name string) error {
	return f.special(name, &node{mode: fs.ModeSymlink | 0o777, modTime: time.Now(), target: target})
}

// Mkfifo makes name a FIFO. An existing name is CodeExists.
func (f *FS) Mkfifo(name string) error {
	return f.special(name, &node{mode: fs.ModeNamedPipe | 0o644, modTime: time.Now()})
}

func (f *FS) special(name string, n *node) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.entry(name)
	if err != nil {
		return fail(name, err)
	}
	if p.node != nil {
		return fail(name, errCode(spec.CodeExists))
	}
	f.set(p.dir, p.base, n)
	return nil
}
