//go:build linux

package confine

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxAddress is sizeof(struct sockaddr_storage): the kernel takes no longer address.
const maxAddress = 128

// pidfdThread is PIDFD_THREAD of Linux 6.9.
const pidfdThread = unix.O_EXCL

// duplicate returns a descriptor of this process's own for descriptor fd of the caller.
// Its errors are those that the call is to end with.
func duplicate(c *call, fd int) (int, error) {
	pidfd, err := openTask(int(c.tid))
	if err != nil {
		return -1, unix.EACCES
	}
	defer unix.Close(pidfd)
	own, err := unix.PidfdGetfd(pidfd, fd, 0)
	switch err {
	case unix.EPERM: // the caller cannot be looked into
		return -1, unix.EACCES
	case unix.EMFILE, unix.ENFILE: // it is this process that has too many
		return -1, unix.EAGAIN
	}
	return own, err
}

// openTask opens a thread, or its process where the kernel does not know more: their
// descriptors are the same but in programs that took care that they are not.
func openTask(tid int) (int, error) {
	fd, err := unix.PidfdOpen(tid, pidfdThread)
	if err != unix.EINVAL {
		return fd, err
	}
	if fd, err = unix.PidfdOpen(tid, 0); err == nil {
		return fd, nil
	}
	leader, err := leaderOf(tid)
	if err != nil {
		return -1, err
	}
	return unix.PidfdOpen(leader, 0)
}

// leaderOf is the process of a thread.
func leaderOf(tid int) (int, error) {
	status, err := os.ReadFile(procPath(tid) + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("\nTgid:\t"))
	text, _, _ := bytes.Cut(rest, []byte("\n"))
	return strconv.Atoi(string(text))
}

func procPath(tid int) string { return "/proc/" + strconv.Itoa(tid) }

// address copies the address that a call names from the caller's memory.
func address(c *call) ([]byte, error) {
	size := int32(c.args[2])
	switch {
	case size < 0 || size > maxAddress:
		return nil, unix.EINVAL
	case size == 0:
		return nil, nil
	}
	return copied(c, c.args[1], int(size))
}

// copied copies bytes from the caller's memory.
func copied(c *call, at uint64, size int) ([]byte, error) {
	buf := make([]byte, size)
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	remote := []unix.RemoteIovec{{Base: uintptr(at), Len: size}}
	n, err := unix.ProcessVMReadv(int(c.tid), local, remote, 0)
	switch {
	case err == unix.EPERM:
		return nil, unix.EACCES
	case err != nil || n != size:
		return nil, unix.EFAULT
	}
	return buf, nil
}

// lookUp opens, without any access to it, what a path means to the caller, whose root is
// that of every process here: none can change it.
func lookUp(c *call, path string) (int, error) {
	task := procPath(int(c.tid))
	// What these lead to depends on who asks.
	for _, own := range [][2]string{{"/proc/self/", "/"}, {"/proc/thread-self/", "/"}, {"/dev/fd/", "/fd/"}} {
		if rest, ok := strings.CutPrefix(path, own[0]); ok {
			return openPath(task + own[1] + rest)
		}
	}
	if !strings.HasPrefix(path, "/") {
		path = task + "/cwd/" + path
	}
	return openPath(path)
}

func openPath(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		switch err {
		case unix.EINTR:
			continue
		case unix.EMFILE, unix.ENFILE:
			return -1, unix.EAGAIN
		}
		return fd, err
	}
}

// connect is connect(2) of the guest itself, with its pass.
func connect(fd int, address []byte, p pass) unix.Errno {
	var at unsafe.Pointer
	if len(address) > 0 {
		at = unsafe.Pointer(&address[0])
	}
	_, _, errno := unix.Syscall6(unix.SYS_CONNECT, uintptr(fd), uintptr(at), uintptr(len(address)), uintptr(p[0]), uintptr(p[1]), uintptr(p[2]))
	return errno
}

// readSelf reads this process's own memory as that of a caller is read.
func readSelf() error {
	const word = "word" // constant, so that the runtime does not move it
	c := call{tid: uint32(unix.Getpid())}
	c.args[1], c.args[2] = uint64(uintptr(unsafe.Pointer(unsafe.StringData(word)))), uint64(len(word))
	_, err := address(&c)
	return err
}
