//go:build linux

package proc

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Stat is what /proc says of one process. PID and Start together name it: a
// pid alone may have been given to another.
type Stat struct {
	PID, PPID, Group, Session int
	state                     byte
	threads                   int
	Start                     uint64 // ticks since boot
	name                      string
}

// dead reports a process that only waits to be reaped. One whose first thread has ended alone
// looks like that and runs on in the others.
func (p *Stat) dead() bool {
	return (p.state == 'Z' || p.state == 'X' || p.state == 'x') && p.threads <= 1
}

// Stopped reports a process that a signal has stopped, until it gets CONT.
func (p *Stat) Stopped() bool { return p.state == 'T' }

// ReadStat reads /proc/<pid>/stat.
func ReadStat(pid int) (Stat, bool) {
	var buf [1024]byte
	data := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	return parseStat(data)
}

// parseStat parses "pid (name) state ppid pgrp session ...", where the name may
// hold anything, parentheses and newlines included.
func parseStat(data []byte) (Stat, bool) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return Stat{}, false
	}
	const threadsField, startField = 20 - 3, 22 - 3 // of those behind the name
	rest := bytes.Fields(data[end+1:])
	if len(rest) <= startField || len(rest[0]) != 1 {
		return Stat{}, false
	}
	p := Stat{state: rest[0][0], name: string(data[open+1 : end])}
	for _, f := range []struct {
		into *int
		text []byte
	}{{&p.PID, bytes.TrimSpace(data[:open])}, {&p.PPID, rest[1]}, {&p.Group, rest[2]}, {&p.Session, rest[3]}, {&p.threads, rest[threadsField]}} {
		n, err := strconv.Atoi(string(f.text))
		if err != nil {
			return Stat{}, false
		}
		*f.into = n
	}
	start, err := strconv.ParseUint(string(rest[startField]), 10, 64)
	p.Start = start
	return p, err == nil
}

// scan describes every process that can be seen.
func scan() ([]Stat, error) {
	names, err := readNames("/proc")
	if err != nil {
		return nil, err
	}
	var out []Stat
	for _, name := range names {
		if pid, ok := parsePID(name); ok {
			if p, ok := ReadStat(pid); ok {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// environHas reports whether the process was started with entry in its environment.
func environHas(pid int, entry string) bool {
	const most = 4 << 20 // over the kernel's limit for arguments and environment
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	defer f.Close()
	var data []byte
	buf := make([]byte, 16<<10)
	for len(data) < most {
		n, err := f.Read(buf)
		data = append(data, buf[:n]...)
		if err != nil {
			break
		}
	}
	for _, e := range bytes.Split(data, []byte{0}) {
		if string(e) == entry {
			return true
		}
	}
	return false
}

// signalProcess signals p, or nobody if its pid belongs to another process by now.
func signalProcess(p Stat, sig unix.Signal) {
	same := func() bool {
		now, ok := ReadStat(p.PID)
		return ok && now.Start == p.Start
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		if err != unix.ESRCH && same() { // a kernel without pidfds: as near as it gets
			_ = unix.Kill(p.PID, sig)
		}
		return
	}
	defer unix.Close(fd)
	if same() {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

func parsePID(name string) (int, bool) {
	if name == "" || name[0] < '0' || name[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(name)
	return n, err == nil
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// readSmall reads a file of /proc or of a cgroup into buf in one call; nil if it
// cannot.
func readSmall(path string, buf []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}
