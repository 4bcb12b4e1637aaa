//go:build linux

package proc

import (
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

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

	reaped bool // guarded by Reaper.mu: the pid may belong to another process
}

// Reaper waits for every child of this process, its own and adopted ones, from one
// goroutine. Nothing else in the program may wait for a process.
type Reaper struct {
	onOrphan func()
	wake     chan struct{} // there may be a child again
	looks    looks

	mu       sync.Mutex
	live     map[int]*Process
	starting int              // starts under way, whose pids are not in live yet
	shot     map[int]bool     // children that were killed before they were programs
	early    map[int]*Process // reaped while a start was under way
}

// NewReaper returns a Reaper that does nothing before Run. onOrphan is called, from
// the reaping goroutine, after a process that is no leader has been reaped.
func NewReaper(onOrphan func()) *Reaper {
	return &Reaper{onOrphan: onOrphan, wake: make(chan struct{}, 1), live: map[int]*Process{}, early: map[int]*Process{}, shot: map[int]bool{}}
}

// startIn is start in group, or without one if that fails. An exec that fails has run
// nothing, so it may be tried again.
func (r *Reaper) startIn(group *Group, path string, argv []string, attr *syscall.ProcAttr) (*Process, *Group, error) {
	if group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, group.fd
		p, err := r.start(path, argv, attr)
		if err == nil || err == errHeldUp { //nolint:errorlint // the bare sentinel
			return p, group, err
		}
		attr.Sys.UseCgroupFD = false
	}
	p, err := r.start(path, argv, attr)
	return p, nil, err
}

var errHeldUp = spec.New(spec.CodeUnavailable, "another process kept it from starting")

// start starts a leader. The lock is not held meanwhile: an exec on a hanging file
// system must not hold up every other command.
func (r *Reaper) start(path string, argv []string, attr *syscall.ProcAttr) (*Process, error) {
	r.mu.Lock()
	r.starting++
	r.mu.Unlock()

	begun := time.Now()
	over := make(chan struct{})
	watch := time.AfterFunc(patience, func() { r.hasten(over) })
	pid, err := forkExec(path, argv, attr)
	watch.Stop()
	close(over)

	r.mu.Lock()
	defer r.mu.Unlock()
	var p *Process
	if err == nil {
		if p = r.early[pid]; p != nil {
			p.Begun = begun
		} else {
			p = &Process{PID: pid, Begun: begun, Done: make(chan struct{})}
			r.live[pid] = p
		}
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
	return ok && !known && st.PPID == os.Getpid() && st.name == name && st.Start+uint64(startTime/(10*time.Millisecond)) > ticks()
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

// forkExec is syscall.ForkExec, patient with a program that has just been written:
// another child that is between its fork and its exec may still hold it open.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	for try := 0; ; try++ {
		pid, err := syscall.ForkExec(path, argv, attr)
		if err != syscall.ETXTBSY || try == 10 {
			return pid, err
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
