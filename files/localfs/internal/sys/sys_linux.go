// Package sys is system calls on files, by descriptor and name: repeated where a
// signal interrupts them, with descriptors that no child inherits.
package sys

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Retry repeats a system call that a signal interrupted.
func Retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Openat opens name relative to dir.
func Openat(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = Retry(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOCTTY, mode)
		return err
	})
	return fd, err
}

// Lstat describes name in dir itself; "": dir.
func Lstat(dir int, name string) (st unix.Stat_t, err error) {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	err = Retry(func() error { return unix.Fstatat(dir, name, &st, flags) })
	return st, err
}

// Stat describes what name in dir leads to.
func Stat(dir int, name string) (st unix.Stat_t, err error) {
	err = Retry(func() error { return unix.Fstatat(dir, name, &st, 0) })
	return st, err
}

// IsType reports whether st describes a file of a type, unix.S_IFDIR say.
func IsType(st *unix.Stat_t, kind uint32) bool { return st.Mode&unix.S_IFMT == kind }

// SameFile reports whether a and b describe one file.
func SameFile(a, b *unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

// IsMountRoot reports whether something is mounted on name in dir. Kernels before
// 5.8 cannot say; there the rename is refused by EBUSY.
func IsMountRoot(dir int, name string) bool {
	var stx unix.Statx_t
	err := Retry(func() error {
		return unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &stx)
	})
	return err == nil && stx.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && stx.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// Readlink returns where the link name in dir points to; "": dir.
func Readlink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n := 0
	err := Retry(func() (err error) {
		n, err = unix.Readlinkat(dir, name, buf)
		return err
	})
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// Chmod sets the nine permission bits of what fd, an O_PATH descriptor, stands
// for, and leaves the others.
func Chmod(fd int, mode uint32) error {
	var st unix.Stat_t
	if err := Retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	mode |= st.Mode & 0o7000
	// fchmod refuses an O_PATH descriptor; kernels before 6.6 know no other call
	// for it than the detour over its name in /proc.
	if err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH); err == nil {
		return nil
	}
	return Retry(func() error { return unix.Chmod(ProcPath(fd), mode) })
}

// ProcPath is a name of what a descriptor stands for.
func ProcPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// SyncDir makes the entries of dir, an O_PATH descriptor, durable.
func SyncDir(dir int) error {
	fd, err := Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return Retry(func() error { return unix.Fsync(fd) })
}
