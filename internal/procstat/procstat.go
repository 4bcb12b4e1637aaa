//go:build linux

// Package procstat says of a process what the kernel tells everybody.
package procstat

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Stat is what is read of /proc/<pid>/stat.
type Stat struct {
	State   byte
	PPID    int
	Threads int
	Ticks   uint64 // when it started, since the machine did
}

// ErrHidden says that a process is there, and that /proc does not show it to this user: it
// is mounted with hidepid, and the process does not let itself be looked at.
var ErrHidden = errors.New("/proc hides the process")

// Read asks for a process. There is none only if Vanished says so of the error. It is
// ErrHidden where that cannot be told.
func Read(pid int) (Stat, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && there(pid) {
		// It may have been made between the two looks.
		if data, err = os.ReadFile(path); errors.Is(err, os.ErrNotExist) && there(pid) {
			err = ErrHidden
		}
	}
	if errors.Is(err, os.ErrPermission) { // everybody may read it, unless the process is hidden
		err = ErrHidden
	}
	if err != nil {
		return Stat{}, err
	}
	// The name in parentheses may hold anything; the last one ends it.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const state, ppid, threads, startTime = 0, 1, 17, 19 // proc(5), counted from the third field
	if len(fields) <= startTime {
		return Stat{}, errors.New("/proc has an unknown form")
	}
	parent, err1 := strconv.Atoi(fields[ppid])
	count, err2 := strconv.Atoi(fields[threads])
	ticks, err3 := strconv.ParseUint(fields[startTime], 10, 64)
	return Stat{fields[state][0], parent, count, ticks}, errors.Join(err1, err2, err3)
}

// there reports whether some process has pid, whosever it is.
func there(pid int) bool { return pid > 0 && !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// Dead reports a process of which nothing runs any more. The first thread of one can have
// ended alone; it is so for a moment when a program with several threads executes another,
// as a guest does that drops root.
func (s Stat) Dead() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// Now is now in the unit of Stat.Ticks.
func Now() uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // fails on no Linux
	const perSecond = 100                            // USER_HZ, on every platform of Go's
	return uint64(now.Nano()) / (1e9 / perSecond)
}

// Vanished reports whether a file of /proc could not be read because its process is gone.
func Vanished(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH)
}
