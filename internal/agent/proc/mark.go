//go:build linux

package proc

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// marks gives each command a number that its processes inherit, whatever they do to
// their parents, sessions and environments: their soft limit on file locks, which no
// kernel since 2.4 enforces and any process may read. The hard limit stays, so that
// nothing is refused to a command. A process can put its mark off, by setting that very
// limit; those that are not after it do not.
type marks struct {
	base uint64 // random: the marks of two guests, one inside of the other, differ
	none bool   // the hard limit leaves no room

	mu   sync.Mutex // held while a child is forked that is to have the latest mark
	last uint64
}

func newMarks() *marks {
	var random [8]byte
	rand.Read(random[:])
	// Far from what a person sets, and from having no limit.
	m := &marks{base: 1<<61 | binary.LittleEndian.Uint64(random[:])>>4}
	m.last = m.base
	var now unix.Rlimit
	m.none = unix.Getrlimit(limitLocks, &now) != nil || now.Max != unix.RLIM_INFINITY
	return m
}

// limitLocks is RLIMIT_LOCKS.
const limitLocks = 10

// with runs fork with a new mark on this process, which its child inherits.
func (m *marks) with(fork func() (int, error)) (pid int, mark uint64, err error) {
	if m.none {
		pid, err = fork()
		return pid, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	limit := unix.Rlimit{Cur: m.last, Max: unix.RLIM_INFINITY}
	if unix.Prlimit(0, limitLocks, &limit, nil) == nil {
		mark = m.last
	}
	pid, err = fork()
	return pid, mark, err
}

// of returns the mark of a process; 0: it has none that this guest has given.
func (m *marks) of(pid int) uint64 {
	if m.none {
		return 0
	}
	var limit unix.Rlimit
	if unix.Prlimit(pid, limitLocks, nil, &limit) != nil { // another user's
		limit.Cur = locksOf(pid)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if limit.Cur <= m.base || limit.Cur > m.last {
		return 0
	}
	return limit.Cur
}

// locksOf is the soft limit as /proc tells it to everybody; 0: it has none.
func locksOf(pid int) uint64 {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	_, rest, _ := bytes.Cut(data, []byte("\nMax file locks "))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseUint(string(fields[0]), 10, 64)
	return n
}
