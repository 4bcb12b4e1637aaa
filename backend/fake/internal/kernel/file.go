package kernel

import (
	"io"
	"os"
	"sync"

	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/spec"
)

// body is what a file does.
type body interface {
	read(p *Proc, b []byte) (int, error)
	write(p *Proc, b []byte) (int, error)
	close()
	name() string
}

// File is an open file: descriptors share it, and its position.
type File struct {
	file body
	refs int // guarded by Kernel.mu
}

func newFile(b body) *File { return &File{file: b, refs: 1} }

// Share returns the file for one more descriptor, before a process has it.
func (f *File) Share() *File {
	f.refs++
	return f
}

// Close gives up a file that no process has got.
func (f *File) Close() { f.file.close() }

func (f *File) releaseLocked() {
	if f == nil {
		return
	}
	if f.refs--; f.refs == 0 {
		f.file.close()
	}
}

func (p *Proc) file(fd int) *File {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	return p.files[fd]
}

// Read reads from a descriptor.
func (p *Proc) Read(fd int, b []byte) (int, error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	f := p.file(fd)
	if f == nil {
		return 0, EBADF
	}
	return f.file.read(p, b)
}

// Write writes all of b to a descriptor. Onto a pipe that nobody reads it is SIGPIPE,
// and EPIPE for one who ignores that.
func (p *Proc) Write(fd int, b []byte) (int, error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	f := p.file(fd)
	if f == nil {
		return 0, EBADF
	}
	n, err := f.file.write(p, b)
	if err == EPIPE {
		p.k.mu.Lock()
		p.k.signalLocked(p, sigPIPE)
		ended := p.ended
		p.k.mu.Unlock()
		if ended {
			err = ErrKilled
		}
	}
	return n, err
}

// Put makes fd lead to f, which is taken over; nil closes it.
func (p *Proc) Put(fd int, f *File) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.files[fd].releaseLocked()
	switch {
	case f == nil:
		delete(p.files, fd)
	case p.ended:
		delete(p.files, fd)
		f.releaseLocked()
	default:
		p.files[fd] = f
	}
}

// Get returns what fd leads to, held once more, or nil. Put or Release gives it back.
func (p *Proc) Get(fd int) *File {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	f := p.files[fd]
	if f != nil {
		f.refs++
	}
	return f
}

// Release gives back what Get or Open returned.
func (p *Proc) Release(f *File) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	f.releaseLocked()
}

// Pipe returns the ends of a new pipe.
func (p *Proc) Pipe() (r, w *File) {
	_, r, w = NewPipe()
	return r, w
}

// ReadFile reads from f as Read does from a descriptor, but for caught signals, which
// wait until it is done.
func (p *Proc) ReadFile(f *File, b []byte) (int, error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	if e, ok := f.file.(*readEnd); ok {
		return e.Pipe.read(patient{p}, b)
	}
	return f.file.read(p, b)
}

// Text returns a file that holds data, to be read once.
func Text(data []byte) *File { return newFile(&text{rest: data}) }

// Open opens a file. flag is of package os; the umask applies to perm.
func (p *Proc) Open(name string, flag int, perm uint32) (*File, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	p.k.mu.Lock()
	full := uint64(len(p.files)) >= p.limits[limitNofile][0]
	mask := p.umask
	p.k.mu.Unlock()
	if full {
		return nil, EMFILE
	}
	return p.k.openPath(p, p.dir, name, flag, perm&^mask)
}

// FD gives Go's interfaces to a descriptor.
func (p *Proc) FD(fd int) io.ReadWriter { return descriptor{p, fd} }

type descriptor struct {
	p  *Proc
	fd int
}

func (d descriptor) Read(b []byte) (int, error) {
	n, err := d.p.Read(d.fd, b)
	return n, err
}

func (d descriptor) Write(b []byte) (int, error) { return d.p.Write(d.fd, b) }

// disk is an open regular file.
type disk struct {
	k      *Kernel
	handle *memfs.Handle
	path   string
	flag   int

	mu  sync.Mutex
	off int64
}

const accessMode = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

func (d *disk) read(_ *Proc, b []byte) (int, error) {
	if d.flag&accessMode == os.O_WRONLY {
		return 0, EBADF
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.handle.ReadAt(b, d.off)
	d.off += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (d *disk) write(p *Proc, b []byte) (int, error) {
	if d.flag&accessMode == os.O_RDONLY {
		return 0, EBADF
	}
	if most, _ := p.Limit("fsize"); most != spec.RlimitInfinity && uint64(d.end())+uint64(len(b)) > most {
		p.k.mu.Lock()
		defer p.k.mu.Unlock()
		p.k.signalLocked(p, sigXFSZ)
		return 0, EFBIG
	}
	if space := d.k.hooks.Space; space != nil && space(len(b)) != nil {
		return 0, ENOSPC
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flag&os.O_APPEND != 0 {
		return d.handle.Append(b)
	}
	n, err := d.handle.WriteAt(b, d.off)
	d.off += int64(n)
	return n, err
}

// end is where the next write begins.
func (d *disk) end() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flag&os.O_APPEND != 0 {
		return d.handle.Info().Size
	}
	return d.off
}

func (d *disk) close()       {}
func (d *disk) name() string { return d.path }

// device is a character device by its name.
type device string

func (d device) read(p *Proc, b []byte) (int, error) {
	switch d {
	case "/dev/zero", "/dev/full":
		clear(b)
		return len(b), nil
	}
	return 0, io.EOF
}

func (d device) write(_ *Proc, b []byte) (int, error) {
	if d == "/dev/full" {
		return 0, ENOSPC
	}
	return len(b), nil
}

func (d device) close()       {}
func (d device) name() string { return string(d) }

// Null returns the null device.
func Null() *File { return newFile(device("/dev/null")) }

// text is a file whose bytes are made when it is opened.
type text struct {
	path string

	mu   sync.Mutex
	rest []byte
}

func (t *text) read(_ *Proc, b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func (t *text) write(*Proc, []byte) (int, error) { return 0, EBADF }
func (t *text) close()                           {}
func (t *text) name() string                     { return t.path }
