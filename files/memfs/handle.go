package memfs

import (
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Handle is a regular file that is open to be read and changed in place, which the
// contract has not and the programs of a place need. It stays what it is when its
// name is given to another file. It is safe for concurrent use and holds nothing
// that has to be closed.
type Handle struct {
	f *FS
	n *node
}

// OpenFile opens a regular file, following links. Of flag it honours os.O_CREATE,
// which makes a missing file with mode perm, os.O_EXCL and os.O_TRUNC.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (*Handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.openable(name, flag, perm)
	if err != nil {
		return nil, fail(name, err)
	}
	if flag&os.O_TRUNC != 0 && len(n.data) > 0 {
		n.data, n.modTime = nil, time.Now()
		f.tell(files.WatchWritten, n)
	}
	return &Handle{f, n}, nil
}

func (f *FS) openable(name string, flag int, perm fs.FileMode) (*node, error) {
	n, err := f.existing(name, flag&os.O_EXCL == 0)
	switch {
	case err == errCode(spec.CodeFileNotFound) && flag&os.O_CREATE != 0:
		return f.create(name, perm)
	case err != nil:
		return nil, err
	case flag&os.O_EXCL != 0 && flag&os.O_CREATE != 0:
		return nil, errCode(spec.CodeExists)
	case n.isDir():
		return nil, errCode(spec.CodeIsDirectory)
	case !n.mode.IsRegular():
		return nil, errCode(spec.CodeNotRegular)
	}
	return n, nil
}

// create makes an empty file where nothing is; a dangling link is not followed.
func (f *FS) create(name string, perm fs.FileMode) (*node, error) {
	p, err := f.locate(name, false)
	switch {
	case err != nil:
		return nil, err
	case p.slash:
		return nil, errCode(spec.CodeIsDirectory)
	case p.node != nil:
		return nil, errCode(spec.CodeFileNotFound)
	}
	n := &node{mode: perm.Perm(), modTime: time.Now()}
	f.set(p.dir, p.base, n)
	return n, nil
}

// ReadAt reads as io.ReaderAt does.
func (h *Handle) ReadAt(p []byte, off int64) (int, error) {
	h.f.mu.RLock()
	data := h.n.data
	h.f.mu.RUnlock()
	if off >= int64(len(data)) {
		return 0, io.EOF
	}
	n := copy(p, data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes p at off, and zeros before it where the file was shorter.
func (h *Handle) WriteAt(p []byte, off int64) (int, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.write(p, off)
	return len(p), nil
}

// Append writes p at the end, in one step for all who append.
func (h *Handle) Append(p []byte) (int, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.write(p, int64(len(h.n.data)))
	return len(p), nil
}

// write changes the data for those who look later: a reader holds the slice that it
// found, so what lies inside of it is never written to.
func (h *Handle) write(p []byte, off int64) {
	data := h.n.data
	if h.n.grower != h.n {
		data, h.n.grower = data[:len(data):len(data)], h.n
	}
	if gap := off - int64(len(data)); gap > 0 {
		data = append(data, make([]byte, gap)...)
	}
	if inside := int64(len(data)) - off; inside > 0 && len(p) > 0 {
		fresh := make([]byte, len(data), max(int64(len(data)), off+int64(len(p))))
		copy(fresh, data)
		k := copy(fresh[off:], p)
		data, p = fresh, p[k:]
	}
	h.n.data, h.n.modTime = append(data, p...), time.Now()
	h.f.tell(files.WatchWritten, h.n)
}

// Touch gives the file the time of its last change.
func (h *Handle) Touch(t time.Time) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.n.modTime = t
	h.f.tell(files.WatchMode, h.n)
}

// Info describes the file as it is, without a name.
func (h *Handle) Info() files.Info {
	h.f.mu.RLock()
	defer h.f.mu.RUnlock()
	return h.n.info("")
}

// Mkdev makes name a character device with no meaning of its own. An existing name is
// CodeExists.
func (f *FS) Mkdev(name string) error {
	return f.special(name, &node{mode: fs.ModeDevice | fs.ModeCharDevice | 0o666, modTime: time.Now()})
}
