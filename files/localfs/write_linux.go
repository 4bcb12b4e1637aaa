package localfs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/internal/source"
	"github.com/berth-dev/berth/spec"
)

// tempPrefix begins the name of what is being made.
const tempPrefix = ".berth-write-"

func tempName() string {
	var random [8]byte
	rand.Read(random[:])
	return tempPrefix + hex.EncodeToString(random[:])
}

// Write implements files.FS. It returns at once when ctx ends; a Read of src that
// blocks is then left to itself.
func (f *FS) Write(ctx context.Context, name string, src io.Reader, size int64, o files.WriteOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case o.AnySize:
		size = -1
	case size < 0:
		return refuse(name, spec.CodeInvalid, "a negative size")
	}
	t, err := f.resolve(name, changing, parents(o))
	if err != nil {
		return err
	}
	defer t.close()
	mode, err := t.replaceable(o)
	if err != nil {
		return fail(name, changing, err)
	}
	if err := t.replace(ctx, src, size, mode, o); err != nil {
		return fail(name, changing, err)
	}
	return nil
}

func parents(o files.WriteOptions) making {
	switch {
	case o.NoParents:
		return makeNothing
	case o.Sync:
		return makeDurable
	}
	return makeMissing
}

// replaceable says whether a regular file may take the target's name, and with
// which mode. What changes after this look is caught by the rename, or harmless.
func (t target) replaceable(o files.WriteOptions) (uint32, error) {
	mode := uint32(o.Mode.Perm())
	if mode == 0 {
		mode = 0o644
	}
	if t.base == "" {
		return 0, unix.EISDIR
	}
	st, err := lstat(t.dir, t.base)
	switch {
	case err == unix.ENOENT && t.slash:
		return 0, unix.EISDIR
	case err == unix.ENOENT:
		return mode, nil
	case err != nil:
		return 0, err
	case o.Exclusive:
		return 0, unix.EEXIST
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return 0, unix.EISDIR
	case unix.S_IFLNK:
		if dest, err := stat(t.dir, t.base); err == nil && isType(&dest, unix.S_IFDIR) {
			return 0, unix.EISDIR
		}
	case unix.S_IFREG:
		if isMountRoot(t.dir, t.base) {
			return 0, spec.New(spec.CodeNotReplaceable, "a mount point")
		}
		if !o.SetMode {
			mode = st.Mode & 0o777
		}
	default:
		return 0, spec.New(spec.CodeNotReplaceable, "a device, a FIFO or a socket")
	}
	if t.slash {
		return 0, unix.ENOTDIR
	}
	return mode, nil
}

// replace writes a new file beside the target and gives it the target's name.
func (t target) replace(ctx context.Context, src io.Reader, size int64, mode uint32, o files.WriteOptions) (err error) {
	temp := tempName()
	fd, err := openat(t.dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), temp)
	defer out.Close()
	defer func() {
		if err != nil {
			_ = retry(func() error { return unix.Unlinkat(t.dir, temp, 0) })
		}
	}()
	if _, err := source.Copy(ctx, out, src, size); err != nil {
		return err
	}
	// The mode is set here, before anybody can see the file under its name, so
	// that neither the umask nor a default ACL decides.
	if err := retry(func() error { return unix.Fchmod(fd, mode) }); err != nil {
		return err
	}
	if o.Sync {
		if err := out.Sync(); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil { // some file systems report a full disk only here
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.Exclusive {
		err = renameNew(t.dir, temp, t.dir, t.base)
	} else {
		err = retry(func() error { return unix.Renameat(t.dir, temp, t.dir, t.base) })
	}
	if err != nil {
		return err
	}
	if o.Sync {
		return syncDir(t.dir)
	}
	return nil
}
