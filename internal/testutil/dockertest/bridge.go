//go:build linux

package dockertest

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// addBridge and removeBridge use the bridge ioctls: no program is needed.
func addBridge(name string) error { return bridgeIoctl(unix.SIOCBRADDBR, name) }

func removeBridge(name string) error {
	if err := linkDown(name); err != nil {
		return err
	}
	return bridgeIoctl(unix.SIOCBRDELBR, name)
}

func bridgeIoctl(op uintptr, name string) error {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	err = socketIoctl(op, unsafe.Pointer(p))
	runtime.KeepAlive(p)
	return err
}

// linkDown clears IFF_UP: a bridge that is up cannot be removed.
func linkDown(name string) error {
	req := struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{}
	copy(req.name[:unix.IFNAMSIZ-1], name)
	return socketIoctl(unix.SIOCSIFFLAGS, unsafe.Pointer(&req))
}

func socketIoctl(op uintptr, arg unsafe.Pointer) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), op, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
