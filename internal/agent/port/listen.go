//go:build linux

package port

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// listener is a socket on which the guest listens for the host.
type listener struct {
	net.Listener
	path string // of the socket in the file system; "": it has none
	file os.FileInfo

	once sync.Once
}

// socketMode is that of a socket in the file system.
const socketMode = 0o600

// open listens on an address.
func (v *Server) open(req *wire.PortRequest) (*listener, error) {
	// The mode of the socket before it is bound, less the umask, is that of the file.
	config := net.ListenConfig{Control: func(network, _ string, c syscall.RawConn) (err error) {
		if network == "unix" {
			failed := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), socketMode) })
			err = errors.Join(failed, err)
		}
		return err
	}}
	address := string(req.Address)
	if req.Network != "unix" {
		host, port, err := net.SplitHostPort(address)
		if err == nil && host == "" {
			address = net.JoinHostPort(loopbacks(req.Network)[0], port)
		}
		l, err := config.Listen(context.Background(), req.Network, address)
		return &listener{Listener: l}, err
	}
	name, done, err := v.socketPath(address)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := config.Listen(context.Background(), "unix", name)
	if err != nil {
		return nil, err
	}
	own := &listener{Listener: l}
	if address[0] != '@' {
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		own.path = v.absolute(address)
		if own.file, err = os.Lstat(own.path); err != nil {
			own.path = "" // it has been renamed already
		}
	}
	return own, nil
}

// close ends the listening and removes the socket, if what has its name is still that.
func (l *listener) close() {
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); l.path != "" && err == nil && os.SameFile(l.file, now) {
			_ = os.Remove(l.path)
		}
		// A child between its fork and its exec has every descriptor of the guest.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		l.Listener.Close()
	})
}

var errOver = spec.New(spec.CodeUnavailable, "nobody listens any more")

// listen listens until the host has had enough or is gone.
func (v *Server) listen(s *wire.Stream, req *wire.PortRequest, tell func(wire.PlaceEvent)) error {
	if err := spec.ValidateAddress(req.Network, string(req.Address), true); err != nil {
		return err
	}
	l, err := v.open(req)
	if err != nil {
		return answer(err, spec.CodeFileNotFound)
	}
	defer l.close()
	if err := v.add(req.Listener, l); err != nil {
		return err
	}
	defer v.remove(req.Listener)
	told := event(spec.EventListened, req)
	tell(told)
	told.Ended = true
	defer tell(told)
	if err := stream.Reply(s, &wire.Reply{Conn: connOf(l.Addr(), nil)}); err != nil {
		return err
	}
	var none [1]byte
	if _, err := wire.NewDataReader(s).Read(none[:]); err != io.EOF {
		return stream.ErrGone
	}
	l.close()
	return stream.Reply(s, &wire.Reply{Done: true})
}

func (v *Server) add(name string, l *listener) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case name == "" || v.listeners[name] != nil:
		return spec.New(spec.CodeInvalid, "a listening needs a name of its own")
	case v.over:
		return errOver
	}
	v.listeners[name] = l
	return nil
}

func (v *Server) remove(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.listeners, name)
}

// acceptPause is how long a guest without descriptors waits for one.
const acceptPause = 20 * time.Millisecond

// accept waits until somebody connects, and then carries the connection. Nobody is
// accepted whom no host waits for: the others wait in the kernel's queue.
func (v *Server) accept(s *wire.Stream, req *wire.PortRequest, chunk int) error {
	v.mu.Lock()
	l := v.listeners[req.Listener]
	v.mu.Unlock()
	if l == nil {
		return errOver
	}
	for {
		accepted, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return errOver
		case err != nil:
			time.Sleep(acceptPause)
			continue
		}
		conn := accepted.(duplex)
		if err := stream.Reply(s, &wire.Reply{Conn: connOf(conn.LocalAddr(), conn.RemoteAddr())}); err != nil {
			abort(conn)
			return err
		}
		v.carry(conn, s, &inlet{s: s}, nil, chunk)
		return nil
	}
}
