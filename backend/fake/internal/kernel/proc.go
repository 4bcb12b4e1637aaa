package kernel

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Status is how a process ended.
type Status struct {
	Code   int // of one that ended by itself
	Signal int // that ended it, else 0
}

// ExitCode is the status as a shell has it: 128+n after signal n.
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return 128 + s.Signal
	}
	return s.Code
}

// Disposition is what a process does about a signal.
type Disposition int

// The dispositions.
const (
	Default Disposition = iota
	Ignore
	Catch // it is noted, and a call that waits returns EINTR
)

// Proc is one process. Its methods are for the goroutine of its program, except where
// they say otherwise.
type Proc struct {
	k   *Kernel
	PID int // 0 while its program is looked for
	// Value is what the one who started it said; nil for a child of a process.
	Value any
	tree  *Tree
	// Done is closed when the process has ended.
	Done    chan struct{}
	started time.Time

	// dir is changed by the program's goroutine only, with Kernel.mu held.
	dir string

	// What follows is guarded by Kernel.mu.
	args            []string
	env             []string
	umask           uint32
	ppid, pgid, sid int
	tty             *TTY // the controlling terminal; nil: none
	files           map[int]*File
	dispositions    map[int]Disposition
	caught          []int
	deferred        []int // came while it was stopped
	sink            func(sig int)
	stopped         bool
	termed          bool // by Tree.Terminate
	limits          limits
	blocked         time.Duration // how long it has waited
	waiting         time.Time     // since when it waits; zero: it runs
	held, mostHeld  int64         // bytes that its program says it holds
	ended           bool
	status          Status
	over            time.Time
	onEnd           []func()
	wake            chan struct{} // closed, and replaced, when something above changes
}

// runLocked starts the goroutine of p.
func (p *Proc) runLocked(main Main) {
	p.k.threads.Add(1)
	go func() {
		defer p.k.threads.Done()
		code := main(p)
		p.k.mu.Lock()
		defer p.k.mu.Unlock()
		p.k.exitLocked(p, Status{Code: code & 0xff})
	}()
}

// exitLocked ends p for everybody. The first time counts.
func (k *Kernel) exitLocked(p *Proc, st Status) {
	if p.ended {
		return
	}
	p.ended, p.status, p.over = true, st, time.Now()
	for fd, f := range p.files {
		f.releaseLocked()
		delete(p.files, fd)
	}
	for _, f := range p.onEnd {
		f()
	}
	p.tree.usage.add(p)
	p.tree.removeLocked(p)
	if k.live--; k.live == 0 && k.quiet != nil {
		close(k.quiet)
		k.quiet = nil
	}
	for _, child := range k.procs {
		if child.ppid == p.PID {
			if child.ppid = guestPID; child.ended {
				delete(k.procs, child.PID)
			}
		}
	}
	if p.tty != nil && p.sid == p.PID {
		k.hangUpLocked(p)
	}
	parent := k.procs[p.ppid]
	if parent == nil {
		delete(k.procs, p.PID)
	} else {
		k.signalLocked(parent, sigCHLD)
	}
	p.wakeLocked()
	close(p.Done)
}

func (p *Proc) wakeLocked() {
	close(p.wake)
	p.wake = make(chan struct{})
}

// Status is how the process ended and how long it ran. It is for any goroutine, once
// Done is closed.
func (p *Proc) Status() (Status, time.Duration) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	return p.status, p.over.Sub(p.started)
}

// Tree is the tree that the process belongs to.
func (p *Proc) Tree() *Tree { return p.tree }

// Started is when the process began.
func (p *Proc) Started() time.Time { return p.started }

// Context returns a context that ends with the process. cancel is to be called.
func (p *Proc) Context() (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(context.Background())
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	if p.ended {
		cancel()
	}
	p.onEnd = append(p.onEnd, cancel)
	return ctx, cancel
}

// pause waits for ch. It returns ErrKilled once the process has ended, EINTR when it
// has caught a signal, and stays while it is stopped.
func (p *Proc) pause(ch <-chan struct{}) error { return p.await(ch, true) }

// patient is a process that waits on when it has caught a signal.
type patient struct{ *Proc }

func (p patient) pause(ch <-chan struct{}) error { return p.await(ch, false) }

func (p *Proc) await(ch <-chan struct{}, interruptible bool) error {
	for {
		p.k.mu.Lock()
		ended, stopped, caught, wake := p.ended, p.stopped, len(p.caught) > 0 && interruptible, p.wake
		p.k.mu.Unlock()
		switch {
		case ended:
			return ErrKilled
		case stopped:
			p.block(nil, wake)
			continue
		case caught:
			return EINTR
		}
		if p.block(ch, wake) {
			return p.Check()
		}
	}
}

// Check returns ErrKilled once the process has ended, and waits while it is stopped. It
// is where a limit of CPU time strikes.
func (p *Proc) Check() error {
	for {
		p.k.mu.Lock()
		p.chargeLocked()
		ended, stopped, wake := p.ended, p.stopped, p.wake
		p.k.mu.Unlock()
		switch {
		case ended:
			return ErrKilled
		case !stopped:
			return nil
		}
		p.block(nil, wake)
	}
}

// Sleep waits for d, or returns EINTR or ErrKilled.
func (p *Proc) Sleep(d time.Duration) error {
	ch := make(chan struct{})
	t := time.AfterFunc(d, func() { close(ch) })
	defer t.Stop()
	return p.pause(ch)
}

// Wait waits for a child, reaps it and returns how it ended. If it is interruptible, a
// caught signal is EINTR.
func (p *Proc) Wait(pid int, interruptible bool) (Status, error) {
	p.k.mu.Lock()
	child := p.k.procs[pid]
	p.k.mu.Unlock()
	if child == nil || child.parent() != p.PID {
		return Status{}, ECHILD
	}
	select {
	case <-child.Done:
	default:
		if err := p.await(child.Done, interruptible); err != nil {
			return Status{}, err
		}
	}
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	delete(p.k.procs, pid)
	return child.status, nil
}

func (p *Proc) parent() int {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	return p.ppid
}

// Parent is the pid of the parent: 1 for a child of the guest.
func (p *Proc) Parent() int { return p.parent() }

// Handle says what is done about sig from now on.
func (p *Proc) Handle(sig int, d Disposition) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.handleLocked(sig, d)
}

func (p *Proc) handleLocked(sig int, d Disposition) {
	if p.dispositions == nil {
		p.dispositions = map[int]Disposition{}
	}
	if d == Default {
		delete(p.dispositions, sig)
		return
	}
	p.dispositions[sig] = d
}

// Notify gives caught signals to sink, which must not wait, instead of noting them.
func (p *Proc) Notify(sigs []int, sink func(sig int)) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.sink = sink
	for _, sig := range sigs {
		p.handleLocked(sig, Catch)
	}
}

// Caught returns and forgets the signals that were caught, in their order.
func (p *Proc) Caught() []int {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	caught := p.caught
	p.caught = nil
	return caught
}

// Pending is the first signal that was caught and that Caught has not returned yet, or
// 0.
func (p *Proc) Pending() int {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	if len(p.caught) == 0 {
		return 0
	}
	return p.caught[0]
}

// Kill sends a signal; see Kernel.Kill.
func (p *Proc) Kill(pid, sig int) error { return p.k.Kill(p, pid, sig) }

// Die ends the process by sig, whatever it does about it otherwise.
func (p *Proc) Die(sig int) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.k.exitLocked(p, Status{Signal: sig})
}

// Args are the program's arguments, its name first.
func (p *Proc) Args() []string {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	return p.args
}

// Env is the environment that the program was given. It is not to be changed.
func (p *Proc) Env() []string {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	return p.env
}

// Lookup returns one variable of the environment.
func (p *Proc) Lookup(name string) (string, bool) {
	for _, entry := range slices.Backward(p.Env()) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Dir is the working directory.
func (p *Proc) Dir() string { return p.dir }

// Chdir changes it.
func (p *Proc) Chdir(dir string) error {
	at, err := p.k.locate(p, p.dir, dir)
	switch {
	case err != nil:
		return err
	case !at.isDir:
		return ENOTDIR
	}
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.dir = at.path
	return nil
}

// Umask returns the mask, and sets it unless mask is negative.
func (p *Proc) Umask(mask int) uint32 {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	old := p.umask
	if mask >= 0 {
		p.umask = uint32(mask) & 0o777
	}
	return old
}

// Fork starts a child that runs main as a copy of p: same arguments, environment,
// directory, descriptors, group and tree. Signals that p catches have their default
// again. With group, the child leads a group of its own.
func (p *Proc) Fork(group bool, main Main) (*Proc, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	k := p.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.ended || k.down {
		return nil, ErrKilled
	}
	if uint64(k.live) >= p.limits[limitNproc][0] {
		return nil, EAGAIN
	}
	c := &Proc{
		k: k, tree: p.tree, dir: p.dir, args: p.args, env: p.env, umask: p.umask, ppid: p.PID, pgid: p.pgid, sid: p.sid, tty: p.tty,
		limits: p.limits, held: p.held, mostHeld: p.held, files: map[int]*File{}, wake: make(chan struct{}), Done: make(chan struct{}),
	}
	for fd, f := range p.files {
		f.refs++
		c.files[fd] = f
	}
	for sig, d := range p.dispositions {
		if d == Ignore {
			c.handleLocked(sig, Ignore)
		}
	}
	k.admitLocked(c)
	if group {
		c.pgid = c.PID
	}
	c.runLocked(main)
	return c, nil
}

// Setsid makes the process the leader of a new session and group, without a terminal.
func (p *Proc) Setsid() {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.sid, p.pgid, p.tty = p.PID, p.PID, nil
}

// Signals that the system itself knows.
const (
	sigCHLD  = 17
	sigPIPE  = 13
	sigTSTP  = 20
	sigTTIN  = 21
	sigTTOU  = 22
	sigURG   = 23
	sigWINCH = 28
	// LastSignal is the highest number of a signal.
	LastSignal = 64
)

// signalLocked does what sig does to p.
func (k *Kernel) signalLocked(p *Proc, sig int) {
	switch {
	case p.ended || sig <= 0 || sig > LastSignal:
		return
	case sig == int(spec.SIGKILL):
		k.exitLocked(p, Status{Signal: sig})
		return
	case sig == int(spec.SIGCONT):
		k.continueLocked(p)
	case p.stopped && sig != sigCHLD:
		p.deferred = append(p.deferred, sig)
		return
	}
	d := p.dispositions[sig]
	switch {
	case sig == int(spec.SIGSTOP):
		p.stopped = true
		p.wakeLocked()
	case d == Ignore:
	case d == Catch && p.sink != nil:
		p.sink(sig)
	case d == Catch:
		if !slices.Contains(p.caught, sig) {
			p.caught = append(p.caught, sig)
		}
		p.wakeLocked()
	case sig == sigTSTP || sig == sigTTIN || sig == sigTTOU:
		p.stopped = true
		p.wakeLocked()
	case sig == sigCHLD || sig == sigURG || sig == sigWINCH || sig == int(spec.SIGCONT):
	default:
		k.exitLocked(p, Status{Signal: sig})
	}
}

func (k *Kernel) continueLocked(p *Proc) {
	if !p.stopped {
		return
	}
	p.stopped = false
	deferred := p.deferred
	p.deferred = nil
	p.wakeLocked()
	for _, sig := range deferred {
		k.signalLocked(p, sig)
	}
}
