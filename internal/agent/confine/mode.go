//go:build linux

package confine

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/openat2"
)

// changesMode reports whether a call is one of those of chmod.
func (a *abi) changesMode(number uint32) bool {
	return number == sysFchmodat2 || number == a.fchmodat || number == a.fchmod || number == a.chmod
}

// chmod answers the calls that give a file a set-user-ID or set-group-ID bit. On a directory
// neither gives anybody rights, and the second is inherited, so that programs ask for it
// who only keep what they have found: there the guest does what was asked. On all else it
// is refused.
func (g *gate) chmod(c *call, a *abi) {
	fd, mode, err := g.modeOf(c, a)
	if err != nil {
		g.queue.reply(c.id, errnoOf(err))
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		g.queue.reply(c.id, errnoOf(err))
		return
	}
	errno := syscall.Errno(unix.EPERM)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && g.queue.waits(c.id) {
		errno = fchmod(fd, mode, g.pass)
	}
	g.queue.reply(c.id, errno)
}

// modeOf opens what a call is about, and says which mode it is to have.
func (g *gate) modeOf(c *call, a *abi) (fd int, mode uint32, err error) {
	switch uint32(c.number) {
	case a.fchmod:
		fd, err = duplicate(c, int(int32(c.args[0])))
		return fd, uint32(c.args[1]), err
	case a.chmod:
		fd, err = openAt(c, unix.AT_FDCWD, c.args[0], 0)
		return fd, uint32(c.args[1]), err
	}
	var flags uint32
	if uint32(c.number) == sysFchmodat2 {
		flags = uint32(c.args[3])
	}
	fd, err = openAt(c, int(int32(c.args[0])), c.args[1], flags)
	return fd, uint32(c.args[2]), err
}

// openAt opens, without any access to it, what a name in the caller's memory means to it.
// What leads through a magic link of /proc is refused, but for a descriptor of the caller:
// there it means something else to the guest.
func openAt(c *call, dir int, name uint64, flags uint32) (int, error) {
	if flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return -1, unix.EINVAL
	}
	path, err := text(c, name)
	if err != nil {
		return -1, err
	}
	if n, ok := ownDescriptor(path); ok { // how C libraries chmod what they hold open
		return duplicate(c, n)
	}
	base := unix.AT_FDCWD
	switch {
	case path == "" && flags&unix.AT_EMPTY_PATH == 0:
		return -1, unix.ENOENT
	case path != "" && path[0] == '/':
	case dir == unix.AT_FDCWD:
		base, err = openPath(procPath(int(c.tid)) + "/cwd")
	default:
		base, err = duplicate(c, dir)
	}
	if err != nil {
		return -1, err
	}
	if path == "" {
		return base, nil
	}
	if base != unix.AT_FDCWD {
		defer unix.Close(base)
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		how.Flags |= unix.O_NOFOLLOW
	}
	for {
		fd, err := openat2.Open(base, path, &how)
		switch err {
		case unix.EINTR, unix.EAGAIN:
			continue
		case unix.EMFILE, unix.ENFILE:
			return -1, unix.ENOMEM
		case unix.ELOOP:
			return -1, unix.EPERM
		}
		return fd, err
	}
}

// ownDescriptor returns the descriptor that a path stands for, if it is a plain name of one.
func ownDescriptor(path string) (int, bool) {
	for _, dir := range []string{"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"} {
		if rest, ok := strings.CutPrefix(path, dir); ok {
			n, err := strconv.ParseUint(rest, 10, 31)
			return int(n), err == nil
		}
	}
	return 0, false
}

// text copies a string that ends with a NUL from the caller's memory, page by page: the
// next one may not be there.
func text(c *call, at uint64) (string, error) {
	var all []byte
	page := uint64(os.Getpagesize())
	for len(all) < unix.PathMax {
		buf, err := copied(c, at, int(page-at%page))
		if err != nil {
			return "", err
		}
		if found, _, ok := bytes.Cut(buf, []byte{0}); ok {
			all = append(all, found...)
			if len(all) >= unix.PathMax {
				break
			}
			return string(all), nil
		}
		all = append(all, buf...)
		at += uint64(len(buf))
	}
	return "", unix.ENAMETOOLONG
}

// fchmod is chmod(2) of the guest itself, with its pass, on what a descriptor stands for.
func fchmod(fd int, mode uint32, p pass) syscall.Errno {
	name, err := unix.BytePtrFromString("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return unix.EINVAL
	}
	at := unix.AT_FDCWD
	_, _, errno := unix.Syscall6(unix.SYS_FCHMODAT, uintptr(at), uintptr(unsafe.Pointer(name)), uintptr(mode&0o7777), uintptr(p[0]), uintptr(p[1]), uintptr(p[2]))
	return errno
}
