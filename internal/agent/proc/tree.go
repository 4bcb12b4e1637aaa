//go:build linux

package proc

import (
	"os"
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
	procs, err := scan()
	if err != nil {
		return nil
	}
	foreign := t.reaper.Leaders()
	delete(foreign, t.leader.PID)
	own := newFamily(procs, os.Getpid(), foreign)
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

// newFamily picks the descendants of root from procs, without those of foreign.
func newFamily(procs []Stat, root int, foreign map[int]bool) *family {
	f := &family{children: make(map[int][]Stat, len(procs))}
	for _, p := range procs {
		f.children[p.PPID] = append(f.children[p.PPID], p)
	}
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

// LeaveGroup makes the tree forget its group, which the next command may have. It is
// not called while an ending is under way.
func (t *Tree) LeaveGroup() { t.group = nil }

// signal sends sig to the leader's group and to every member once.
func (t *Tree) signal(sig unix.Signal) {
	_ = t.reaper.SignalGroup(t.leader, sig)
	for _, p := range t.members() {
		if p.Group != t.leader.PID {
			signalProcess(p, sig)
		}
	}
}

// gone reports whether nothing of the tree is seen any more.
func (t *Tree) gone() bool {
	select {
	case <-t.leader.Done:
	default:
		return false
	}
	if t.group != nil && t.group.populated() {
		return false
	}
	return len(t.members()) == 0
}

// Terminate sends TERM to the tree and waits until it is gone, or for grace, or
// until hurry is closed. What was stopped is continued, so that it can heed.
func (t *Tree) Terminate(grace time.Duration, hurry <-chan struct{}) {
	t.signal(unix.SIGTERM)
	t.signal(unix.SIGCONT)
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	for pause := 5 * time.Millisecond; !t.gone(); pause = min(2*pause, 100*time.Millisecond) {
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
// a live leader, and waits until they are gone, or for grace.
func TerminateDescendants(leaders map[int]bool, grace time.Duration) {
	signalDescendants(leaders, unix.SIGTERM)
	signalDescendants(leaders, unix.SIGCONT)
	pause := 5 * time.Millisecond
	for end := time.Now().Add(grace); time.Now().Before(end) && signalDescendants(leaders, 0) > 0; {
		time.Sleep(pause)
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// KillDescendants sends KILL to every process below this one until none is left,
// within bounds.
func KillDescendants() {
	for end := time.Now().Add(KillTime); signalDescendants(nil, unix.SIGKILL) > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}

// signalDescendants sends sig, if it is not 0, to what is alive below this process
// and not below one of leaders, and returns how many that were.
func signalDescendants(leaders map[int]bool, sig unix.Signal) (alive int) {
	procs, err := scan()
	if err != nil {
		return 0
	}
	for _, p := range newFamily(procs, os.Getpid(), leaders).all {
		if p.dead() {
			continue
		}
		alive++
		if sig != 0 {
			signalProcess(p, sig)
		}
	}
	return alive
}
