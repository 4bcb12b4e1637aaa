package localfs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/internal/source"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// tempPrefix begins the name of what is being made.
const tempPrefix = ".berth-write-"

// tempBytes is how many random bytes follow, in hex.
const tempBytes = 8

func tempName() string {
	var random [tempBytes]byte
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
	if err := o.Validate(); err != nil {
		return fail(name, changing, err)
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
	err = t.replace(ctx, mode, o, func(out *os.File) error {
		_, err := source.Copy(ctx, out, src, size)
		return err
	})
	if err != nil {
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
	st, err := sys.Lstat(t.dir, t.base)
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
		isDir, err := t.leadsToDir()
		if err == nil && isDir {
			err = unix.EISDIR
		}
		if err != nil {
			return 0, err
		}
	case unix.S_IFREG:
		if sys.IsMountRoot(t.dir, t.base) {
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

// replace fills a new file beside the target and gives it the target's name.
func (t target) replace(ctx context.Context, mode uint32, o files.WriteOptions, fill func(*os.File) error) (err error) {
	temp := tempName()
	fd, err := sys.Openat(t.dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), temp)
	defer out.Close()
	defer func() {
		if err != nil {
			_ = sys.Retry(func() error { return unix.Unlinkat(t.dir, temp, 0) })
		}
	}()
	if err := fill(out); err != nil {
		return err
	}
	// The mode is set here, before anybody can see the file under its name, so
	// that neither the umask nor a default ACL decides.
	if err := sys.Retry(func() error { return unix.Fchmod(fd, mode) }); err != nil {
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
	if o.IfSHA256 != "" {
		if err := t.holds(ctx, o.IfSHA256); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.Exclusive {
		err = renameNew(t.dir, temp, t.dir, t.base)
	} else {
		err = sys.Retry(func() error { return unix.Renameat(t.dir, temp, t.dir, t.base) })
	}
	if err != nil {
		return err
	}
	if o.Sync {
		return sys.SyncDir(t.dir)
	}
	return nil
}

// holds reports, as an error, whether the target is a regular file whose bytes have
// another hash than want.
func (t target) holds(ctx context.Context, want string) error {
	fd, st, err := openRegularAt(t.dir, t.base)
	if spec.CodeOf(err) == spec.CodeNotRegular {
		return spec.New(spec.CodeExists, "it is no regular file any more")
	}
	if err != nil {
		return err
	}
	in, err := newFile(fd, &st, t.base, t.base)
	if err != nil {
		return err
	}
	defer in.Close()
	hash := sha256.New()
	if err := copyBytes(ctx, hash, in); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); !strings.EqualFold(got, want) {
		return spec.New(spec.CodeExists, "its content has another SHA-256: "+got)
	}
	return nil
}
