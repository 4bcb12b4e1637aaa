package sys

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"
)

// mountsAge is how long what was read of the mounts is good: a walk asks for each of
// its directories.
const mountsAge = time.Second

// Mounts knows the names of the places where something is mounted. The zero value is
// ready; it is safe for concurrent use. A mount that is younger than a second may be
// missing.
type Mounts struct {
	mu    sync.Mutex
	until time.Time
	names MountNames
}

// MountNames are the last elements of all mount points.
type MountNames struct {
	known bool
	names map[string]bool
}

// Names returns the names as they are now.
func (m *Mounts) Names() MountNames {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.After(m.until) {
		data, err := os.ReadFile("/proc/self/mountinfo")
		m.names, m.until = mountNames(data), now.Add(mountsAge)
		m.names.known = err == nil
	}
	return m.names
}

// Has reports whether something may be mounted on what has a name, in whatever
// directory. Where the kernel does not tell its mounts that is true of every name.
func (n MountNames) Has(name string) bool { return !n.known || n.names[name] }

// mountNames reads /proc/self/mountinfo.
func mountNames(data []byte) MountNames {
	n := MountNames{names: make(map[string]bool)}
	const mountPoint = 4 // the field of a line
	for line := range bytes.Lines(data) {
		if fields := bytes.Fields(line); len(fields) > mountPoint {
			point := fields[mountPoint]
			n.names[unescape(point[bytes.LastIndexByte(point, '/')+1:])] = true
		}
	}
	return n
}

// unescape undoes the octal escapes of a field.
func unescape(field []byte) string {
	out := make([]byte, 0, len(field))
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+3 < len(field) {
			if b, err := strconv.ParseUint(string(field[i+1:i+4]), 8, 8); err == nil {
				out = append(out, byte(b))
				i += 3
				continue
			}
		}
		out = append(out, field[i])
	}
	return string(out)
}
