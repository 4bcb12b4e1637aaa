//go:build linux

package terminal

import (
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// Available reports whether a pseudo-terminal can be made here.
func Available() bool { return unix.Access("/dev/ptmx", unix.R_OK|unix.W_OK) == nil }

// Open makes a pseudo-terminal of a size. master does not block, slave is for a program.
func Open(size spec.TerminalSize) (master, slave *os.File, err error) {
	made, slave, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer made.Close() // its Fd has made it one that blocks
	fd, err := unix.FcntlInt(made.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		if err = unix.SetNonblock(fd, true); err == nil {
			err = setSize(fd, size)
		}
		if err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		slave.Close()
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), "terminal"), slave, nil
}

// setSize sets the size, of which the kernel tells the foreground if it changes.
func setSize(fd int, size spec.TerminalSize) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(size.Cols), Row: uint16(size.Rows)})
}

// notify tells the foreground that the size may have changed.
func notify(fd int) {
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && group > 1 {
		_ = unix.Kill(-group, unix.SIGWINCH)
	}
}
