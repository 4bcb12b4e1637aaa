//go:build linux

package proc

import (
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/starter"
	"github.com/berth-dev/berth/internal/procstat"
	"github.com/berth-dev/berth/spec"
)

// Process is the leader of a command: the first process of its session and group.
// Ended, Status and Usage are valid once Done is closed.
type Process struct {
	PID    int
	Begun  time.Time
	Done   chan struct{}
	Ended  time.Time
	Status unix.WaitStatus
	Usage  unix.Rusage

	mark  uint64 // that its processes inherit; 0: none
	since uint64 // in ticks: nothing of it was started before
	// serial numbers the starts; alone: there was nothing below the guest when it
	// was started.
	serial int64
	alone  bool

	reaped bool // guarded by Reaper.mu: the pid may belong to another process
}

// over reports whether the leader has ended and that has been noticed.
func (p *Process) over() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Reaper waits for every child of this process, its own and adopted ones, from one
// goroutine. Nothing else in the program may wait for a process.
type Reaper struct {
	onOrphan func()
	wake     chan struct{} // there may be a child again
	looks    looks
	marks    *marks
	starter  starter.Starter
	shared   bool

	mu       sync.Mutex
	live     map[int]*Process
	starts   int64            // how many there have been
	starting int              // starts under way, whose pids are not in live yet
	shot     map[int]bool     // children that were killed before they were programs
	early    map[int]*Process // reaped while a start was under way
}

// NewReaper returns a Reaper that does nothing before Run. shared says that others, such
// as an engine, put processes into this one's pid namespace, whose orphans it adopts.
// onOrphan is called, from the reaping goroutine, after a process that is no leader has
// been reaped.
func NewReaper(shared bool, onOrphan func()) *Reaper {
	return &Reaper{
		onOrphan: onOrphan, shared: shared, wake: make(chan struct{}, 1), marks: newMarks(),
		live: map[int]*Process{}, early: map[int]*Process{}, shot: map[int]bool{},
	}
}

// startIn is start in group, or without one if that fails. An exec that fails has run
// nothing, so it may be tried again.
func (r *Reaper) startIn(group *Group, prog *starter.Program) (*Process, *Group, error) {
	sys := prog.Attr.Sys
	if group != nil {
		sys.UseCgroupFD, sys.CgroupFD = true, group.fd
		p, err := r.start(prog)
		if err == nil || err == errHeldUp { //nolint:errorlint // the bare sentinel
			return p, group, err
		}
		sys.UseCgroupFD = false
	}
	p, err := r.start(prog)
	return p, nil, err
}

var errHeldUp = spec.New(spec.CodeUnavailable, "another process kept it from starting")

// crowd is how many leaders there are when a start is worth leaving to the starter: the
// descriptors of fewer cost less than its thread does.
const crowd = 256

// start starts a leader. The lock is not held meanwhile: an exec on a hanging file
// system must not hold up every other command.
func (r *Reaper) start(prog *starter.Program) (*Process, error) {
	r.mu.Lock()
	fork := prog.ForkExec
	if len(r.live) >= crowd {
		fork = func() (int, error) { return r.starter.ForkExec(prog) }
	}
	alone := !r.shared && r.starting == 0 && len(r.live) == 0 && childless()
	r.starting++
	r.starts++
	serial := r.starts
	r.mu.Unlock()

	begun, since := time.Now(), procstat.Now()
	over := make(chan struct{})
	watch := time.AfterFunc(patience, func() { r.hasten(over) })
	pid, mark, err := r.forkExec(fork)
	watch.Stop()
	close(over)

	r.mu.Lock()
	defer r.mu.Unlock()
	var p *Process
	if err == nil {
		if p = r.early[pid]; p == nil {
			p = &Process{PID: pid, Done: make(chan struct{})}
			r.live[pid] = p
		}
		p.Begun, p.mark, p.since, p.serial, p.alone = begun, mark, since, serial, alone
		if r.shot[pid] { // its end looks like an exec from here
			p, err = nil, errHeldUp
		}
	}
	if r.starting--; r.starting == 0 {
		clear(r.early)
		clear(r.shot)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return p, err
}

// A start takes a millisecond. After patience it is looked at whether its process has
// been stopped between its fork and its exec, and a process that is stopped again and
// again for stubborn is given up: all other starts wait for it. patience is short since
// the runtime cannot stop the world meanwhile either, and with it whoever looks.
const (
	patience = 5 * time.Millisecond
	stubborn = 2 * time.Second
)

// hasten continues children that have been stopped before they were programs, until
// over is closed. It takes next to no memory, not to make the runtime stop the world.
func (r *Reaper) hasten(over <-chan struct{}) {
	self, _ := ReadStat(os.Getpid())
	since := map[int]time.Time{}
	for pause := patience; ; pause = min(2*pause, 20*patience) {
		for {
			pid, err := waitStopped()
			if err != nil || pid == 0 {
				break
			}
			if r.unborn(pid, self.name) {
				if since[pid].IsZero() {
					since[pid] = time.Now()
				}
				r.press(pid, time.Since(since[pid]) > stubborn)
			}
		}
		look := time.NewTimer(pause)
		select {
		case <-look.C:
		case <-over:
			look.Stop()
			return
		}
	}
}

// unborn reports whether a child of this process is not a program yet: it bears this
// one's name, and nobody has heard of it.
func (r *Reaper) unborn(pid int, name string) bool {
	r.mu.Lock()
	known := r.live[pid] != nil
	r.mu.Unlock()
	st, ok := ReadStat(pid)
	return ok && !known && st.PPID == os.Getpid() && st.name == name && st.Start+uint64(startTime/(10*time.Millisecond)) > procstat.Now()
}

// press makes a child go on or, at last, end. The lock keeps its pid from being given
// away.
func (r *Reaper) press(pid int, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live[pid] != nil {
		return
	}
	if last {
		r.shot[pid] = true
		_ = unix.Kill(pid, unix.SIGKILL)
		return
	}
	_ = unix.Kill(pid, unix.SIGCONT)
}

// forkExec forks with a new mark, patient with a program that has just been written:
// another child that is between its fork and its exec may still hold it open.
func (r *Reaper) forkExec(fork func() (int, error)) (pid int, mark uint64, err error) {
	for try := 0; ; try++ {
		pid, mark, err = r.marks.with(fork)
		if err != syscall.ETXTBSY || try == 10 {
			return pid, mark, err
		}
		time.Sleep(time.Duration(try+1) * time.Millisecond)
	}
}

// Run reaps for ever.
func (r *Reaper) Run() {
	for {
		pid, err := waitAny()
		switch err {
		case nil:
			r.reap(pid)
		case unix.ECHILD:
			r.rest()
		}
	}
}

// rest waits until there may be a child to wait for. An init also inherits orphans
// of processes that an engine put into its namespace, and of those no word comes.
func (r *Reaper) rest() {
	if os.Getpid() != 1 {
		<-r.wake
		return
	}
	const look = 5 * time.Second
	t := time.NewTimer(look)
	defer t.Stop()
	select {
	case <-r.wake:
	case <-t.C:
	}
}

// waitAny returns the pid of a child that has ended, which stays a zombie: its pid
// is not free before reap has marked it under the lock.
func waitAny() (int, error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		return 0, err
	}
	return siginfoPID(&info), nil
}

// waitStopped returns the pid of a child that has been stopped and not been returned
// since, or 0.
func waitStopped() (int, error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WSTOPPED|unix.WNOHANG, nil); err != nil {
		return 0, err
	}
	return siginfoPID(&info), nil
}

// siginfoPID reads si_pid, which follows three ints, aligned like a pointer.
func siginfoPID(info *unix.Siginfo) int {
	const offset = (3*4 + unsafe.Sizeof(uintptr(0)) - 1) &^ (unsafe.Sizeof(uintptr(0)) - 1)
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}

func (r *Reaper) reap(pid int) {
	r.mu.Lock()
	var status unix.WaitStatus
	var usage unix.Rusage
	got, err := unix.Wait4(pid, &status, unix.WNOHANG, &usage)
	if err != nil || got != pid {
		r.mu.Unlock() // syscall.ForkExec waits itself for a child whose exec failed
		return
	}
	p := r.live[pid]
	delete(r.live, pid)
	orphan := p == nil
	if orphan && r.starting > 0 {
		p = &Process{PID: pid, Done: make(chan struct{})}
		r.early[pid] = p
	}
	if p != nil {
		p.reaped, p.Status, p.Usage, p.Ended = true, status, usage, time.Now()
		close(p.Done)
	}
	r.mu.Unlock()
	if orphan {
		r.onOrphan()
	}
}

// SignalGroup signals the process group of p; one that has ended is no error.
func (r *Reaper) SignalGroup(p *Process, sig unix.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.reaped {
		return nil
	}
	if err := unix.Kill(-p.PID, sig); err != nil && err != unix.ESRCH {
		return err
	}
	return nil
}

// Running reports whether p has not ended at this moment, whether or not its end
// has been noticed.
func (r *Reaper) Running(p *Process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.reaped {
		return false
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, p.PID, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && siginfoPID(&info) == 0
}

// Identify returns when a leader was started, in ticks after boot, unless it has ended:
// up to then its pid belongs to nobody else.
func (r *Reaper) Identify(p *Process) (start uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.reaped {
		return 0, false
	}
	st, ok := ReadStat(p.PID)
	return st.Start, ok && !st.dead()
}

// others returns the pids of all leaders but p that have not been reaped, and whether p
// has not been either: then its pid is its own.
func (r *Reaper) others(p *Process) (pids map[int]bool, lives bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pids = make(map[int]bool, len(r.live))
	for pid, leader := range r.live {
		pids[pid] = leader != p
	}
	return pids, r.live[p.PID] == p
}

// sole reports whether whatever there is below the guest can only be of p: there was
// nothing before it and nothing has been started since.
func (r *Reaper) sole(p *Process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.alone && r.starts == p.serial
}

// killAllOf sends KILL to everything in the pid namespace at one stroke, which nothing
// escapes by forking. It does nothing unless this process is its init and p is sole.
func (r *Reaper) killAllOf(p *Process) {
	r.mu.Lock() // nothing else is started meanwhile
	defer r.mu.Unlock()
	if os.Getpid() == 1 && p.alone && r.starts == p.serial {
		_ = unix.Kill(-1, unix.SIGKILL)
	}
}

// childless reports whether this process has no child at all, not even one that is yet
// to be reaped. Since it adopts every orphan below it, that proves, at one stroke, that
// no process below it is left.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil) == unix.ECHILD
}

// Leaders returns the pids of all leaders that have not been reaped.
func (r *Reaper) Leaders() map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pids := make(map[int]bool, len(r.live))
	for pid := range r.live {
		pids[pid] = true
	}
	return pids
}
