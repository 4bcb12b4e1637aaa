//go:build linux

package confine

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The size of sun_family and of struct sockaddr_un.
const (
	familyBytes     = 2
	unixAddressMost = 110
)

// unixName returns what a unix address names, as the kernel reads it: an abstract name
// with its leading NUL, or a path. It reports false for what is no address of a name.
func unixName(address []byte) ([]byte, bool) {
	if len(address) <= familyBytes || len(address) > unixAddressMost || binary.NativeEndian.Uint16(address) != unix.AF_UNIX {
		return nil, false
	}
	n := address[familyBytes:]
	if n[0] == 0 {
		return n, true
	}
	path, _, _ := bytes.Cut(n, []byte{0})
	return path, true
}

// unixAddress is the address of a path.
func unixAddress(path string) []byte {
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX)
	return append(append(b, path...), 0)
}

// bindName is the name by which the kernel's own tables know the unix socket that is bound
// to the inode on which fd is open, or false: none of this place can be, or that name could
// be another inode's as well. Its number is one of 32 bits.
func bindName(fd int, st *unix.Stat_t) (name, bool) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Flags&unix.ST_RDONLY != 0 {
		return name{}, false // to bind is to write
	}
	n, number := statName(st), st.Ino
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		n, number = inodeName(fd)
	}
	return n, n.bound() && number <= math.MaxUint32 && numbersOnce(&fs)
}

// zfsMagic is that of OpenZFS.
const zfsMagic = 0x2fc12fc1

// numbersOnce reports whether a file system has no two inodes whose numbers agree in their
// lower 32 bits. btrfs and bcachefs number those of each subvolume from the beginning, and
// those of a network or of a program in user space are what somebody else says.
func numbersOnce(fs *unix.Statfs_t) bool {
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC: // they have no more bits
		return true
	case unix.TMPFS_MAGIC, zfsMagic: // they count up
		return true
	case unix.OVERLAYFS_SUPER_MAGIC: // what is bound in it is in its upper layer, one file system
		return true
	case unix.XFS_SUPER_MAGIC:
		// A number says where the inode is: up to 512 GiB, of which statfs leaves out
		// the log, they have 32 bits at the most.
		return fs.Blocks < 508<<30/uint64(max(fs.Bsize, 1))
	}
	return false
}

// statName is the name of an inode by what stat(2) says of it.
func statName(st *unix.Stat_t) name {
	return name{dev: kernelDev(unix.Major(st.Dev), unix.Minor(st.Dev)), inode: uint32(st.Ino)}
}

// inodeName is the name of the inode that fd is open on as the kernel's own tables have
// it, and its whole number: overlay gives stat other ones than it uses itself. It is the zero
// name, which is nobody's, where the kernel does not say.
func inodeName(fd int) (name, uint64) {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return name{}, 0
	}
	inode, ok1 := field(string(info), "ino:")
	mount, ok2 := field(string(info), "mnt_id:")
	if !ok1 || !ok2 {
		return name{}, 0
	}
	dev, ok := mountDev(mount)
	if !ok {
		return name{}, 0
	}
	return name{dev: dev, inode: uint32(inode)}, inode
}

// field is the number that follows a word at the beginning of a line.
func field(text, word string) (uint64, bool) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, word); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// mountDev is the device of a mount, as the kernel has it.
func mountDev(id uint64) (uint32, bool) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, false
	}
	want := strconv.FormatUint(id, 10)
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != want {
			continue
		}
		major, minor, _ := strings.Cut(fields[2], ":")
		a, err1 := strconv.ParseUint(major, 10, 12)
		b, err2 := strconv.ParseUint(minor, 10, 20)
		return kernelDev(uint32(a), uint32(b)), err1 == nil && err2 == nil
	}
	return 0, false
}

// kernelDev is MKDEV of the kernel, whose dev_t differs from that of programs.
func kernelDev(major, minor uint32) uint32 { return major<<20 | minor }
