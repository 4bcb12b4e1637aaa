package kernel

import (
	"io/fs"

	"github.com/berth-dev/berth/spec"
)

// Errno is an error of the system, in the words that programs print.
type Errno string

// The errors.
const (
	EPERM   Errno = "Operation not permitted"
	ENOENT  Errno = "No such file or directory"
	ESRCH   Errno = "No such process"
	EINTR   Errno = "Interrupted system call"
	EIO     Errno = "Input/output error"
	ENOEXEC Errno = "Exec format error"
	EBADF   Errno = "Bad file descriptor"
	ECHILD  Errno = "No child processes"
	EACCES  Errno = "Permission denied"
	EEXIST  Errno = "File exists"
	ENOTDIR Errno = "Not a directory"
	EISDIR  Errno = "Is a directory"
	EINVAL  Errno = "Invalid argument"
	EMFILE  Errno = "Too many open files"
	EFBIG   Errno = "File too large"
	EAGAIN  Errno = "Resource temporarily unavailable"
	ENOMEM  Errno = "Cannot allocate memory"
	ENOSPC  Errno = "No space left on device"
	EPIPE   Errno = "Broken pipe"
	ENXIO   Errno = "No such device or address"
	ELOOP   Errno = "Too many levels of symbolic links"
	ENOTEMP Errno = "Directory not empty"
	// ErrKilled is what every call of a process answers that has ended.
	ErrKilled Errno = "Killed"
)

func (e Errno) Error() string { return string(e) }

// Is gives the twins in io/fs.
func (e Errno) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e == ENOENT
	case fs.ErrPermission:
		return e == EACCES || e == EPERM
	case fs.ErrExist:
		return e == EEXIST
	}
	return false
}

// errno turns an error of the file tree into one of the system.
func errno(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(Errno); ok {
		return e
	}
	switch spec.CodeOf(err) {
	case spec.CodeFileNotFound:
		return ENOENT
	case spec.CodeExists:
		return EEXIST
	case spec.CodeIsDirectory:
		return EISDIR
	case spec.CodeNotDirectory:
		return ENOTDIR
	case spec.CodeNotRegular:
		return ENXIO
	case spec.CodeInvalidPath:
		return ELOOP
	case spec.CodePermission, spec.CodeNotWritable:
		return EACCES
	case spec.CodeNoSpace:
		return ENOSPC
	case spec.CodeInvalid:
		return EINVAL
	}
	return EIO
}
