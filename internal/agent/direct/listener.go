//go:build linux

package direct

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// bell is the FIFO in the directory; suffix ends the name of a socket that is ready,
	// and longest bounds it.
	bell    = "bell"
	suffix  = ".sock"
	longest = 64
	// mostDials bounds the sockets that are connected to at one time.
	mostDials = 32
	// dialLimit bounds the tries to connect to one: longer than a host waits.
	dialLimit = 2 * time.Second
	// pause is the time between two tries at a socket to which others crowd, and between
	// two looks.
	pause = 2 * time.Millisecond
)

// Listener yields a connection for every socket that a host makes in a directory. It is a
// net.Listener.
type Listener struct {
	dir   string
	bell  *os.File
	met   map[string]bool // the sockets at the last look
	conns chan net.Conn
	slots chan struct{}

	closed chan struct{}
	once   sync.Once
	err    error
}

// Listen begins to listen for the bell of dir, an absolute path. Sockets that are there
// already count.
func Listen(dir string) (*Listener, error) {
	if !filepath.IsAbs(dir) {
		return nil, &os.PathError{Op: "open", Path: dir, Err: unix.ENOENT}
	}
	// Not to be blocked makes it wait in the poller, where Close ends the wait.
	fd, err := unix.Open(filepath.Join(dir, bell), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(dir, bell), Err: err}
	}
	l := &Listener{
		dir: dir, bell: os.NewFile(uintptr(fd), bell), conns: make(chan net.Conn),
		slots: make(chan struct{}, mostDials), closed: make(chan struct{}),
	}
	conn, err := l.bell.SyscallConn()
	if err != nil {
		l.bell.Close()
		return nil, err
	}
	go func() {
		_ = conn.Read(func(fd uintptr) bool { // until it is closed
			drain(int(fd))
			l.look()
			time.Sleep(pause) // somebody may ring without end
			return false
		})
	}()
	return l, nil
}

// drain takes out what was written to ring.
func drain(fd int) {
	var buf [4 << 10]byte
	_, _ = unix.Read(fd, buf[:]) // as much as there is; the rest rings again
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections that were yielded stay.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.err = l.bell.Close()
	})
	return l.err
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.dir, Net: "unix"} }

// look connects to the sockets of the directory that were not there before.
func (l *Listener) look() {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return // out of descriptors: the host goes another way
	}
	met := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || !strings.HasSuffix(name, suffix) || len(name) > longest {
			continue
		}
		met[name] = true
		if !l.met[name] {
			l.offer(name)
		}
	}
	l.met = met
}

// offer connects to a socket in the background. One too many is passed over.
func (l *Listener) offer(name string) {
	select {
	case l.slots <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-l.slots }()
		conn, err := l.dial(name)
		if err != nil {
			return
		}
		select {
		case l.conns <- conn:
		case <-l.closed:
			conn.Close()
		}
	}()
}

// dial connects to a socket, trying again as long as others fill its queue.
func (l *Listener) dial(name string) (net.Conn, error) {
	for deadline := time.Now().Add(dialLimit); ; {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(l.dir, name), Net: "unix"})
		if err == nil {
			return conn, nil
		}
		if !errors.Is(err, unix.EAGAIN) || time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}
