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

// Read asks for a process. There is none only if Vanished says so of the error.
func Read(pid int) (Stat, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
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
