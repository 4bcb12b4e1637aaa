//go:build linux

package port

import (
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Scope says which sockets are those of the place.
type Scope int

// The scopes.
const (
	OfDescendants Scope = iota // what processes hold that descend from the guest
	OfProcesses                // what any process holds that the guest sees
	OfNetwork                  // whatever is in the network namespace
)

// Server serves the ports of a place. It is safe for concurrent use.
type Server struct {
	dir     string
	scope   Scope
	buffers *stream.Buffers
	// own and ownInode are the socket to which the host comes.
	own      string
	ownInode uint64

	mu        sync.Mutex
	listeners map[string]*listener // by the host's names for them
	over      bool
}

// New returns the ports of a place in which relative paths begin at dir. own, unless it is
// nil, is where the host comes to.
func New(dir string, scope Scope, own net.Listener, buffers *stream.Buffers) *Server {
	v := &Server{dir: dir, scope: scope, buffers: buffers, listeners: map[string]*listener{}}
	if u, ok := own.(*net.UnixListener); ok {
		v.own = u.Addr().String()
		if raw, err := u.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				var st unix.Stat_t
				if unix.Fstat(int(fd), &st) == nil {
					v.ownInode = st.Ino
				}
			})
		}
	}
	return v
}

// Serves reports whether an operation is one on ports.
func Serves(op wire.Op) bool {
	switch op {
	case wire.OpDial, wire.OpListen, wire.OpAccept, wire.OpPorts:
		return true
	}
	return false
}

// Serve serves one operation on its stream. An error that it returns has not been sent.
// chunk is the largest data frame that the host wants; tell is told of what is dialled and
// listened on.
func (v *Server) Serve(s *wire.Stream, req *wire.Request, chunk int, tell func(wire.PlaceEvent)) error {
	switch {
	case req.Op == wire.OpPorts:
		return v.list(s)
	case req.Port == nil:
		return stream.ErrIncomplete
	case req.Op == wire.OpDial:
		return v.dial(s, req.Port, chunk, tell)
	case req.Op == wire.OpListen:
		return v.listen(s, req.Port, tell)
	}
	return v.accept(s, req.Port, chunk)
}

// event says what is done with the address of a request.
func event(kind spec.EventKind, req *wire.PortRequest) wire.PlaceEvent {
	address := req.Network + " " + string(req.Address)
	return wire.PlaceEvent{Kind: string(kind), Address: address[:min(len(address), wire.MaxEventText)]}
}

// Close ends every listening and removes the sockets in the file system. Nobody listens
// after it.
func (v *Server) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	for _, l := range v.listeners {
		l.close()
	}
}

// duplex is a connection of which each side can be ended.
type duplex interface {
	net.Conn
	CloseWrite() error
	SyscallConn() (syscall.RawConn, error)
}

// maxSocketPath is the longest path that fits into an address.
const maxSocketPath = 107

// socketPath returns a name for the path of a socket that fits into an address. done ends
// its use.
func (v *Server) socketPath(path string) (name string, done func(), err error) {
	if path[0] == '@' {
		return path, func() {}, nil
	}
	path = v.absolute(path)
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + filepath.Base(path), func() { unix.Close(fd) }, nil
}

func (v *Server) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(v.dir, path)
}

// answer is what the host is told of a system call that failed. missing is the code of
// a name that is not there.
func answer(err error, missing spec.Code) error {
	code, hint := spec.CodeUnavailable, ""
	var lookup *net.DNSError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if code = missing; code == spec.CodeUnavailable {
			hint = nobodyHint
		}
	case errors.Is(err, unix.ECONNREFUSED):
		hint = nobodyHint
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.As(err, &lookup):
		hint = "there is no way there from inside: with network none a sandbox reaches itself only"
	case errors.Is(err, fs.ErrPermission):
		code = spec.CodePermission
	case errors.Is(err, unix.EADDRINUSE):
		code = spec.CodeExists
	case errors.Is(err, unix.EROFS):
		code = spec.CodeNotWritable
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		code = spec.CodeNoSpace
	case errors.Is(err, unix.ENOTDIR):
		code = spec.CodeNotDirectory
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EPROTOTYPE), errors.Is(err, unix.EADDRNOTAVAIL):
		code = spec.CodeInvalid
	}
	return &spec.Error{Code: code, Err: err, Hint: hint}
}

const nobodyHint = "nothing listens there inside the sandbox; `berth ports` lists what does"

// connOf describes a connection.
func connOf(local, remote net.Addr) *wire.Conn {
	c := &wire.Conn{Network: "unix"}
	for _, a := range []struct {
		of net.Addr
		to *wire.Bytes
	}{{local, &c.Local}, {remote, &c.Remote}} {
		switch of := a.of.(type) {
		case *net.TCPAddr:
			ap := of.AddrPort()
			if c.Network = "tcp6"; of.IP.To4() != nil {
				c.Network = "tcp4"
			}
			*a.to = wire.Bytes(ap.String())
		case *net.UnixAddr:
			if of.Name != "@" { // a socket without a name
				*a.to = wire.Bytes(of.Name)
			}
		}
	}
	return c
}
