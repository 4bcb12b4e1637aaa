package fake

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/berth-dev/berth/backend/fake/internal/environ"
	"github.com/berth-dev/berth/backend/fake/internal/job"
	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/backend/fake/internal/stream"
	"github.com/berth-dev/berth/backend/fake/internal/terminal"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// maxKept is how many commands with a key are remembered once they have ended.
const maxKept = 1024

// chunk is how much of the input is copied at a time.
const chunk = 32 << 10

// command is one command of a place, a job's too.
type command struct {
	p      *place
	k      *kernel.Kernel
	id     string
	spec   *spec.Command
	grace  time.Duration
	owner  *session // of a command without a key
	client string   // who asked for it first

	ready    chan struct{} // closed when it has started, or has failed to
	startErr error
	proc     *kernel.Proc
	out      [2]*stream.Outlet
	stdin    *kernel.Pipe // nil where nobody asked
	input    func()       // closes it
	recorded stream.Recording
	tee      func([]byte) // gets all output; nil: nobody keeps it
	kept     *job.Job     // of KeepOutput
	job      *job.Job     // the one that it is; nil: none
	tty      *kernel.TTY  // of a job or terminal; nil: none
	terminal *terminal.Terminal
	name     string   // that the program sees; "": its own
	unset    []string // of the place's environment

	finished chan struct{} // closed when exit or lost is known
	exit     spec.Exit
	lost     error

	mu       sync.Mutex
	timedOut bool
	noOutput bool
	killer   *killer
	// asked: somebody has asked for its end by its key while it ran; terminated is
	// what is answered to that from now on.
	asked      bool
	terminated spec.KillOutcome
}

// killer is one ending of a command's tree.
type killer struct {
	hurry   chan struct{} // closed when the grace is over early
	hurried bool
	done    chan struct{} // outcome is valid once it is closed
	outcome spec.KillOutcome
}

// Start implements driver.Session.
func (s *session) Start(ctx context.Context, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
	c = c.Clone()
	var out *process
	err := s.do(ctx, Request{Op: OpStart, Args: c.Args}, func() error {
		cmd, fresh, err := s.p.command(c, s, stdio)
		if err != nil {
			return err
		}
		out = newProcess(ctx, s, cmd, stdio, fresh)
		return nil
	})
	if err != nil {
		if out != nil && out.c.spec.Key == "" {
			out.c.kill(0, "abandoned", "") // nobody holds it: its answer was lost on the way
		}
		return nil, err
	}
	return out, nil
}

// check refuses what a place in memory cannot do.
func check(c *spec.Command) error {
	if c.User != "" {
		return spec.New(spec.CodeUnsupported, "user: a place in memory has one user")
	}
	return nil
}

// command returns the command that c means: one that is known by its key, or a fresh
// one that has started.
func (p *place) command(c *spec.Command, s *session, stdio driver.Stdio) (cmd *command, fresh bool, err error) {
	if err := check(c); err != nil {
		return nil, false, err
	}
	cmd = newCommand(p, c)
	cmd.client = s.client
	p.mu.Lock()
	if c.Key != "" {
		if known := p.commands[c.Key]; known != nil {
			p.mu.Unlock()
			<-known.ready
			return known, false, known.startErr
		}
		p.commands[c.Key] = cmd
	} else {
		cmd.owner = s
	}
	p.lastID++
	cmd.id = fmt.Sprintf("c%d", p.lastID)
	p.mu.Unlock()
	if c.KeepOutput {
		if cmd.kept, _, cmd.startErr = p.jobs.Add(c, spec.JobOptions{}, true); cmd.startErr == nil {
			cmd.tee = cmd.kept.Log.Write
		}
	}
	if cmd.startErr == nil {
		cmd.startErr = cmd.start(stdio.Stdin != nil, [2]bool{stdio.Stdout != nil || c.KeepOutput, stdio.Stderr != nil || c.KeepOutput})
	}
	if cmd.startErr != nil {
		p.mu.Lock()
		if p.commands[c.Key] == cmd {
			delete(p.commands, c.Key)
		}
		p.mu.Unlock()
		if cmd.kept != nil {
			p.jobs.Failed(cmd.kept, cmd.startErr)
		}
	}
	close(cmd.ready)
	return cmd, true, cmd.startErr
}

func newCommand(p *place, c *spec.Command) *command {
	return &command{p: p, spec: c, grace: c.GraceOrDefault(), ready: make(chan struct{}), finished: make(chan struct{})}
}

// start starts the process and what attends to it. taken says whether stdout and stderr
// are wanted.
func (c *command) start(stdin bool, taken [2]bool) error {
	p := c.p
	k, err := p.system()
	if err != nil {
		return err
	}
	c.k = k
	dir := c.spec.Dir
	if dir == "" || dir[0] != '/' {
		dir = p.spec.Workdir + "/" + dir
	}
	attr := kernel.Attr{
		Args: c.spec.Args, Name: c.name, Dir: dir, Env: environ.Command(p.env, c.spec.WithEnvPaths(p.env), c.unset, dir), Path: environ.Path(p.env),
		Umask: 0o022, Limits: c.spec.Rlimits, Value: c,
	}
	if c.spec.Umask != nil {
		attr.Umask = uint32(*c.spec.Umask)
	}
	c.connect(&attr, stdin, taken)
	if c.proc, err = k.Start(attr); err != nil {
		if c.input != nil {
			c.input()
		}
		return err
	}
	if c.terminal != nil {
		c.id = c.terminal.Began(c.proc.PID, c.spec.Args[0], func(grace time.Duration) { c.kill(grace, "kill", "") })
	}
	p.mu.Lock()
	p.running++
	p.live[c] = true
	p.adjustLocked()
	p.mu.Unlock()
	if c.owner != nil {
		c.owner.mu.Lock()
		c.owner.mine[c] = true
		late := c.owner.closed
		c.owner.mu.Unlock()
		if late {
			c.kill(0, "abandoned", c.client)
		}
	}
	for _, o := range c.out {
		if o != nil {
			go o.Pump()
		}
	}
	c.tell(spec.EventCommandBegun, spec.EventJobBegun, spec.Event{Args: c.spec.Args, PID: c.proc.PID})
	go c.attend()
	return nil
}

// connect makes the command's streams: its terminal, or pipes.
func (c *command) connect(attr *kernel.Attr, stdin bool, taken [2]bool) {
	if c.tty != nil {
		attr.TTY = c.tty
		c.out[0] = stream.New(c.tty.Output(), false, taken[0], c.tee)
		return
	}
	attr.Files[0] = kernel.Null()
	if stdin {
		var near *kernel.File
		c.stdin, attr.Files[0], near = kernel.NewPipe()
		c.input = sync.OnceFunc(near.Close)
	}
	for i := range c.out {
		if i == 1 && c.spec.MergeOutput {
			attr.Files[2] = attr.Files[1].Share()
			continue
		}
		pipe, _, w := kernel.NewPipe()
		attr.Files[1+i] = w
		c.out[i] = stream.New(pipe, c.spec.Key != "", taken[i], c.tee)
	}
}

// attend sees the command through to its end.
func (c *command) attend() {
	c.watch()
	if c.terminal != nil {
		c.terminal.LeaderEnded()
	}
	if c.input != nil {
		c.input()
	}
	for _, o := range c.out {
		if o != nil {
			if c.k.Lost() != nil {
				o.Abandon()
			}
			o.LeaderEnded()
		}
	}
	for _, o := range c.out {
		if o != nil {
			<-o.Over()
		}
	}
	c.conclude()
	c.endTerminal()
	c.mu.Lock()
	terminated := c.terminated
	c.mu.Unlock()
	if c.job != nil && terminated != spec.KillNone {
		c.p.jobs.Settle(c.job, terminated)
	}
	c.tell(spec.EventCommandEnded, spec.EventJobEnded, spec.Event{PID: c.proc.PID, Exit: c.end()})
	close(c.finished)
	p := c.p
	p.mu.Lock()
	p.running--
	delete(p.live, c)
	p.keepLocked(c)
	p.adjustLocked()
	p.mu.Unlock()
	if c.owner != nil {
		c.owner.mu.Lock()
		delete(c.owner.mine, c)
		c.owner.mu.Unlock()
	}
}

// keepLocked remembers a command with a key that has ended, and forgets the oldest one.
func (p *place) keepLocked(c *command) {
	if p.commands[c.spec.Key] != c {
		return
	}
	if p.kept = append(p.kept, c); len(p.kept) > maxKept {
		delete(p.commands, p.kept[0].spec.Key)
		p.kept = p.kept[1:]
	}
}

// watch waits for the leader and keeps the deadlines.
func (c *command) watch() {
	var deadline, silence <-chan time.Time
	if c.spec.Timeout > 0 {
		t := time.NewTimer(c.spec.Timeout)
		defer t.Stop()
		deadline = t.C
	}
	var quiet *time.Timer
	if c.spec.NoOutputTimeout > 0 {
		quiet = time.NewTimer(c.spec.NoOutputTimeout)
		defer quiet.Stop()
		silence = quiet.C
	}
	for {
		noOutput := false
		select {
		case <-c.proc.Done:
			return
		case <-deadline:
		case <-silence:
			if left := c.spec.NoOutputTimeout - time.Since(stream.LastWrite(c.proc.Started(), c.out[:])); left > 0 {
				quiet.Reset(left)
				continue
			}
			noOutput = true
		}
		select {
		case <-c.proc.Done:
			return
		default:
		}
		reason := "timeout"
		if noOutput {
			reason = "no_output"
		}
		c.mu.Lock()
		c.timedOut, c.noOutput = true, noOutput
		c.mu.Unlock()
		c.kill(c.grace, reason, "")
		<-c.proc.Done
		return
	}
}

// kill ends the command's tree: TERM and, unless all of it goes within grace, KILL. An
// ending under way is joined, and with no grace cut short.
func (c *command) kill(grace time.Duration, reason, client string) *killer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killer == nil {
		c.killer = &killer{hurry: make(chan struct{}), done: make(chan struct{})}
		c.killing(reason, client)
		go c.carryOut(c.killer, grace)
	} else if grace <= 0 && !c.killer.hurried {
		c.killer.hurried = true
		close(c.killer.hurry)
	}
	return c.killer
}

func (c *command) carryOut(k *killer, grace time.Duration) {
	defer close(k.done)
	if grace > 0 {
		c.hangUp()
	}
	k.outcome = c.proc.Tree().End(grace, k.hurry)
}

// conclude waits for an ending under way and writes the exit down.
func (c *command) conclude() {
	c.mu.Lock()
	k := c.killer
	c.mu.Unlock()
	if k != nil {
		<-k.done
	}
	c.lost = c.k.Lost()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killer = nil // a later one finds what the command has left behind
	st, took := c.proc.Status()
	c.exit = spec.Exit{Code: st.ExitCode(), Signal: st.Signal, TimedOut: c.timedOut, NoOutput: c.noOutput, Duration: max(took, 1)}
	if k != nil {
		c.exit.Kill = k.outcome
		if c.asked && c.terminated == spec.KillNone {
			c.terminated = k.outcome
		}
	}
	used := c.proc.Tree().Usage()
	c.exit.UserTime, c.exit.MaxRSSBytes = used.CPU, used.MaxHeld
	for i, total := range []*int64{&c.exit.StdoutBytes, &c.exit.StderrBytes} {
		if o := c.out[i]; o != nil {
			*total = o.Bytes()
		}
	}
	if c.kept != nil {
		c.exit.LogID = c.kept.ID()
		c.p.jobs.Finish(c.kept, c.end())
	}
}

// end is a copy of the exit; nil: nobody knows.
func (c *command) end() *spec.Exit {
	if c.lost != nil {
		return nil
	}
	end := c.exit
	return &end
}

// abandon frees the command from readers that do not read.
func (c *command) abandon() {
	for _, o := range c.out {
		if o != nil {
			o.Abandon()
		}
	}
}

// process is one client's hold on a command.
type process struct {
	s       *session
	c       *command
	life    context.Context
	readers []*stream.Reader
	done    chan struct{} // closed when the command has ended and its output is delivered
	stop    func() bool

	turn     chan struct{} // held by the Wait that makes the answer
	answered bool          // exit and err are valid
	exit     spec.Exit
	err      error

	mu       sync.Mutex
	canceled bool // life has ended before the command did
}

// newProcess holds c for s until life ends.
func newProcess(life context.Context, s *session, c *command, stdio driver.Stdio, fresh bool) *process {
	p := &process{s: s, c: c, life: life, done: make(chan struct{}), turn: make(chan struct{}, 1)}
	before := func() error {
		return s.p.w.request(context.Background(), Request{Op: OpOutput, Key: s.p.key, Args: c.spec.Args}, driver.Authority{}, s.p, func() error { return nil })
	}
	for i, w := range []io.Writer{stdio.Stdout, stdio.Stderr} {
		switch o := c.out[i]; {
		case o == nil:
		case w != nil:
			p.readers = append(p.readers, o.Read(w, before))
		case fresh:
			o.Untaken() // at most kept in the place
		}
	}
	if fresh && c.stdin != nil {
		go c.feed(stdio.Stdin)
	}
	go func() {
		<-c.finished
		for _, r := range p.readers {
			<-r.Done()
		}
		close(p.done)
	}()
	p.stop = context.AfterFunc(life, func() {
		select {
		case <-c.finished:
			return
		default:
		}
		p.mu.Lock()
		p.canceled = true
		p.mu.Unlock()
		c.kill(c.grace, "cancel", s.client)
	})
	return p
}

// feed copies the input to the command until one of them ends.
func (c *command) feed(src io.Reader) {
	defer c.input()
	buf := make([]byte, chunk)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			_, _ = c.recorded.Write(buf[:n])
			if _, werr := c.stdin.Write(buf[:n], kernel.Until(c.proc.Done)); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *process) ID() string { return p.c.id }

func (p *process) Signal(ctx context.Context, sig spec.Signal) error {
	return p.s.do(ctx, Request{Op: OpSignal, Args: p.c.spec.Args}, func() error {
		if sig < 1 || sig > kernel.LastSignal {
			return spec.New(spec.CodeInvalid, fmt.Sprintf("signal %d", sig))
		}
		select {
		case <-p.c.proc.Done:
			return nil
		default:
		}
		_ = p.c.k.Kill(nil, -p.c.proc.PID, int(sig)) // a group that has gone is no error
		return nil
	})
}

func (p *process) Kill(ctx context.Context) error {
	return p.s.do(ctx, Request{Op: OpKill, Args: p.c.spec.Args}, func() error {
		select {
		case <-p.c.kill(0, "kill", p.s.client).done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func (p *process) Wait(ctx context.Context) (spec.Exit, error) {
	select {
	case <-p.done:
		return p.answer(ctx)
	default:
	}
	select {
	case <-p.done:
		return p.answer(ctx)
	case <-p.life.Done():
	case <-ctx.Done():
		return spec.Exit{}, ctx.Err()
	}
	select {
	case <-p.c.finished: // in time, and its output is on its way
		select {
		case <-p.done:
			return p.answer(ctx)
		case <-ctx.Done():
			return spec.Exit{}, ctx.Err()
		}
	default:
		return spec.Exit{}, p.life.Err()
	}
}

// answer is what the first Wait found, for all who ask.
func (p *process) answer(ctx context.Context) (spec.Exit, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return spec.Exit{}, ctx.Err()
	}
	if p.answered {
		return p.exit, p.err
	}
	p.stop()
	p.mu.Lock()
	canceled := p.canceled
	p.mu.Unlock()
	p.answered = true
	switch {
	case p.c.lost != nil:
		p.err = p.c.lost
	case canceled:
		p.err = p.life.Err()
	default:
		r := Request{Op: OpWait, Key: p.s.p.key, Args: p.c.spec.Args}
		p.err = p.s.p.w.request(context.WithoutCancel(ctx), r, driver.Authority{}, p.s.p, func() error { return nil })
	}
	if p.err != nil {
		return spec.Exit{}, p.err
	}
	p.exit = p.c.exit
	for _, r := range p.readers {
		if p.err == nil {
			p.err = r.Err()
		}
	}
	return p.exit, p.err
}
