//go:build linux

package confine

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// task is a connect(2) of a command on its way.
type task struct {
	*call
	sock     int    // a duplicate of the caller's socket
	cookie   uint64 // by which the kernel knows it
	asked    []byte // the address, as the caller has it
	address  []byte // what is connected to
	domain   int
	kind     int
	blocks   bool // the caller wants to wait
	had      bool // it was connected before
	attempt  *attempt
	listener int // the inode to connect to, of a unix socket with a path; or -1
}

func (t *task) close() {
	unix.Close(t.sock)
	if t.listener >= 0 {
		unix.Close(t.listener)
	}
}

// connect answers connect(2).
func (g *gate) connect(c *call) {
	t, errno := g.open(c)
	if errno != 0 {
		g.queue.reply(c.id, errno)
		return
	}
	if t.domain == unix.AF_UNIX {
		errno = g.admit(t)
	}
	// From here on the caller is known to be the one that was looked at: it has
	// waited all the time.
	if errno != 0 || !g.queue.waits(c.id) {
		t.close()
		g.queue.reply(c.id, errno)
		return
	}
	t.attempt, errno = g.attempts.begin(c.tid, t.cookie, t.asked, func() (syscall.Errno, bool) { return g.try(t) })
	if t.attempt.settled {
		g.finish(t, errno)
		return
	}
	if !g.waiting.enter() {
		g.finish(t, unix.EAGAIN)
		return
	}
	go func() {
		defer g.waiting.leave()
		g.wait(t)
	}()
}

// open learns what the caller asks for.
func (g *gate) open(c *call) (*task, syscall.Errno) {
	sock, err := duplicate(c, int(int32(c.args[0])))
	if err != nil {
		return nil, errnoOf(err)
	}
	t := &task{call: c, sock: sock, listener: -1}
	if t.domain, err = unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil {
		t.kind, err = unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_TYPE)
	}
	if err == nil {
		t.cookie, err = unix.GetsockoptUint64(sock, unix.SOL_SOCKET, unix.SO_COOKIE)
	}
	if err == nil {
		t.asked, err = address(c)
		t.address = t.asked
	}
	// Only these ever wait; others are connected in the kernel's tables alone.
	if err == nil && (t.kind == unix.SOCK_STREAM || t.kind == unix.SOCK_SEQPACKET) {
		_, peerErr := unix.Getpeername(sock)
		t.had = peerErr == nil
		t.blocks, err = g.blocking.wants(sock, t.cookie)
	}
	if err != nil {
		t.close()
		return nil, errnoOf(err)
	}
	return t, 0
}

// admit decides about a unix socket: 0 if it may be connected.
func (g *gate) admit(t *task) syscall.Errno {
	if t.kind != unix.SOCK_STREAM && t.kind != unix.SOCK_SEQPACKET {
		return unix.EACCES // passed in from outside
	}
	path, ok := unixName(t.asked)
	if !ok {
		return 0 // no address of this family: the kernel says what is wrong with it
	}
	if path[0] == 0 {
		if yes, known := g.listeners.lives(name{abstract: string(path), kind: t.kind}); !yes {
			return refusal(known)
		}
		return 0
	}
	fd, err := lookUp(t.call, string(path))
	if err != nil {
		return errnoOf(err)
	}
	t.listener = fd
	t.address = unixAddress("/proc/self/fd/" + strconv.Itoa(fd))
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return errnoOf(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return 0 // the kernel refuses it
	}
	n, ok := bindName(fd, &st)
	if !ok {
		return unix.EACCES
	}
	if yes, known := g.listeners.lives(n); !yes {
		return refusal(known)
	}
	return 0
}

// refusal is the answer to who may not connect. Of a listener of this place that is dead
// it is what the kernel says, upon which servers remove the name; of any other one it is
// not: the name may be in use outside.
func refusal(known bool) syscall.Errno {
	if known {
		return unix.ECONNREFUSED
	}
	return unix.EACCES
}

// try makes one attempt that does not wait, and says whether it has settled the call.
func (g *gate) try(t *task) (errno syscall.Errno, settled bool) {
	if !t.blocks {
		return g.checked(t, g.connectAsIs(t)), true
	}
	errno, interrupted, contrary := g.connectNow(t)
	switch {
	case interrupted:
		return t.later(), contrary
	case errno == unix.EINPROGRESS || errno == unix.EALREADY:
		return errno, false
	case errno == unix.EAGAIN: // the listener's queue is full
		return errno, t.domain != unix.AF_UNIX
	}
	return g.checked(t, errno), true
}

// mostInterrupted is how often a connection of a non-blocking socket is begun again.
const mostInterrupted = 8

// connectAsIs connects a socket that does not wait. Where it is interrupted all the same, its
// thread had to wait for a processor, or somebody has made it a blocking one meanwhile.
func (g *gate) connectAsIs(t *task) syscall.Errno {
	switch t.kind {
	case unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_PACKET: // in the kernel's tables alone
		return connect(t.sock, t.address, g.pass)
	}
	for again := 0; ; again++ {
		errno, interrupted := g.connectSoon(t.sock, t.address)
		switch {
		case !interrupted && again > 0 && errno == unix.EALREADY:
			return unix.EINPROGRESS // what was interrupted has begun it
		case !interrupted && again > 0 && errno == unix.EISCONN && !t.had:
			return 0
		case !interrupted:
			return errno
		}
		flags, err := unix.FcntlInt(uintptr(t.sock), unix.F_GETFL, 0)
		if err != nil || flags&unix.O_NONBLOCK == 0 || again == mostInterrupted {
			return t.later()
		}
	}
}

// later is what a non-blocking socket says of a connection that is not made yet.
func (t *task) later() syscall.Errno {
	if t.domain == unix.AF_UNIX {
		return unix.EAGAIN
	}
	return unix.EINPROGRESS
}

// connectNow connects a blocking socket without waiting. contrary says that the caller has
// another thread which works against that.
func (g *gate) connectNow(t *task) (errno syscall.Errno, interrupted, contrary bool) {
	if err := g.blocking.enter(t.sock, t.cookie); err != nil {
		return errnoOf(err), false, false
	}
	errno, interrupted = g.connectSoon(t.sock, t.address)
	if errno == unix.EINPROGRESS {
		// The kernel takes in what came meanwhile when the call ends: between two
		// programs of this machine the connection is complete by now.
		errno, interrupted = g.connectSoon(t.sock, t.address)
	}
	contrary = g.blocking.leave(t.sock, t.cookie)
	return errno, interrupted, contrary
}

// checked looks at who is at the other end of a unix socket that has been connected. It
// is somebody of this place, or a name changed hands in the last microseconds.
func (g *gate) checked(t *task, errno syscall.Errno) syscall.Errno {
	if errno != 0 || t.domain != unix.AF_UNIX {
		return errno
	}
	peer, err := unix.GetsockoptUcred(t.sock, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || peer.Pid == 0 {
		_ = unix.Shutdown(t.sock, unix.SHUT_RDWR)
		return unix.EACCES
	}
	return 0
}

// finish answers a call that is settled.
func (g *gate) finish(t *task, errno syscall.Errno) {
	g.attempts.tell(t.tid, t.attempt, func() bool { return g.queue.reply(t.id, errno) })
	t.close()
}

// errnoOf is the errno that an error of this package's system calls is.
func errnoOf(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok {
		return errno
	}
	return unix.EACCES
}
