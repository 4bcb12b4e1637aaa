//go:build linux

package confine

import (
	"bytes"
	"encoding/binary"
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

// statName is the name of an inode by what stat(2) says of it.
func statName(st *unix.Stat_t) name {
	return name{dev: kernelDev(unix.Major(st.Dev), unix.Minor(st.Dev)), inode: uint32(st.Ino)}
}

// inodeName is the name of the inode that fd is open on as the kernel's own tables have
// it: some file systems, btrfs and overlay among them, give stat other numbers than they use
// themselves. It is the zero name, which is nobody's, where the kernel does not say.
func inodeName(fd int) name {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return name{}
	}
	inode, ok1 := field(string(info), "ino:")
	mount, ok2 := field(string(info), "mnt_id:")
	if !ok1 || !ok2 {
		return name{}
	}
	dev, ok := mountDev(mount)
	if !ok {
		return name{}
	}
	return name{dev: dev, inode: uint32(inode)}
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
