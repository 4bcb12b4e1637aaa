package openat2

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

var words [2]atomic.Uint64

// Pass sets what the kernel gets as fifth and sixth argument, of which it takes no notice,
// for all calls of this process from now on.
func Pass(fifth, sixth uint64) {
	words[0].Store(fifth)
	words[1].Store(sixth)
}

// Open is openat2(2). Its error is a unix.Errno.
func Open(dir int, name string, how *unix.OpenHow) (int, error) {
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall6(
		unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(how)), unix.SizeofOpenHow,
		uintptr(words[0].Load()), uintptr(words[1].Load()),
	)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
