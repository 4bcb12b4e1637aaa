//go:build linux

package confine

import (
	"encoding/binary"
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// socketID is one unix socket for as long as this machine runs: the kernel gives a
// number again, a cookie never.
type socketID struct {
	number uint32 // of its inode
	cookie uint64
}

// identify returns the identity of a socket that this process holds.
func identify(fd int) (socketID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return socketID{}, err
	}
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	return socketID{uint32(st.Ino), cookie}, err
}

// name is what a unix socket is bound to: an inode as the kernel's own tables have it,
// whose number they give with 32 bits, or an abstract name, which begins with a NUL.
type name struct {
	dev, inode uint32
	abstract   string
	kind       int // of an abstract socket: SOCK_STREAM or SOCK_SEQPACKET
}

func (n name) bound() bool { return n.inode != 0 || n.abstract != "" }

// diag asks the kernel about unix sockets of this network namespace. It is safe for
// concurrent use.
type diag struct {
	mu  sync.Mutex
	fd  int
	seq uint32
	buf []byte
}

// The parts of the kernel's <linux/unix_diag.h> that are used.
const (
	unixDiagName = 0
	unixDiagVFS  = 1

	showName = 1
	showVFS  = 2

	unixDiagReqBytes = 24
	unixDiagMsgBytes = 16
)

func newDiag() (*diag, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	// The kernel answers before the question's send returns: what does not come at
	// once does not come.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &diag{fd: fd, buf: make([]byte, 8<<10)}, nil
}

func (d *diag) close() { unix.Close(d.fd) }

var errDiag = errors.New("sock_diag: an answer makes no sense")

// bound returns what a live socket is bound to; ENOENT or ESTALE where it lives no more.
func (d *diag) bound(id socketID) (name, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seq++
	ne := binary.NativeEndian
	q := make([]byte, unix.NLMSG_HDRLEN+unixDiagReqBytes)
	ne.PutUint32(q[0:], uint32(len(q)))
	ne.PutUint16(q[4:], unix.SOCK_DIAG_BY_FAMILY)
	ne.PutUint16(q[6:], unix.NLM_F_REQUEST)
	ne.PutUint32(q[8:], d.seq)
	body := q[unix.NLMSG_HDRLEN:]
	body[0] = unix.AF_UNIX
	ne.PutUint32(body[4:], ^uint32(0)) // in any state
	ne.PutUint32(body[8:], id.number)
	ne.PutUint32(body[12:], showName|showVFS)
	ne.PutUint32(body[16:], uint32(id.cookie))
	ne.PutUint32(body[20:], uint32(id.cookie>>32))
	if err := unix.Sendto(d.fd, q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return name{}, err
	}
	for {
		n, _, err := unix.Recvfrom(d.fd, d.buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return name{}, err
		}
		if n < unix.NLMSG_HDRLEN || ne.Uint32(d.buf[8:]) != d.seq {
			continue // of a question that was given up
		}
		return parseDiag(d.buf[:n])
	}
}

// parseDiag reads one message of the kernel.
func parseDiag(b []byte) (name, error) {
	ne := binary.NativeEndian
	length, kind, body := int(ne.Uint32(b)), ne.Uint16(b[4:]), b[unix.NLMSG_HDRLEN:]
	if length < unix.NLMSG_HDRLEN || length > len(b) {
		return name{}, errDiag
	}
	body = body[:length-unix.NLMSG_HDRLEN]
	switch {
	case kind == unix.NLMSG_ERROR && len(body) >= 4:
		if errno := -int32(ne.Uint32(body)); errno != 0 {
			return name{}, unix.Errno(errno)
		}
		return name{}, errDiag
	case kind != unix.SOCK_DIAG_BY_FAMILY || len(body) < unixDiagMsgBytes:
		return name{}, errDiag
	}
	n := name{kind: int(body[1])}
	for rest := body[unixDiagMsgBytes:]; len(rest) >= unix.SizeofRtAttr; {
		size := int(ne.Uint16(rest))
		if size < unix.SizeofRtAttr || size > len(rest) {
			return name{}, errDiag
		}
		value := rest[unix.SizeofRtAttr:size]
		switch ne.Uint16(rest[2:]) {
		case unixDiagVFS:
			if len(value) < 8 {
				return name{}, errDiag
			}
			n.inode, n.dev = ne.Uint32(value), ne.Uint32(value[4:])
		case unixDiagName:
			if len(value) > 0 && value[0] == 0 {
				n.abstract = string(value)
			}
		}
		rest = rest[min((size+3)&^3, len(rest)):]
	}
	if n.inode != 0 {
		n.abstract, n.kind = "", 0
	}
	return n, nil
}
