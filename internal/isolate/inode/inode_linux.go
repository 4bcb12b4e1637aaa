// Package inode says by number what lies at a path: a name may be another's by the time that
// it is used.
package inode

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Of says what lies at a path without a link in it. It goes step by step: openat2, which
// could do so at once, is not everywhere.
func Of(path string) (dev, ino uint64, err error) {
	var st unix.Stat_t
	at, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() { unix.Close(at) }()
	err = unix.Fstat(at, &st)
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if err != nil || name == "" {
			break
		}
		next, openErr := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if openErr != nil {
			return 0, 0, openErr
		}
		unix.Close(at)
		at = next
		if err = unix.Fstat(at, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = unix.ELOOP
		}
	}
	return uint64(st.Dev), st.Ino, err //nolint:unconvert // the type differs between platforms
}
