//go:build linux

package agent

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// tree finds and signals every process that a command has brought forth.
type tree struct {
	reaper *reaper
	leader *process
	tag    string  // "" where the command has a clean environment
	group  *cgroup // nil where there are none

	mu   sync.Mutex
	sids map[int]bool // the sessions that its processes have been seen in
}

func newTree(r *reaper, leader *process, tag string, group *cgroup) *tree {
	return &tree{reaper: r, leader: leader, tag: tag, group: group, sids: map[int]bool{leader.pid: true}}
}

// The bounds on killing a tree whose processes are faster or stronger than us.
const (
	killRounds = 50
	killTime   = 5 * time.Second
	// maxSurvivors is how many are named in a result.
	maxSurvivors = 64
)

// members returns what is alive of the tree: the leader and its descendants, and
// among the orphans that this process has adopted those in the group or a session
// of the tree or with its tag, and their descendants.
func (t *tree) members() []procStat {
	procs, err := scanProcs()
	if err != nil {
		return nil
	}
	foreign := t.reaper.leaders()
	delete(foreign, t.leader.pid)
	own := newFamily(procs, os.Getpid(), foreign)
	grouped := t.group.procs()
	tagged := map[int]bool{}
	for _, p := range own.all {
		tagged[p.pid] = t.tag != "" && !p.dead() && environHas(p.pid, t.tag)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	ours := func(p procStat) bool {
		if p.pid == t.leader.pid || grouped[p.pid] || tagged[p.pid] {
			return true
		}
		// A session's number is not given away while it has members. One that
		// has a new leader is another session.
		return !p.dead() && t.sids[p.sid] && !foreign[p.sid]
	}
	in := map[int]bool{}
	var out []procStat
	var add func(p procStat)
	add = func(p procStat) {
		if in[p.pid] || foreign[p.pid] {
			return
		}
		in[p.pid] = true
		if !p.dead() {
			out = append(out, p)
			t.sids[p.sid] = true
		}
		for _, child := range own.children[p.pid] {
			add(child)
		}
	}
	for grown := true; grown; {
		before := len(in)
		for _, p := range own.all {
			if !in[p.pid] && ours(p) {
				add(p)
			}
		}
		grown = len(in) > before
	}
	return out
}

// family are the descendants of one process.
type family struct {
	all      []procStat
	children map[int][]procStat
}

// newFamily picks the descendants of root from procs, without those of foreign.
func newFamily(procs []procStat, root int, foreign map[int]bool) *family {
	f := &family{children: make(map[int][]procStat, len(procs))}
	for _, p := range procs {
		f.children[p.ppid] = append(f.children[p.ppid], p)
	}
	seen := map[int]bool{root: true}
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		for _, p := range f.children[todo[0]] {
			if !seen[p.pid] && !foreign[p.pid] {
				seen[p.pid] = true
				f.all = append(f.all, p)
				todo = append(todo, p.pid)
			}
		}
	}
	return f
}

// signal sends sig to the leader's group and to every member once.
func (t *tree) signal(sig unix.Signal) {
	_ = t.reaper.signalGroup(t.leader, sig)
	for _, p := range t.members() {
		if p.pgrp != t.leader.pid {
			signalProcess(p, sig)
		}
	}
}

// gone reports whether nothing of the tree is seen any more.
func (t *tree) gone() bool {
	select {
	case <-t.leader.done:
	default:
		return false
	}
	if t.group != nil && t.group.populated() {
		return false
	}
	return len(t.members()) == 0
}

// terminate sends TERM to the tree and waits until it is gone, or for grace, or
// until hurry is closed. What was stopped is continued, so that it can heed.
func (t *tree) terminate(grace time.Duration, hurry <-chan struct{}) {
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

// kill sends KILL to the tree until nothing of it is seen, within bounds. proven
// means that the kernel vouches for the end of all of it.
func (t *tree) kill() (proven bool, survivors []spec.Survivor) {
	deadline := time.Now().Add(killTime)
	pause := time.Millisecond
	var left []procStat
	for range killRounds {
		if t.group != nil {
			t.group.kill()
		}
		_ = t.reaper.signalGroup(t.leader, unix.SIGKILL)
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
		survivors = append(survivors, spec.Survivor{PID: p.pid, Name: p.name})
	}
	return false, survivors
}

// killDescendants ends every process below this one: TERM, grace, KILL. It is for
// the end of the place, when nothing below may live on.
func killDescendants(grace time.Duration) {
	below := func(sig unix.Signal) (alive int) {
		procs, err := scanProcs()
		if err != nil {
			return 0
		}
		for _, p := range newFamily(procs, os.Getpid(), nil).all {
			if !p.dead() {
				alive++
				if sig != 0 {
					signalProcess(p, sig)
				}
			}
		}
		return alive
	}
	if below(unix.SIGTERM) > 0 {
		below(unix.SIGCONT)
	}
	pause := 5 * time.Millisecond
	for end := time.Now().Add(grace); time.Now().Before(end) && below(0) > 0; {
		time.Sleep(pause)
		pause = min(2*pause, 100*time.Millisecond)
	}
	for end := time.Now().Add(killTime); below(unix.SIGKILL) > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}
