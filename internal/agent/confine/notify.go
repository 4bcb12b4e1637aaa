//go:build linux

package confine

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is struct seccomp_notif: a system call of a command that waits for an answer.
type call struct {
	id    uint64
	tid   uint32 // in this pid namespace
	flags uint32

	number  int32
	arch    uint32
	pointer uint64
	args    [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	value int64
	errno int32 // negative
	flags uint32
}

// queue is the descriptor from which the kernel's questions are read.
type queue int

// next waits for a call.
func (q queue) next() (call, error) {
	for {
		var c call
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(q), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&c)))
		switch errno {
		case 0:
			return c, nil
		case unix.EINTR, unix.ENOENT: // the caller was quicker
		default:
			return call{}, errno
		}
	}
}

// waits reports whether the caller still waits for the answer: then it has not died, and
// what was learnt of it by its id was learnt of it.
func (q queue) waits(id uint64) bool {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(q), unix.SECCOMP_IOCTL_NOTIF_ID_VALID, uintptr(unsafe.Pointer(&id)))
	return errno == 0
}

// reply answers with an errno, 0 for success, and reports whether the caller got it.
func (q queue) reply(id uint64, errno syscall.Errno) bool {
	return q.send(answer{id: id, errno: -int32(errno)})
}

// letThrough makes the kernel do the call as if nobody had asked.
func (q queue) letThrough(id uint64) {
	q.send(answer{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

func (q queue) send(a answer) bool {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(q), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a)))
	return errno == 0
}

// apply puts a filter on every thread of this process, and so on all that it starts. With
// ask it returns where the kernel asks, on a descriptor that no command inherits.
func apply(filter []unix.SockFilter, ask bool) (queue, error) {
	runtime.LockOSThread() // no_new_privs is of a thread; the other ones get it with the filter
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	// Without SPEC_ALLOW kernels before 5.16 slow every command down.
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW)
	if ask {
		flags |= unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
	p := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(filter)
	switch {
	case errno != 0:
		return -1, errno
	case ask:
		q := queue(r)
		// Callers and the guest take turns: where the kernel knows that (6.6), it
		// wakes one on the processor of the other.
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, r, unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
		return q, nil
	case r != 0:
		return -1, errors.New("a thread has a filter of its own")
	}
	return -1, nil
}
