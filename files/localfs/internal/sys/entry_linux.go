package sys

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// FileMode converts a kernel mode to the one of io/fs.
func FileMode(m uint32) fs.FileMode {
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

// direntBytes is how much is read of a directory at a time.
const direntBytes = 32 << 10

// ErrDirent says that the kernel returned no entries but something.
var ErrDirent = errors.New("the kernel returned a broken directory entry")

// Entries calls each with the entries of a directory, "." and ".." left out, until it
// returns an error. kind is the type bits of a mode; one that is not known is
// fs.ModeIrregular. fd is open for reading.
func Entries(fd int, each func(name string, kind fs.FileMode) error) error {
	buf := make([]byte, direntBytes)
	for {
		n := 0
		err := Retry(func() (err error) {
			n, err = unix.Getdents(fd, buf)
			return err
		})
		if err != nil || n == 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			var name string
			var kind fs.FileMode
			var ok bool
			if name, kind, rest, ok = nextEntry(rest); !ok {
				return ErrDirent
			}
			if name == "." || name == ".." {
				continue
			}
			if err := each(name, kind); err != nil {
				return err
			}
		}
	}
}

// The layout of a struct linux_dirent64: inode, offset, length, type, name.
const (
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

// nextEntry parses the first entry of what getdents returned.
func nextEntry(buf []byte) (name string, kind fs.FileMode, rest []byte, ok bool) {
	if len(buf) < direntName {
		return "", 0, nil, false
	}
	length := int(binary.NativeEndian.Uint16(buf[direntLength:]))
	if length < direntName || length > len(buf) {
		return "", 0, nil, false
	}
	text := buf[direntName:length]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	kind = fs.ModeIrregular
	if b := buf[direntType]; b != unix.DT_UNKNOWN {
		kind = FileMode(uint32(b) << 12).Type() // as in a mode: S_IFMT is 0170000
	}
	return string(text), kind, buf[length:], true
}
