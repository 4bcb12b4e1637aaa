//go:build linux

package proc

import (
	"bytes"
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
	lock *os.File // of base

	mu      sync.Mutex
	next    int
	free    []*Group
	waiting []*Group // a background child of a command that ended lives there
}

// Group is one control group. Its descriptors are negative where they are not open.
type Group struct {
	dir    string
	fd     int
	events int   // cgroup.events
	stat   int   // cpu.stat
	used   usage // before the present command
	// killed: a process that is started in a group that has once been killed
	// is killed too, by some kernels, so it is not used again.
	killed atomic.Bool
}

// maxFreeGroups bounds the empty groups that wait for the next command.
const maxFreeGroups = 8

// NewGroups makes the directory for the groups below the guest's own one, and
// removes those of guests that are dead. It returns nil where none can be made, which
// is usual inside a container.
func NewGroups() *Groups {
	for _, own := range ownCgroups("/proc/self/mountinfo", "/proc/self/cgroup") {
		removeStale(own)
		g := &Groups{}
		if !g.found(own) {
			continue
		}
		if first := g.Take(); first != nil {
			if _, err := os.Stat(filepath.Join(first.dir, "cgroup.kill")); err == nil {
				g.Release(first)
				return g
			}
			first.remove()
		}
		g.lock.Close()
		os.Remove(g.base)
	}
	return nil
}

// groupPrefix begins the name of a guest's directory of groups.
const groupPrefix = "berth-guest-"

// found makes the directory and locks it: a lock ends with its holder, so that a
// later guest can tell that this one is dead.
func (g *Groups) found(own string) bool {
	for range 3 { // another guest may take a directory that is not locked yet for stale
		base, err := os.MkdirTemp(own, groupPrefix)
		if err != nil {
			return false
		}
		lock, err := os.Open(base)
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			if _, err := os.Stat(base); err == nil {
				g.base, g.lock = base, lock
				return true
			}
		}
		lock.Close()
	}
	return false
}

// removeStale ends and removes what guests that were killed have left behind in own:
// a place is over when its guest is dead, and nobody else knows its commands. A group
// whose processes take a moment to end is removed at the next start.
func removeStale(own string) {
	const most = 64 // looked at: each start clears away some
	dirs, err := filepath.Glob(filepath.Join(own, groupPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs[:min(len(dirs), most)] {
		lock, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			stale := Group{dir: dir}
			stale.kill()
			removeGroups(dir)
		}
		lock.Close()
	}
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
	c := &Group{dir: filepath.Join(g.base, strconv.Itoa(g.next)), fd: -1, events: -1, stat: -1}
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return nil
	}
	var err error
	if c.fd, err = unix.Open(c.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		c.events, err = unix.Open(filepath.Join(c.dir, "cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		c.stat, err = unix.Open(filepath.Join(c.dir, "cpu.stat"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
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
	case !c.killed.Load() && c.fd >= 0 && len(g.free) < maxFreeGroups:
		c.used = c.usage()
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
	defer g.lock.Close()
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
	return !bytes.Contains(c.read(c.events, "cgroup.events", buf[:]), []byte("populated 0"))
}

// read reads a file of the group into buf, by fd if that is open; nil if it cannot.
func (c *Group) read(fd int, name string, buf []byte) []byte {
	if fd < 0 {
		return readSmall(filepath.Join(c.dir, name), buf)
	}
	n, err := unix.Pread(fd, buf, 0)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// usage is the time that the processes of a group have spent.
type usage struct{ user, system time.Duration }

func (u usage) total() time.Duration { return u.user + u.system }

// usage is that of all that has run in the group; zero where the kernel does not say.
func (c *Group) usage() (u usage) {
	var buf [1024]byte
	for line := range bytes.Lines(c.read(c.stat, "cpu.stat", buf[:])) {
		name, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte{' '})
		micros, err := strconv.ParseInt(string(value), 10, 64)
		switch {
		case err != nil:
		case string(name) == "user_usec":
			u.user = time.Duration(micros) * time.Microsecond
		case string(name) == "system_usec":
			u.system = time.Duration(micros) * time.Microsecond
		}
	}
	return u
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
	c.Rest()
	removeGroups(c.dir)
}

// Rest closes the descriptors of a group whose command may run for long: there may be a
// thousand of these, and each descriptor makes every start of a process slower. The group
// still works, and is not used for another command. It is not called while others use the
// group; of a nil one there is nothing to close.
func (c *Group) Rest() {
	if c == nil {
		return
	}
	for _, fd := range []*int{&c.fd, &c.events, &c.stat} {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
}
