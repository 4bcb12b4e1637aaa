//go:build linux

package confine_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// scenarios are what commands do. Each prints one line for each thing that it has tried.
var scenarios = map[string]func(args []string) error{
	"true":        func([]string) error { return nil },
	"connect":     connectTo,
	"inside":      inside,
	"swap":        swap,
	"signals":     signals,
	"denied":      denied,
	"exec":        execute,
	"nested":      nested,
	"latency":     latency,
	"later":       later,
	"semantics":   semantics,
	"blocked":     blocked,
	"dial":        dialPort,
	"interrupted": interrupted,
	"many":        many,
	"processes":   processes,
	"modes":       modes,
	"turncoat":    turncoat,
	"contrary":    contrary,
	"flags":       sameFlags,
	"crowd":       crowd,
	"alias":       alias,
}

// address builds a unix address; a name that begins with @ is abstract, and \0 in it a NUL.
func address(name string) []byte {
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX)
	if rest, ok := strings.CutPrefix(name, "@"); ok {
		return append(append(b, 0), strings.ReplaceAll(rest, `\0`, "\x00")...)
	}
	b = append(b, name...)
	if len(name) < 108 {
		b = append(b, 0)
	}
	return b
}

// call is a system call whose first argument is a descriptor and whose second an address.
func call(number uintptr, fd int, addr []byte) error {
	if _, _, errno := unix.Syscall(number, uintptr(fd), uintptr(unsafe.Pointer(&addr[0])), uintptr(len(addr))); errno != 0 {
		return errno
	}
	return nil
}

func errnoOrNil(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func bufPointer(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }

func socket(kind int) (int, error) {
	return unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
}

// dial connects a new socket and closes it.
func dial(kind int, name string) error {
	fd, err := socket(kind)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return call(unix.SYS_CONNECT, fd, address(name))
}

// listen binds a new socket and listens on it.
func listen(kind int, name string, backlog int) (int, error) {
	fd, err := socket(kind)
	if err == nil {
		err = call(unix.SYS_BIND, fd, address(name))
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	return fd, err
}

// connectTo tries each name as a stream and as a packet socket.
func connectTo(names []string) error {
	for _, n := range names {
		fmt.Println(n, name(dial(unix.SOCK_STREAM, n)), name(dial(unix.SOCK_SEQPACKET, n)))
	}
	return nil
}

// converse checks that a listener gets exactly one connection and that bytes pass.
func converse(l, kind int, target string) error {
	fd, err := socket(kind)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := call(unix.SYS_CONNECT, fd, address(target)); err != nil {
		return err
	}
	far, _, err := unix.Accept(l)
	if err != nil {
		return err
	}
	defer unix.Close(far)
	if _, err := unix.Write(fd, []byte("ping")); err != nil {
		return err
	}
	buf := make([]byte, 16)
	n, err := unix.Read(far, buf)
	if err != nil || string(buf[:n]) != "ping" {
		return fmt.Errorf("got %q, %v", buf[:n], err)
	}
	if err := unix.SetNonblock(l, true); err != nil {
		return err
	}
	defer unix.SetNonblock(l, false)
	if extra, _, err := unix.Accept(l); err != unix.EAGAIN {
		return fmt.Errorf("a second connection: %d, %v", extra, err)
	}
	return nil
}
