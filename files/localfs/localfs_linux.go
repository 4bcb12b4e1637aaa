package localfs

import (
	"errors"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// FS serves the files that the process sees. It holds nothing open.
type FS struct{ workdir string }

var _ files.FS = (*FS)(nil)

// New returns an FS whose relative names begin at workdir, an absolute path that
// need not exist yet.
func New(workdir string) *FS { return &FS{workdir} }

// access says what a call was about to do, which decides what a refusal by the
// kernel means.
type access int

const (
	reading access = iota
	changing
)

// fail makes err, a system call's, the answer about name. Contexts' errors and
// finished answers pass.
func fail(name string, a access, err error) error {
	var known *spec.Error
	if errors.As(err, &known) {
		return spec.Wrap(known, "", "", "", name)
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return spec.Wrap(err, "", "", "", name)
	}
	return &spec.Error{Path: name, Code: codeOf(errno, a), Err: errno}
}

func codeOf(errno syscall.Errno, a access) spec.Code {
	switch errno {
	case unix.ENOENT:
		return spec.CodeFileNotFound
	case unix.ENOTDIR:
		return spec.CodeNotDirectory
	case unix.EISDIR:
		return spec.CodeIsDirectory
	case unix.EEXIST, unix.ENOTEMPTY:
		return spec.CodeExists
	case unix.EACCES, unix.EPERM, unix.EROFS:
		if a == changing {
			return spec.CodeNotWritable
		}
		return spec.CodePermission
	case unix.EBUSY:
		return spec.CodeNotReplaceable
	case unix.ENXIO, unix.EAGAIN:
		return spec.CodeNotRegular
	case unix.EFBIG:
		return spec.CodeTooLarge
	case unix.ENOSPC, unix.EDQUOT:
		return spec.CodeNoSpace
	case unix.ENAMETOOLONG, unix.ELOOP, unix.EILSEQ:
		return spec.CodeInvalidPath
	case unix.EINVAL:
		return spec.CodeInvalid
	case unix.EXDEV, unix.EOPNOTSUPP, unix.ENOSYS:
		return spec.CodeUnsupported
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EIO, unix.ESTALE, unix.EMLINK:
		return spec.CodeUnavailable
	}
	return spec.CodeInternal
}

// refuse is an answer that no system call gave.
func refuse(name string, code spec.Code, why string) error {
	return &spec.Error{Path: name, Code: code, Err: errors.New(why)}
}

// retry repeats a system call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// openat opens name relative to dir.
func openat(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOCTTY, mode)
		return err
	})
	return fd, err
}

// lstat describes name in dir itself.
func lstat(dir int, name string) (st unix.Stat_t, err error) {
	err = retry(func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// stat describes what name in dir leads to.
func stat(dir int, name string) (st unix.Stat_t, err error) {
	err = retry(func() error { return unix.Fstatat(dir, name, &st, 0) })
	return st, err
}

func isType(st *unix.Stat_t, kind uint32) bool { return st.Mode&unix.S_IFMT == kind }

// sameFile reports whether a and b describe one file.
func sameFile(a, b *unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

// isMountRoot reports whether something is mounted on name in dir. Kernels before
// 5.8 cannot say; there the rename is refused by EBUSY.
func isMountRoot(dir int, name string) bool {
	var stx unix.Statx_t
	err := retry(func() error {
		return unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &stx)
	})
	return err == nil && stx.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && stx.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// fileMode converts a kernel mode to the one of io/fs.
func fileMode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFREG:
	default:
		mode |= fs.ModeIrregular
	}
	if m&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if m&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if m&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}
