//go:build linux

package proc

import (
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// Tree finds and signals every process that a command has brought forth.
type Tree struct {
	reaper *Reaper
	leader *Process
	tag    string // "" where the command has a clean environment
	group  *Group // nil where there are none

	mu   sync.Mutex
	sids map[int]bool // the sessions that its processes have been seen in
}

// NewTree returns the tree of leader. tag, unless it is empty, is the entry in the
// environment that its processes inherit. group, which may be nil, is where they are.
func NewTree(r *Reaper, leader *Process, tag string, group *Group) *Tree {
	return &Tree{reaper: r, leader: leader, tag: tag, group: group, sids: map[int]bool{leader.PID: true}}
}

// KillTime bounds the killing of a tree whose processes are faster or stronger than
// the guest.
const KillTime = 5 * time.Second

const (
	killRounds = 50
	// maxSurvivors is how many are named in a result.
	maxSurvivors = 64
)

// members returns what is alive of the tree: the leader and its descendants, and
// among the orphans that this process has adopted those in the group or a session
// of the tree or with its tag, and their descendants.
func (t *Tree) members() []Stat {
	now := t.reaper.looks.take()
	if now.err != nil {
		return nil
	}
	foreign := t.reaper.Leaders()
	delete(foreign, t.leader.PID)
	own := newFamily(now.children, os.Getpid(), foreign)
	grouped := t.group.procs()
	tagged := map[int]bool{}
	for _, p := range own.all {
		tagged[p.PID] = t.tag != "" && !p.dead() && environHas(p.PID, t.tag)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	ours := func(p Stat) bool {
		if p.PID == t.leader.PID || grouped[p.PID] || tagged[p.PID] {
			return true
		}
		// A session's number is not given away while it has members. One that
		// has a new leader is another session.
		return !p.dead() && t.sids[p.Session] && !foreign[p.Session]
	}
	in := map[int]bool{}
	var out []Stat
	var add func(p Stat)
	add = func(p Stat) {
		if in[p.PID] || foreign[p.PID] {
			return
		}
		in[p.PID] = true
		if !p.dead() {
			out = append(out, p)
			t.sids[p.Session] = true
		}
		for _, child := range own.children[p.PID] {
			add(child)
		}
	}
	for grown := true; grown; {
		before := len(in)
		for _, p := range own.all {
			if !in[p.PID] && ours(p) {
				add(p)
			}
		}
		grown = len(in) > before
	}
	return out
}

// family are the descendants of one process.
type family struct {
	all      []Stat
	children map[int][]Stat
}

// newFamily finds the descendants of root by the children of all, without those of
// foreign.
func newFamily(children map[int][]Stat, root int, foreign map[int]bool) *family {
	f := &family{children: children}
	seen := map[int]bool{root: true}
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		for _, p := range f.children[todo[0]] {
			if !seen[p.PID] && !foreign[p.PID] {
				seen[p.PID] = true
				f.all = append(f.all, p)
				todo = append(todo, p.PID)
			}
		}
	}
	return f
}

// CPUTime is what the command's processes have spent: all of them where they have a
// group, else the leader and those that were waited for. The leader has ended.
func (t *Tree) CPUTime() (user, system time.Duration) {
	leader := usage{time.Duration(t.leader.Usage.Utime.Nano()), time.Duration(t.leader.Usage.Stime.Nano())}
	if t.group == nil {
		return leader.user, leader.system
	}
	all := t.group.usage()
	all.user -= t.group.used.user
	all.system -= t.group.used.system
	if all.user < 0 || all.system < 0 || all.total() < leader.total() {
		all = leader // the two are rounded in different ways
	}
	return all.user, all.system
}

// LeaveGroup makes the tree forget its group, which the next command may have. It is
// not called while an ending is under way.
func (t *Tree) LeaveGroup() { t.group = nil }

// asked are the processes that have been told to end.
type asked map[procID]bool

type procID struct {
	pid   int
	start uint64
}

// newborn is the age, in ticks of 10 ms, up to which a process may still be between
// its fork and its exec: a shell's child loses a TERM that comes to it there.
const newborn = 10

// tell sends TERM to those of procs that have not had it, and continues them, so that
// what was stopped can heed. A process is told once: a second TERM has a meaning of
// its own to many. But for leader, it is not told before it is old enough to hear.
func (a asked) tell(procs []Stat, leader int) {
	now := ticks()
	for _, p := range procs {
		if id := (procID{p.PID, p.Start}); !a[id] && (p.PID == leader || p.Start+newborn <= now) {
			a[id] = true
			signalProcess(p, unix.SIGTERM)
			signalProcess(p, unix.SIGCONT)
		}
	}
}

// gone reports whether nothing of the tree is seen any more; members is what was seen
// last.
func (t *Tree) gone(members []Stat) bool {
	select {
	case <-t.leader.Done:
	default:
		return false
	}
	return len(members) == 0 && (t.group == nil || !t.group.populated())
}

// Terminate sends TERM to each process of the tree, those too that appear meanwhile,
// and waits until it is gone, or for grace, or until hurry is closed.
func (t *Tree) Terminate(grace time.Duration, hurry <-chan struct{}) {
	told := asked{}
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		members := t.members()
		if t.gone(members) {
			return
		}
		if len(told) == 0 && len(members) == 0 { // /proc tells nothing
			_ = t.reaper.SignalGroup(t.leader, unix.SIGTERM)
			_ = t.reaper.SignalGroup(t.leader, unix.SIGCONT)
			told[procID{}] = true
		}
		told.tell(members, t.leader.PID)
		look := time.NewTimer(pause)
		select {
		case <-look.C:
			continue
		case <-timeout.C:
		case <-hurry:
		}
		look.Stop()
		return
	}
}

// Kill sends KILL to the tree until nothing of it is seen, within bounds. proven
// means that the kernel vouches for the end of all of it.
func (t *Tree) Kill() (proven bool, survivors []spec.Survivor) {
	deadline := time.Now().Add(KillTime)
	pause := time.Millisecond
	var left []Stat
	for range killRounds {
		if t.group != nil {
			t.group.kill()
		}
		_ = t.reaper.SignalGroup(t.leader, unix.SIGKILL)
		left = t.members()
		populated := t.group != nil && t.group.populated()
		if len(left) == 0 && !populated {
			return t.group != nil, nil
		}
		for _, p := range left {
			signalProcess(p, unix.SIGKILL)
		}
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(pause)
		pause = min(2*pause, 100*time.Millisecond)
	}
	for _, p := range left[:min(len(left), maxSurvivors)] {
		survivors = append(survivors, spec.Survivor{PID: p.PID, Name: p.name})
	}
	return false, survivors
}

// TerminateDescendants sends TERM to every process below this one that is not below
// a live leader, those too that appear meanwhile, and waits until they are gone, or
// for grace.
func TerminateDescendants(leaders map[int]bool, grace time.Duration) {
	told := asked{}
	pause := 5 * time.Millisecond
	for end := time.Now().Add(grace); ; {
		procs := descendants(leaders)
		told.tell(procs, 0)
		if len(procs) == 0 || time.Now().After(end) {
			return
		}
		time.Sleep(pause)
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// KillDescendants sends KILL to every process below this one until none is left,
// within bounds.
func KillDescendants() {
	for end := time.Now().Add(KillTime); ; time.Sleep(5 * time.Millisecond) {
		procs := descendants(nil)
		for _, p := range procs {
			signalProcess(p, unix.SIGKILL)
		}
		if len(procs) == 0 || time.Now().After(end) {
			return
		}
	}
}

// descendants are what is alive below this process and not below one of leaders.
func descendants(leaders map[int]bool) []Stat {
	procs, err := scan()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(newFamily(byParent(procs), os.Getpid(), leaders).all, func(p Stat) bool { return p.dead() })
}
