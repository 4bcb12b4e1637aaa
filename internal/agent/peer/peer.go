//go:build linux

// Package peer says who is at the other end of a unix socket, and whether the guest
// talks to it: the kernel's word, not the peer's.
package peer

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/proc"
)

// Policy says who may connect to the guest.
type Policy string

// The policies.
const (
	Outside Policy = "outside" // a process outside the guest's pid namespace
	Engine  Policy = "engine"  // a process that an engine put into it: its parent is outside
	User    Policy = "user"    // a process of the same user, or root
)

// Known reports whether p is one of the policies.
func (p Policy) Known() bool {
	return p == Outside || p == Engine || p == User
}

// Check refuses a peer that is not allowed to connect. A command of the place must
// not be able to talk to the guest: it would be its own host.
func (p Policy) Check(conn *net.UnixConn) error {
	cred, pidfd, err := Cred(conn)
	if err != nil {
		return err
	}
	if pidfd >= 0 {
		defer unix.Close(pidfd)
	}
	refused := fmt.Errorf("peer pid %d uid %d is not %s", cred.Pid, cred.Uid, p)
	switch p {
	case Outside:
		if cred.Pid != 0 {
			return refused
		}
	case User:
		if int(cred.Uid) != os.Getuid() && cred.Uid != 0 {
			return refused
		}
	case Engine:
		if !fromEngine(int(cred.Pid), pidfd) {
			return refused
		}
	default:
		return refused
	}
	return nil
}

// fromEngine reports whether the parent of pid is outside our pid namespace. pidfd,
// if not negative, is the peer's own: while it has not ended, pid is still its.
// Without one, a pid that changes hands between two looks is the remaining gap.
func fromEngine(pid, pidfd int) bool {
	if pid <= 1 {
		return false
	}
	before, ok := proc.ReadStat(pid)
	if !ok || before.PPID != 0 {
		return false
	}
	if pidfd < 0 {
		after, ok := proc.ReadStat(pid)
		return ok && after.PPID == 0 && after.Start == before.Start
	}
	ended := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(ended, 0)
	return err == nil && n == 0
}

// Cred returns the credentials that the peer had when it connected, and its
// pidfd where the kernel gives one, else -1.
func Cred(conn *net.UnixConn) (cred *unix.Ucred, pidfd int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, -1, err
	}
	pidfd = -1
	ctlErr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if p, perr := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); perr == nil {
			pidfd = p
		}
	})
	if ctlErr != nil {
		return nil, -1, ctlErr
	}
	return cred, pidfd, err
}
