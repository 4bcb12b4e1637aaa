//go:build linux

package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Groups hands out a control group for each command, where the guest can make
// them. Empty ones are used again: making one costs a quarter of a fork. A nil
// *Groups has none to give.
type Groups struct {
	base string

	mu      sync.Mutex
	next    int
	free    []*Group
	waiting []*Group // a background child of a command that ended lives there
}

// Group is one control group, held open.
type Group struct {
	dir    string
	fd     int
	events int
	// killed: a process that is started in a group that has once been killed
	// is killed too, by some kernels, so it is not used again.
	killed atomic.Bool
}

// maxFreeGroups bounds the empty groups that wait for the next command.
const maxFreeGroups = 8

// NewGroups makes the directory for the groups below the guest's own one. It
// returns nil where that is not possible, which is usual inside a container.
func NewGroups() *Groups {
	for _, own := range ownCgroups("/proc/self/mountinfo", "/proc/self/cgroup") {
		removeStale(own)
		g := &Groups{base: filepath.Join(own, cgroupName(os.Getpid()))}
		if err := os.Mkdir(g.base, 0o755); err != nil {
			continue
		}
		if first := g.Take(); first != nil {
			if _, err := os.Stat(filepath.Join(first.dir, "cgroup.kill")); err == nil {
				g.Release(first)
				return g
			}
			first.remove()
		}
		os.Remove(g.base)
	}
	return nil
}

// ownCgroups lists the directories that are this process's own group in each
// mounted cgroup2 hierarchy that shows it.
func ownCgroups(mountinfo, membership string) []string {
	text, err := os.ReadFile(membership)
	if err != nil {
		return nil
	}
	own := ""
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			own = path
		}
	}
	mounts, err := os.ReadFile(mountinfo)
	if err != nil || own == "" {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(mounts)) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		root, point := fields[3], fields[4]
		below, ok := strings.CutPrefix(own, strings.TrimSuffix(root, "/"))
		if ok && (below == "" || below[0] == '/') && !strings.Contains(point, `\`) {
			out = append(out, filepath.Join(point, below))
		}
	}
	return out
}

// cgroupName names the directory of the guest with this pid, so that a later guest
// can tell that its owner is gone: pid namespace, pid, start.
func cgroupName(pid int) string {
	p, _ := ReadStat(pid)
	return fmt.Sprintf("berth-%d-%d-%d", pidNamespace(), pid, p.Start)
}

func pidNamespace() uint64 {
	var st unix.Stat_t
	_ = unix.Stat("/proc/self/ns/pid", &st)
	return st.Ino
}

// removeStale removes what guests that were killed have left behind in own. The
// kernel refuses to remove a group that is in use.
func removeStale(own string) {
	names, err := readNames(own)
	if err != nil {
		return
	}
	for _, name := range names {
		parts := strings.Split(name, "-")
		if len(parts) != 4 || parts[0] != "berth" || parts[1] != strconv.FormatUint(pidNamespace(), 10) {
			continue
		}
		if pid, ok := parsePID(parts[2]); ok && name != cgroupName(pid) {
			removeGroups(filepath.Join(own, name))
		}
	}
}

// removeGroups removes dir and the groups below it, deepest first.
func removeGroups(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeGroups(filepath.Join(dir, e.Name()))
		}
	}
	_ = unix.Rmdir(dir)
}

// Take returns an empty group, or nil if there is none to be had.
func (g *Groups) Take() *Group {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.free); n > 0 {
		c := g.free[n-1]
		g.free = g.free[:n-1]
		return c
	}
	g.next++
	c := &Group{dir: filepath.Join(g.base, strconv.Itoa(g.next)), fd: -1, events: -1}
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return nil
	}
	var err error
	if c.fd, err = unix.Open(c.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		c.events, err = unix.Open(filepath.Join(c.dir, "cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		c.remove()
		return nil
	}
	return c
}

// Release takes a group back. One in which a background child lives is kept until
// sweep finds it empty.
func (g *Groups) Release(c *Group) {
	if g == nil || c == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case c.populated():
		g.waiting = append(g.waiting, c)
	case !c.killed.Load() && len(g.free) < maxFreeGroups:
		g.free = append(g.free, c)
	default:
		c.remove()
	}
}

// Sweep takes back the groups that have become empty.
func (g *Groups) Sweep() {
	if g == nil {
		return
	}
	g.mu.Lock()
	waiting := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	for _, c := range waiting {
		g.Release(c)
	}
}

// Close kills whatever is left in any group and removes them all.
func (g *Groups) Close() {
	if g == nil {
		return
	}
	base := Group{dir: g.base}
	base.kill()
	for range 100 { // an exiting process leaves its group a moment after its end
		removeGroups(g.base)
		if _, err := os.Stat(g.base); os.IsNotExist(err) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// populated reports whether a live process is in the group or below it.
func (c *Group) populated() bool {
	var buf [256]byte
	n, err := unix.Pread(c.events, buf[:], 0)
	return err != nil || !bytes.Contains(buf[:n], []byte("populated 0"))
}

// procs returns the pids in the group; a nil group has none.
func (c *Group) procs() map[int]bool {
	if c == nil {
		return nil
	}
	data, _ := os.ReadFile(filepath.Join(c.dir, "cgroup.procs"))
	pids := map[int]bool{}
	for line := range strings.Lines(string(data)) {
		if pid, ok := parsePID(strings.TrimSuffix(line, "\n")); ok {
			pids[pid] = true
		}
	}
	return pids
}

// kill sends KILL to every process in the group and below it, and to what they
// fork meanwhile.
func (c *Group) kill() {
	c.killed.Store(true)
	_ = os.WriteFile(filepath.Join(c.dir, "cgroup.kill"), []byte("1"), 0)
}

func (c *Group) remove() {
	if c.fd >= 0 {
		unix.Close(c.fd)
	}
	if c.events >= 0 {
		unix.Close(c.events)
	}
	removeGroups(c.dir)
}
