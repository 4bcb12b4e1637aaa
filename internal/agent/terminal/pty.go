//go:build linux

// Package terminal is the terminals of a place: programs on pseudo-terminals that belong to
// the place, their scrollback and their viewers.
package terminal

import (
	"os"

	"github.com/creack/pty"

	"github.com/berth-dev/berth/spec"
)

// open makes a pseudo-terminal of a size.
func open(size spec.TerminalSize) (master, slave *os.File, err error) {
	master, slave, err = pty.Open()
	if err != nil {
		return nil, nil, err
	}
	if err := pty.Setsize(master, &pty.Winsize{Cols: uint16(size.Cols), Rows: uint16(size.Rows)}); err != nil {
		master.Close()
		slave.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

var _ = open
