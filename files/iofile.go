package files

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"

	"github.com/berth-dev/berth/spec"
)

// ioFile is an open regular file of an ioFS: a stream, and another one after each
// jump. All are of the file that was opened first: one that has been replaced since
// is not read on.
type ioFile struct {
	f    *ioFS
	name string
	at   string // the name in f.fsys
	info Info

	mu     sync.Mutex
	file   File // nil: none is open at pos
	pos    int64
	closed bool
}

// Stat implements fs.File.
func (f *ioFile) Stat() (fs.FileInfo, error) {
	info := f.info
	info.Name = path.Base(f.name)
	return fileInfo{info}, nil
}

// Read implements fs.File.
func (f *ioFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, pathError("read", f.name, fs.ErrClosed)
	}
	if f.pos >= f.info.Size {
		return 0, io.EOF
	}
	if f.file == nil {
		file, err := f.open(OpenOptions{Offset: f.pos})
		if err != nil {
			return 0, pathError("read", f.name, err)
		}
		f.file = file
	}
	n, err := f.file.Read(p)
	f.pos += int64(n)
	return n, pathError("read", f.name, err)
}

// open opens the file once more, if it is still the same.
func (f *ioFile) open(o OpenOptions) (File, error) {
	file, err := f.f.fsys.Open(f.f.ctx, f.at, o)
	if err != nil {
		return nil, err
	}
	if now := file.Info(); now.Size != f.info.Size || !now.ModTime.Equal(f.info.ModTime) {
		file.Close()
		return nil, &spec.Error{Path: f.at, Code: spec.CodeUnavailable, Err: errors.New("the file has changed since it was opened")}
	}
	return file, nil
}

// Seek implements io.Seeker.
func (f *ioFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += f.info.Size
	}
	switch {
	case f.closed:
		return 0, pathError("seek", f.name, fs.ErrClosed)
	case offset < 0:
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	case offset != f.pos:
		f.drop()
		f.pos = offset
	}
	return offset, nil
}

// ReadAt implements io.ReaderAt. It opens the file anew each time.
func (f *ioFile) ReadAt(p []byte, offset int64) (int, error) {
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	switch {
	case closed:
		return 0, pathError("read", f.name, fs.ErrClosed)
	case offset < 0:
		return 0, pathError("read", f.name, fs.ErrInvalid)
	case len(p) == 0:
		return 0, nil
	case offset >= f.info.Size:
		return 0, io.EOF
	}
	file, err := f.open(OpenOptions{Offset: offset, Length: int64(len(p))})
	if err != nil {
		return 0, pathError("read", f.name, err)
	}
	defer file.Close()
	n, err := io.ReadFull(file, p)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, pathError("read", f.name, err)
}

// Close implements fs.File.
func (f *ioFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	return pathError("close", f.name, f.drop())
}

func (f *ioFile) drop() error {
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
}
