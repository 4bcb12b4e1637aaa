package kernelfile

import (
	"bytes"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// maxBytes is the most that is read of a file whose size is unknown.
const maxBytes = 4 << 20

// Is reports whether a regular file is made up by the kernel while it is
// read, so that its size says nothing. No such file has blocks on a disk.
func Is(fd int, st *unix.Stat_t) bool {
	if st.Blocks != 0 {
		return false
	}
	var fsys unix.Statfs_t
	if err := sys.Retry(func() error { return unix.Fstatfs(fd, &fsys) }); err != nil {
		return false
	}
	switch uint32(fsys.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
		unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC:
		return true
	}
	return false
}

// Read reads the whole of the file; more than 4 MiB are CodeTooLarge. A file that has
// nothing to give now and may have something later is no regular one, whatever it
// claims: reading answers EAGAIN.
func Read(fd int) ([]byte, error) {
	var data bytes.Buffer
	n, err := io.Copy(&data, io.LimitReader(rawReader(fd), maxBytes+1))
	if err != nil {
		return nil, err
	}
	if n > maxBytes {
		return nil, spec.New(spec.CodeTooLarge, fmt.Sprintf("a kernel file of more than %d bytes", maxBytes))
	}
	return data.Bytes(), nil
}

// rawReader reads a descriptor without waiting for it to become readable.
type rawReader int

func (r rawReader) Read(p []byte) (n int, err error) {
	err = sys.Retry(func() error {
		n, err = unix.Read(int(r), p)
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}
