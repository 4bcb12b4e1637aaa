package begin

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Detached are the ways to start a process in a mount namespace of its own, best first:
// with the right to make one, and else in a user namespace that gives the right and
// leaves the user who it is. Go makes every mount in it private.
func Detached() []syscall.SysProcAttr {
	id := func(n int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: n, HostID: n, Size: 1}}
	}
	withUser := syscall.SysProcAttr{
		Setsid: true, Cloneflags: unix.CLONE_NEWUSER, Unshareflags: unix.CLONE_NEWNS, UidMappings: id(os.Geteuid()), GidMappings: id(os.Getegid()),
	}
	if os.Geteuid() != 0 {
		return []syscall.SysProcAttr{withUser}
	}
	return []syscall.SysProcAttr{{Setsid: true, Unshareflags: unix.CLONE_NEWNS}, withUser}
}

// Forbidden reports whether a process was not started because it could not have a
// namespace of its own.
func Forbidden(err error) bool {
	for _, known := range []error{unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EINVAL, unix.ENOSYS} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
