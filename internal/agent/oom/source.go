//go:build linux

package oom

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Group is the memory control group that commands are counted in.
type Group struct {
	// Dir is its directory; "": none can be read.
	Dir string
	// Own: the place has it to itself, so that its limit is the place's.
	Own bool
}

// source counts the processes that were killed for want of memory.
type source struct {
	fd    int // of the file with the counter
	field string
	// limits are said by the files of dir; "" for the machine.
	dir     string
	own     bool
	unified bool
}

// open opens the best source there is; nil: there is none.
func open(g Group) *source {
	try := func(path, field string, s source) *source {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil
		}
		s.fd, s.field = fd, field
		if _, err := s.count(s.field); err != nil {
			unix.Close(fd)
			return nil
		}
		return &s
	}
	if g.Dir != "" {
		events := "memory.events"
		if !g.Own {
			events = "memory.events.local" // what others do below is none of ours
		}
		if s := try(filepath.Join(g.Dir, events), "oom_kill", source{dir: g.Dir, own: g.Own, unified: true}); s != nil {
			return s
		}
		if s := try(filepath.Join(g.Dir, "memory.oom_control"), "oom_kill", source{dir: g.Dir, own: g.Own}); s != nil {
			return s
		}
	}
	return try("/proc/vmstat", "oom_kill", source{})
}

// count reads one counter of the file.
func (s *source) count(field string) (int64, error) {
	buf := make([]byte, 512)
	if s.dir == "" {
		buf = make([]byte, 32<<10) // vmstat
	}
	n, err := unix.Pread(s.fd, buf, 0)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(buf[:n]) {
		name, value, ok := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte{' '})
		if ok && string(name) == field {
			return strconv.ParseInt(string(value), 10, 64)
		}
	}
	return 0, errors.New("no such counter")
}

// machine reports whether only the machine's own count is to be had.
func (s *source) machine() bool { return s.dir == "" }

// number reads a file of the group, in v2 or in v1; 0: it says nothing, or no limit.
func (s *source) number(v2, v1 string) int64 {
	name := v1
	if s.unified {
		name = v2
	}
	if s.dir == "" {
		return 0
	}
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	const none = 1 << 60 // what v1 has for no limit is near the end of the range
	if err != nil || n < 0 || n >= none {
		return 0
	}
	return n
}

func (s *source) limit() int64   { return s.number("memory.max", "memory.limit_in_bytes") }
func (s *source) peak() int64    { return s.number("memory.peak", "memory.max_usage_in_bytes") }
func (s *source) current() int64 { return s.number("memory.current", "memory.usage_in_bytes") }

func (s *source) close() { unix.Close(s.fd) }
