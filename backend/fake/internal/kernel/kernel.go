package kernel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/spec"
)

// Main is a program: it runs as p and returns its exit status.
type Main func(p *Proc) int

// Hooks are what a Kernel asks of the one who made it. Both may be nil.
type Hooks struct {
	// Exec is asked before a program is looked for. What it returns, if not nil,
	// runs in the program's place.
	Exec func(p *Proc, args []string) Main
	// Space is asked before a process adds n bytes to a file; its error is
	// ENOSPC for the process.
	Space func(n int) error
}

// Kernel is one running system. It is safe for concurrent use.
type Kernel struct {
	FS       *memfs.FS
	programs map[string]Main
	hooks    Hooks
	booted   time.Time

	mu      sync.Mutex
	procs   map[int]*Proc
	lastPID int
	down    bool
	lost    error
	live    int           // processes that have not ended
	quiet   chan struct{} // closed when live is 0; nil if nobody waits
	fifos   map[string]*Pipe
	threads sync.WaitGroup // goroutines of processes
}

// guestPID is that of what stands for the guest: it has no Proc, reaps whoever has no
// parent, and no signal reaches it.
const guestPID = 1

// New returns a system over fs that starts at a time and can run programs, which are
// found by the names that Install gives to them.
func New(fs *memfs.FS, programs map[string]Main, hooks Hooks, booted time.Time) *Kernel {
	return &Kernel{
		FS: fs, programs: programs, hooks: hooks, booted: booted,
		procs: map[int]*Proc{}, lastPID: guestPID, fifos: map[string]*Pipe{},
	}
}

// Booted is when the system started.
func (k *Kernel) Booted() time.Time { return k.booted }

// Attr says how a process starts.
type Attr struct {
	Args  []string
	Env   []string // "NAME=value"
	Dir   string   // absolute
	Umask uint32
	// Limits are set over the default ones, soft and hard; keys are those of
	// spec.Command.Rlimits.
	Limits map[string]uint64
	// Files are descriptors 0, 1 and 2, which the process takes over.
	Files [3]*File
	// TTY, unless nil, is the controlling terminal, and Files in their place. No other
	// process is started with it.
	TTY *TTY
	// Name is what the program sees as its own name; "": the first of Args.
	Name string
	// Path is where a program without a slash is looked for, if Env has no PATH.
	Path string
	// Value becomes Proc.Value.
	Value any
}

// Start starts a process that leads a session and a tree of its own, as a child of the
// guest. The answer to a program that cannot be started is a CodeStartFailed, and to a
// directory that cannot be entered a CodeInvalidPath; Files are closed then.
func (k *Kernel) Start(a Attr) (*Proc, error) {
	p := &Proc{
		k: k, Value: a.Value, ppid: guestPID, env: slices.Clone(a.Env), umask: a.Umask, files: map[int]*File{},
		tree: &Tree{k: k, procs: map[*Proc]bool{}}, wake: make(chan struct{}), Done: make(chan struct{}), tty: a.TTY,
	}
	if a.TTY != nil {
		f := newFile(a.TTY)
		a.Files = [3]*File{f, f.Share(), f.Share()}
	}
	dir, err := k.workdir(a.Dir)
	var main Main
	if err == nil {
		p.dir = dir
		main, err = p.resolve(a)
	}
	if err == nil {
		p.limits, err = defaultLimits().with(a.Limits)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && k.down {
		err = spec.New(spec.CodeUnavailable, "the place is ending")
	}
	for fd, f := range a.Files {
		switch {
		case err != nil:
			f.releaseLocked()
		default:
			p.files[fd] = f
		}
	}
	if err != nil {
		return nil, err
	}
	k.admitLocked(p)
	p.pgid, p.sid = p.PID, p.PID
	if a.TTY != nil {
		a.TTY.begin(k, p.PID)
	}
	p.runLocked(main)
	return p, nil
}

// workdir is the real name of dir, where a process may start.
func (k *Kernel) workdir(dir string) (string, error) {
	at, err := k.locate(nil, "/", dir)
	if err == nil && at.proc {
		err = errors.New("it lies under /proc")
	} else if err == nil && !at.isDir {
		err = ENOTDIR
	}
	if err != nil {
		return "", &spec.Error{Code: spec.CodeInvalidPath, Path: dir, Err: err}
	}
	return at.path, nil
}

func (p *Proc) resolve(a Attr) (Main, error) {
	path := a.Path
	if own, ok := p.Lookup("PATH"); ok {
		path = own
	}
	main, err := p.load(a.Args, path)
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeStartFailed, Err: err}
	}
	if a.Name != "" {
		p.args[0] = a.Name
	}
	return main, nil
}

// admitLocked gives p a pid and a place in the tables.
func (k *Kernel) admitLocked(p *Proc) {
	k.lastPID++
	p.PID, p.started = k.lastPID, time.Now()
	k.procs[p.PID] = p
	p.tree.procs[p] = true
	k.live++
}

// Shutdown kills everything, lets nothing start any more and returns when the last
// goroutine of a process has ended or ctx has; its error names a program that is still
// there.
func (k *Kernel) Shutdown(ctx context.Context) error {
	k.mu.Lock()
	k.down = true
	for _, p := range k.procs {
		k.exitLocked(p, Status{Signal: int(spec.SIGKILL)})
	}
	k.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		k.threads.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return errors.New("a program goes on although its process has ended")
	}
}

// Quiet returns a channel that is closed once no process is left. It is for one who lets
// nothing start any more.
func (k *Kernel) Quiet() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.quiet == nil {
		k.quiet = make(chan struct{})
		if k.live == 0 {
			close(k.quiet)
		}
	}
	return k.quiet
}

// Close lets nothing start any more.
func (k *Kernel) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = true
}

// Lose says that what happens to processes from now on is known to nobody, and why.
func (k *Kernel) Lose(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost = why
}

// Lost is what Lose said, or nil.
func (k *Kernel) Lost() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost
}

// Kill sends sig as kill(2) does: to a process, to a group if pid is negative, to
// everything but the sender and the guest if it is -1. from may be nil: the guest
// itself. Signal 0 only looks.
func (k *Kernel) Kill(from *Proc, pid, sig int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := pid == guestPID
	for _, p := range k.procs {
		var match bool
		switch {
		case pid > 0:
			match = p.PID == pid
		case pid == 0:
			match = from != nil && p.pgid == from.pgid
		case pid == -1:
			match = p != from
			found = true
		default:
			match = p.pgid == -pid
		}
		if match {
			found = true
			k.signalLocked(p, sig)
		}
	}
	if !found {
		return ESRCH
	}
	return nil
}

// Tree is a process and all that descend from it.
type Tree struct {
	k     *Kernel
	procs map[*Proc]bool // guarded by Kernel.mu
	empty chan struct{}  // closed when the last one goes; nil if nobody waits
	usage Usage
}

// Terminate sends TERM, with CONT behind it, to every process of the tree that has not
// got it from an earlier call.
func (t *Tree) Terminate() {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	for p := range t.procs {
		if !p.termed {
			p.termed = true
			t.k.signalLocked(p, int(spec.SIGTERM))
			t.k.signalLocked(p, int(spec.SIGCONT))
		}
	}
}

// Usage is what the processes of the tree have used until now.
func (t *Tree) Usage() Usage {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	u := t.usage
	for p := range t.procs {
		u.add(p)
	}
	return u
}

// Signal sends sig to every process of the tree.
func (t *Tree) Signal(sig int) {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	for p := range t.procs {
		t.k.signalLocked(p, sig)
	}
}

// Empty returns a channel that is closed once no process of the tree is left.
func (t *Tree) Empty() <-chan struct{} {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	if t.empty == nil {
		t.empty = make(chan struct{})
		if len(t.procs) == 0 {
			close(t.empty)
		}
	}
	return t.empty
}

func (t *Tree) removeLocked(p *Proc) {
	delete(t.procs, p)
	if len(t.procs) == 0 && t.empty != nil {
		select {
		case <-t.empty:
		default:
			close(t.empty)
		}
	}
}

// End ends the tree: with KILL what is left of it once the grace is over or hurry is
// closed. It says whether something was.
func (t *Tree) End(grace time.Duration, hurry <-chan struct{}) spec.KillOutcome {
	gone := t.Empty()
	select {
	case <-gone:
		return spec.KillExited
	default:
	}
	if grace > 0 {
		t.terminateWithin(grace, hurry)
	}
	t.Signal(int(spec.SIGKILL))
	<-gone
	return spec.KillTerminated
}

// terminateWithin sends TERM to the processes of the tree, soon also to those that begin
// later, until none is left, the grace is over or hurry is closed.
func (t *Tree) terminateWithin(grace time.Duration, hurry <-chan struct{}) {
	const newborn = 10 * time.Millisecond
	over := time.NewTimer(grace)
	defer over.Stop()
	again := time.NewTicker(newborn)
	defer again.Stop()
	for {
		t.Terminate()
		select {
		case <-again.C:
		case <-t.Empty():
			return
		case <-over.C:
			return
		case <-hurry:
			return
		}
	}
}
