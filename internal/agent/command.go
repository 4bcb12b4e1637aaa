//go:build linux

package agent

import (
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/event"
	"github.com/berth-dev/berth/internal/agent/job"
	"github.com/berth-dev/berth/internal/agent/oom"
	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/agent/wall"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// command is one command of the place, from its request until nobody can ask for it
// any more. It belongs to the place: connections hold it and let go of it.
type command struct {
	id, key string
	name    string // argv[0]
	grace   time.Duration
	job     bool     // a job's, whose record keeper has
	console *console // a terminal's; nil for others
	// held is its end of its terminal, if it has one. A program may close that and open it
	// again, or close it right before it ends: until then it is not hung up.
	held   *os.File
	client string      // the session that asked for it first
	feed   *event.Feed // which is told of its ends

	// ready is closed when the command has started or has failed to; what
	// follows is fixed from then on.
	ready    chan struct{}
	startErr error
	process  *proc.Process
	tree     *proc.Tree
	out      [2]*stream.Outlet // stdout and stderr; nil where nobody asked
	in       *stream.Inlet     // nil where nobody asked
	drains   [2]*stream.Outlet // of what nobody asked for, where it is kept or silence is to be seen
	keeper   *job.Job          // takes all output; nil where it is not kept
	memory   *oom.Mark         // nil where memory is not watched

	// finished is closed when exit is known and all output has been read.
	finished chan struct{}
	exit     wire.Exit

	aliases []string // more ids, by repeated keys; guarded by table.mu
	kept    int64    // bytes of output that are kept; guarded by table.mu

	mu       sync.Mutex
	owner    string      // the client that a command without a key ends with
	holds    int         // control streams
	lapse    *time.Timer // runs out when nobody has taken it up again
	killer   *killer
	timedOut bool
	noOutput bool // it timed out for its silence
	// asked: somebody has asked for its end by its key while it ran; terminated is
	// what is answered to that from now on.
	asked      bool
	terminated spec.KillOutcome
}

func newCommand(req *wire.ExecRequest, client string) *command {
	c := &command{
		id: req.ID, key: req.Key, client: client, grace: time.Duration(req.GraceMS) * time.Millisecond,
		ready: make(chan struct{}), finished: make(chan struct{}),
	}
	if len(req.Args) > 0 {
		c.name = string(req.Args[0])
	}
	return c
}

// killer is one ending of a command's tree.
type killer struct {
	hurry     chan struct{} // closed when the grace is over early
	hurried   bool          // guarded by command.mu
	done      chan struct{} // what follows is valid once it is closed
	outcome   spec.KillOutcome
	survivors []spec.Survivor
}

// end ends the command's tree: TERM and, unless all of it goes within grace, KILL.
// While one ending is under way a second call joins it, and with no grace cuts its
// grace short.
func (c *command) end(grace time.Duration, why cause) *killer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killer == nil {
		c.killer = &killer{hurry: make(chan struct{}), done: make(chan struct{})}
		c.killing(why)
		go c.kill(c.killer, grace)
	} else if grace <= 0 && !c.killer.hurried {
		c.killer.hurried = true
		close(c.killer.hurry)
	}
	return c.killer
}

func (c *command) kill(k *killer, grace time.Duration) {
	defer close(k.done)
	exited := false
	select {
	case <-c.process.Done:
		exited = true
	default:
	}
	if grace > 0 {
		if c.console != nil {
			c.tree.HangUp()
		}
		c.tree.Terminate(grace, k.hurry)
	}
	proven, survivors := c.tree.Kill()
	k.survivors = survivors
	switch {
	case exited && len(survivors) == 0:
		k.outcome = spec.KillExited
	case proven:
		k.outcome = spec.KillTerminated
	default:
		k.outcome = spec.KillUnknown
	}
}

// begin starts the command and what carries its streams. On an error nothing is left
// of it.
func (a *agent) begin(c *command, req *wire.ExecRequest, window int) error {
	cmd, err := req.Command()
	if err != nil {
		return err
	}
	l, tag, err := a.prepare(cmd)
	if err != nil {
		return err
	}
	defer l.Dir.Close()
	c.console.shape(l, cmd)
	p := pipes{null: a.null}
	defer p.closeFar()
	if err := a.connect(c, req, &p, window); err != nil {
		p.closeNear()
		return &spec.Error{Code: spec.CodeUnavailable, Err: err}
	}
	if l.Terminal = req.Terminal != nil; l.Terminal {
		p.give(l.User)
	}
	taken, mark := a.groups.Take(), a.memory.Begin()
	process, group, err := l.Start(a.reaper, taken, p.far)
	if group == nil {
		a.groups.Release(taken)
	}
	if err != nil {
		a.memory.Forget(mark)
		a.groups.Release(group)
		p.closeNear()
		return err
	}
	a.memory.Offer(process.PID)
	c.memory = mark
	c.process = process
	if c.keeper != nil {
		group.Rest()
	}
	c.tree = proc.NewTree(a.reaper, c.process, tag, group)
	c.beginConsole(&p)
	a.roster.add(c) // before anybody hears that a job has started
	a.begun(c, req.Args)
	if c.keeper != nil {
		c.keeper.Started(c.process.PID, func(grace time.Duration) { c.end(grace, a.jobCause()) })
	}
	for _, o := range c.outlets() {
		go o.Pump()
	}
	if c.in != nil {
		go c.in.Watch()
	}
	go a.attend(c, group, cmd.Timeout, cmd.NoOutputTimeout)
	return nil
}

// pipes are the ends of a command's standard streams: far is given to the command,
// near stays here. What is in both stays open here too.
type pipes struct {
	null *os.File
	far  [3]*os.File
	near []*os.File
}

// open makes the pipe of stream fd, with the near end non-blocking.
func (p *pipes) open(fd int) (*os.File, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	near, far := ends[0], ends[1]
	if fd == 0 {
		near, far = far, near
	}
	p.far[fd] = os.NewFile(uintptr(far), "pipe")
	if err := unix.SetNonblock(near, true); err != nil {
		unix.Close(near)
		return nil, err
	}
	f := os.NewFile(uintptr(near), "pipe")
	p.near = append(p.near, f)
	return f, nil
}

// closeFar closes what the command has its own copies of.
func (p *pipes) closeFar() {
	for i, f := range p.far {
		if f != nil && f != p.null && !slices.Contains(p.near, f) && (i == 0 || f != p.far[i-1]) {
			f.Close()
		}
	}
}

func (p *pipes) closeNear() {
	for _, f := range p.near {
		f.Close()
	}
}

// connect makes the streams that req asks for. What it does not ask for is the null
// device.
func (a *agent) connect(c *command, req *wire.ExecRequest, p *pipes, window int) error {
	if req.Terminal != nil {
		return a.connectTerminal(c, *req.Terminal, p)
	}
	p.far = [3]*os.File{p.null, p.null, p.null}
	if req.Stdin {
		f, err := p.open(0)
		if err != nil {
			return err
		}
		if c.in, err = stream.NewInlet(f, &a.buffers); err != nil {
			return err
		}
	}
	for i, asked := range []bool{req.Stdout, req.Stderr && !req.Merge} {
		if !asked && (req.NoOutputMS == 0 && c.keeper == nil || i == 1 && req.Merge) {
			continue
		}
		f, err := p.open(1 + i)
		if err != nil {
			return err
		}
		o, err := stream.NewOutlet(f, window, asked && c.key != "", &a.buffers)
		if err != nil {
			return err
		}
		if a.wall != nil && (i == 1 || req.Merge) {
			o.KeepTail(wall.TailBytes)
		}
		if asked {
			o.Await(a.cfg.resume)
			c.out[i] = o
		} else {
			o.Abandon()
			c.drains[i] = o
		}
		if c.keeper != nil {
			o.Tee(c.keeper)
		}
	}
	if req.Merge {
		p.far[2] = p.far[1]
	}
	return nil
}

// attend sees a started command through to its end.
func (a *agent) attend(c *command, group *proc.Group, timeout, silence time.Duration) {
	// The leader may have ended in time and not have been noticed yet.
	if late, silent := c.overrun(timeout, silence); late && a.reaper.Running(c.process) {
		why := cause{reason: forTimeout}
		if silent {
			why.reason = forSilence
		}
		c.mu.Lock()
		c.timedOut, c.noOutput = true, silent
		c.mu.Unlock()
		c.end(c.grace, why)
	}
	<-c.process.Done
	if c.in != nil {
		c.in.Close()
	}
	if c.held != nil {
		c.held.Close()
	}
	for _, o := range c.outlets() {
		o.LeaderEnded()
	}
	for _, o := range c.outlets() {
		<-o.Done()
	}
	ours := c.conclude()
	c.exit.OOM = a.memory.Ended(c.memory, oom.End{Status: c.exit.Code, Ours: ours})
	a.wall.Tell(&c.exit, c.lastError)
	a.groups.Release(group)
	a.ended(c)
	c.keptExit()
	c.endConsole()
	close(c.finished)
	a.roster.remove(c)
	a.table.finish(c)
	a.life.commandEnded()
}

// overrun waits until the command has ended or has to be, by the monotonic clock of the
// place: because timeout is over, or silence has passed without output. 0: never.
func (c *command) overrun(timeout, silence time.Duration) (late, silent bool) {
	deadline, stop := alarm(c.process.Begun, timeout)
	defer stop()
	heard := c.process.Begun
	for {
		quiet, stop := alarm(heard, silence)
		select {
		case <-c.process.Done:
			stop()
			return false, false
		case <-deadline:
			stop()
			return true, false
		case <-quiet:
		}
		if heard = c.lastOutput(); time.Since(heard) >= silence {
			return true, true
		}
	}
}

// lastOutput is when the command last wrote to either stream, or else began.
func (c *command) lastOutput() time.Time {
	last := c.process.Begun
	for _, o := range c.outlets() {
		if t := o.LastOutput(); t.After(last) {
			last = t
		}
	}
	return last
}

// alarm rings when after has passed since begun; never, if it is 0.
func alarm(begun time.Time, after time.Duration) (rings <-chan time.Time, stop func()) {
	if after == 0 {
		return nil, func() {}
	}
	t := time.NewTimer(after - time.Since(begun))
	return t.C, func() { t.Stop() }
}

// conclude waits for an ending that is under way and writes the exit down. From then
// on the tree has no group: the next command may have it. ended says that the command
// was ended by us.
func (c *command) conclude() (ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.killer; k != nil {
		ended = true
		c.mu.Unlock()
		<-k.done
		c.mu.Lock()
		c.exit.Kill, c.exit.Survivors = string(k.outcome), k.survivors
		if c.asked && c.terminated == spec.KillNone {
			c.terminated = k.outcome
		}
	}
	c.killer = nil // a later one finds what the command has left behind
	user, system := c.tree.CPUTime()
	c.tree.LeaveGroup()
	p := c.process
	c.exit.TimedOut, c.exit.NoOutput = c.timedOut, c.noOutput
	c.exit.Code = p.Status.ExitStatus()
	if p.Status.Signaled() {
		c.exit.Signal = int(p.Status.Signal())
		c.exit.Code = 128 + c.exit.Signal
	}
	c.exit.DurationNS = p.Ended.Sub(p.Begun).Nanoseconds()
	c.exit.UserNS, c.exit.SystemNS = user.Nanoseconds(), system.Nanoseconds()
	c.exit.MaxRSSBytes = p.Usage.Maxrss * 1024
	for i, total := range []*int64{&c.exit.StdoutBytes, &c.exit.StderrBytes} {
		if o := c.out[i]; o != nil {
			*total = o.Bytes()
		} else if o := c.drains[i]; o != nil && (c.keeper != nil || c.console != nil) {
			*total = o.Bytes()
		}
	}
	return ended
}

// lastError is the end of what the command wrote to stderr, as far as that was read.
func (c *command) lastError() []byte {
	for _, o := range c.outlets() {
		if tail := o.Tail(); tail != nil {
			return tail
		}
	}
	return nil
}

// outlets are those of all output that is read.
func (c *command) outlets() []*stream.Outlet {
	return slices.DeleteFunc(slices.Concat(c.out[:], c.drains[:]), func(o *stream.Outlet) bool { return o == nil })
}

// keyed reports whether the command has a key, and has started or failed to.
func (c *command) keyed() bool {
	select {
	case <-c.ready:
		return c.key != ""
	default:
		return false
	}
}

// late reports whether the command has overrun a deadline.
func (c *command) late() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timedOut
}

// over reports whether the command has finished.
func (c *command) over() bool {
	select {
	case <-c.finished:
		return true
	default:
		return false
	}
}
