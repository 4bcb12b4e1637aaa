//go:build linux

package proc

import (
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/procstat"
	"github.com/berth-dev/berth/spec"
)

// Tree finds and signals every process that a command has brought forth.
//
// Where the command has a group, the group is the truth. Without one a process is taken
// for the command's that descends from another of its processes, has been one at an
// earlier look, bears the command's mark or its tag, or is in a session in which its
// processes have been seen; and where there is nothing else below the guest that it could
// be of, whatever is there. A process that bears the mark of another command never is.
type Tree struct {
	reaper *Reaper
	leader *Process
	tag    string // "" where the command has a clean environment
	group  *Group // nil where there are none

	mu    sync.Mutex
	known map[procID]bool // what was alive of it at the last look
	// sids are the sessions that its processes have been seen in, and when the
	// leader of each was started; 0: it was not there any more.
	sids map[int]uint64
}

// NewTree returns the tree of leader. tag, unless it is empty, is the entry in the
// environment that its processes inherit. group, which may be nil, is where they are.
func NewTree(r *Reaper, leader *Process, tag string, group *Group) *Tree {
	return &Tree{reaper: r, leader: leader, tag: tag, group: group, sids: map[int]uint64{leader.PID: 0}}
}

// KillTime bounds the killing of a tree whose processes are faster or stronger than
// the guest.
const KillTime = 5 * time.Second

const (
	killRounds = 50
	// maxSurvivors is how many are named in a result.
	maxSurvivors = 64
	// clearLooks is how many looks in a row have to find nothing where nothing proves
	// it: one that flees from process to process may pass between what a look reads.
	clearLooks = 3
)

// sight is what was alive at one look.
type sight struct {
	// members are of the tree; suspects may be: orphans of which nothing says whose
	// they are, and what is below those.
	members, suspects []Stat
	// strangers: there is more below the guest, or nobody knows.
	strangers bool
}

// members returns what is alive of the tree.
func (t *Tree) members() []Stat { return t.look().members }

// look looks for what is alive of the tree.
func (t *Tree) look() sight {
	now := t.reaper.looks.take()
	if now.err != nil {
		return sight{strangers: true}
	}
	others, leads := t.reaper.others(t.leader)
	own := newFamily(now.children, os.Getpid(), others)
	s := &sorter{
		t: t, family: own, others: others, leads: leads, grouped: t.group.procs(),
		byPID: make(map[int]Stat, len(own.all)), marks: map[int]uint64{}, in: map[int]bool{},
		sole: t.reaper.sole(t.leader), // asked after the look: what it saw was there before
	}
	for _, p := range own.all {
		s.byPID[p.PID] = p
		if !p.dead() {
			s.marks[p.PID] = t.reaper.marks.of(p.PID)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.sort()
}

// sorter tells the processes of one look apart.
type sorter struct {
	t      *Tree
	family *family
	byPID  map[int]Stat
	others map[int]bool // the leaders of other commands
	leads  bool         // the leader's pid is its own
	sole   bool
	// grouped are in the command's group.
	grouped map[int]bool
	marks   map[int]uint64
	in      map[int]bool // the members
	out     []Stat       // those that are alive
}

// sort is done under the lock of the tree.
func (s *sorter) sort() sight {
	for grown := true; grown; {
		before := len(s.in)
		for _, p := range s.family.all {
			if !s.in[p.PID] && s.ours(p) {
				s.add(p)
			}
		}
		grown = len(s.in) > before
	}
	s.t.known = make(map[procID]bool, len(s.out))
	for _, p := range s.out {
		s.t.known[p.id()] = true
	}
	seen := sight{members: s.out}
	for _, other := range s.others {
		seen.strangers = seen.strangers || other
	}
	suspected := map[int]bool{os.Getpid(): true}
	for _, p := range s.family.all { // parents come first
		if p.dead() || s.in[p.PID] {
			continue
		}
		seen.strangers = true
		if suspected[p.PPID] && s.marks[p.PID] == 0 && p.Start >= s.t.leader.since {
			suspected[p.PID] = true
			seen.suspects = append(seen.suspects, p)
		}
	}
	return seen
}

// ours reports whether p is known to be of the tree by itself.
func (s *sorter) ours(p Stat) bool {
	t, mark := s.t, s.marks[p.PID]
	switch {
	case s.sole, s.grouped[p.PID], t.known[p.id()], s.leads && p.PID == t.leader.PID:
		return true
	case p.dead():
		return false
	case mark != 0:
		return mark == t.leader.mark
	case t.tag != "" && environHas(p.PID, t.tag):
		return true
	}
	started, seen := t.sids[p.Session]
	return seen && s.sameSession(p.Session, started)
}

// sameSession reports whether the session of a number is the one that it was. The number
// is not given away while the session has members, so one that has got a new leader is
// another session.
func (s *sorter) sameSession(sid int, started uint64) bool {
	if sid == s.t.leader.PID && s.leads {
		return true
	}
	leader, there := s.byPID[sid]
	return !s.others[sid] && (!there || leader.Start == started)
}

// add takes in p and what is below it.
func (s *sorter) add(p Stat) {
	if s.in[p.PID] || s.others[p.PID] {
		return
	}
	s.in[p.PID] = true
	if !p.dead() {
		s.out = append(s.out, p)
		s.t.sids[p.Session] = s.byPID[p.Session].Start
	}
	for _, child := range s.family.children[p.PID] {
		s.add(child)
	}
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

// procID names a process.
type procID struct {
	pid   int
	start uint64
}

func (p *Stat) id() procID { return procID{p.PID, p.Start} }

// newborn is the age, in ticks of 10 ms, up to which a process may still be between
// its fork and its exec: a shell's child loses a TERM that comes to it there.
const newborn = 10

// tell sends TERM to those of procs that have not had it, and continues them, so that
// what was stopped can heed. A process is told once: a second TERM has a meaning of
// its own to many. But for leader, it is not told before it is old enough to hear.
func (a asked) tell(procs []Stat, leader int) {
	now := procstat.Now()
	for _, p := range procs {
		if id := p.id(); !a[id] && (p.PID == leader || p.Start+newborn <= now) {
			a[id] = true
			signalProcess(p, unix.SIGTERM)
			signalProcess(p, unix.SIGCONT)
		}
	}
}

// gone reports whether nothing of the tree is seen any more; members is what was seen
// last.
func (t *Tree) gone(members []Stat) bool {
	return t.leader.over() && len(members) == 0 && (t.group == nil || !t.group.populated())
}

// HangUp sends HUP to the leader's group, as a terminal does that goes away.
func (t *Tree) HangUp() { _ = t.reaper.SignalGroup(t.leader, unix.SIGHUP) }

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
// means that the kernel vouches for the end of all of it: its group is empty, or there is
// nothing at all below the guest. Survivors are what was seen last and may be of it.
func (t *Tree) Kill() (proven bool, survivors []spec.Survivor) {
	deadline := time.Now().Add(KillTime)
	pause := time.Millisecond
	var left []Stat
	empty := 0
	for range killRounds {
		if t.group != nil {
			t.group.kill()
		}
		_ = t.reaper.SignalGroup(t.leader, unix.SIGKILL)
		t.reaper.killAllOf(t.leader)
		seen := t.look()
		left = append(seen.members, seen.suspects...)
		if proven = t.proof(seen); proven {
			return true, nil
		}
		if empty++; t.group != nil || len(seen.members) > 0 || !seen.strangers || !t.leader.over() {
			empty = 0
		}
		if empty == clearLooks {
			break // of the rest nothing can be known
		}
		for _, p := range seen.members {
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

// proof reports whether nothing of the tree can be left.
func (t *Tree) proof(seen sight) bool {
	if t.group != nil {
		return len(seen.members) == 0 && !t.group.populated()
	}
	return childless()
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
