package localfs

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/beneath"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// FS serves the files that the process sees.
type FS struct {
	workdir string
	root    *beneath.Root // nil: the place is the boundary
	mounts  sys.Mounts
}

var (
	_ files.FS          = (*FS)(nil)
	_ files.Chmodder    = (*FS)(nil)
	_ files.Copier      = (*FS)(nil)
	_ files.BatchWriter = (*FS)(nil)
	_ files.Namer       = (*FS)(nil)
	_ files.Resolver    = (*FS)(nil)
	_ files.Symlinker   = (*FS)(nil)
)

// New returns an FS whose relative names begin at workdir, an absolute path that
// need not exist yet. It holds nothing open.
func New(workdir string) *FS { return &FS{workdir: workdir} }

// NewRooted returns an FS that keeps to the directory dir, an absolute path: a name
// that is not below it, by its text or through a link, is CodeInvalidPath before
// anything is read. An absolute link counts by where it points to. Names begin at
// workdir as those of New do, so with one outside dir only absolute names can be
// used. The directory is held open until Close. A dir that is missing, or none, is
// CodeInvalidPath.
func NewRooted(workdir, dir string) (*FS, error) {
	root, err := beneath.New(dir)
	if err != nil {
		return nil, &spec.Error{Path: dir, Code: spec.CodeInvalidPath, Err: os.NewSyscallError("open the workspace root", err)}
	}
	return &FS{workdir: workdir, root: root}, nil
}

// Close lets go of the directory that a confined FS keeps to.
func (f *FS) Close() error {
	if f.root == nil {
		return nil
	}
	return f.root.Close()
}

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
