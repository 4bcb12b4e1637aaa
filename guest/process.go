package guest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest/internal/outage"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// hostSlack is how long after a command's deadline and grace the host decides by
// itself; confirmSlack how long after a cancel and its grace it stops waiting for
// the guest to confirm.
const (
	hostSlack    = 2 * time.Second
	confirmSlack = 5 * time.Second
)

// process is one command, from the host's side. Its goroutines are the supervisor,
// which listens on the control stream and re-attaches (attach.go), one for each
// output (output.go) and, if there is input, three for it (input.go).
type process struct {
	s       *Session
	id      string // chosen here
	key     string
	timeout time.Duration
	silence time.Duration // after which it is ended; 0: never
	grace   time.Duration
	sent    time.Time   // when the request was sent
	first   *conn       // which it was sent on
	host    *time.Timer // runs from then on to the host's own deadline; nil without a timeout

	// ctx is Start's: it bounds the command's life, which is longer than the
	// call, so it is kept.
	ctx context.Context
	// life bounds what the host does for the command: it ends with the session
	// or when the guest does not confirm an end in time.
	life context.Context
	drop context.CancelFunc
	// outage is the supervisor's.
	outage outage.Outage
	// unwatch ends the watch that aborts the current link when life ends.
	unwatch func()

	outputs []*output
	drained chan struct{} // closed when the last output has ended
	in      *input        // nil without input

	started chan struct{} // closed when the guest has said that the command runs
	over    chan struct{} // closed when Wait's answer is known
	ended   chan struct{} // closed when the guest has said how the command ended
	left    chan struct{} // closed when the supervisor is gone

	mu      sync.Mutex
	guestID string // the guest's name for the command; differs from id for a repeated key
	settled bool
	exit    spec.Exit
	err     error
	running int  // outputs that have not ended
	inTime  bool // the guest has said that the leader ended before its deadline
	late    bool // the host's own deadline is over, and only output is waited for
	link    *link
	linked  chan struct{} // closed when the first link is there
	seq     uint64
	acks    map[uint64]chan error
	acked   uint64 // acknowledgements that came
}

// Start implements driver.Session. Beside its contract: a deadline is kept here as
// well as in the guest. If the guest has said nothing Timeout and Grace and 2 s after
// the request, Wait answers an Exit with TimedOut, Code -1 and Kill unknown, and the
// output so far. A guest that has said that the command ended before its deadline is
// waited for, as long as the writers of Stdio take its output. After a cancel Wait
// answers at once, while the command gets its grace; a guest that does not confirm its
// end within 5 s more is no longer listened to. Once Wait has answered nothing more is
// written to Stdio, but for a Write that was blocked at that moment. What an end of
// Stdio failed with is Wait's error as it was, beside the Exit.
func (s *Session) Start(ctx context.Context, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
	c = c.Clone()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.canRun(c); err != nil {
		return nil, err
	}
	p := s.newProcess(ctx, c, stdio)
	stopCancel := context.AfterFunc(ctx, p.cancelled)
	go func() {
		defer stopCancel()
		p.supervise(execRequest(p.id, c, stdio))
	}()
	select {
	case <-p.started:
		return p, nil
	case <-p.over:
	}
	select {
	case <-p.started: // it was as quick as that
		return p, nil
	default:
	}
	if p.err != nil {
		return nil, p.err
	}
	return p, nil
}

// canRun refuses what the guest would ignore, or cannot do.
func (s *Session) canRun(c *spec.Command) error {
	const since, pathsSince = 1, 4
	if s.minor < since && (c.NoOutputTimeout > 0 || c.KeepOutput || c.User != "" || c.Umask != nil || len(c.Rlimits) > 0) {
		return &spec.Error{
			Code: spec.CodeUnsupported, Err: errors.New("the guest is too old for a command's user, umask, limits or end after silence"),
			Hint: "end the sandbox and provision it again: a new guest comes with it",
		}
	}
	if s.minor < pathsSince && len(c.EnvPaths) > 0 {
		return &spec.Error{
			Code: spec.CodeUnsupported, Err: errors.New("the guest is too old for paths in front of a command's variables"),
			Hint: "end the sandbox and provision it again: a new guest comes with it",
		}
	}
	if c.User != "" && !s.caps.CommandUser {
		text := "this place runs every command as its own user"
		if why := s.caps.Why("command_user"); why != "" {
			text += ": " + why
		}
		return spec.New(spec.CodeUnsupported, text)
	}
	return nil
}

func (s *Session) newProcess(ctx context.Context, c *spec.Command, stdio driver.Stdio) *process {
	p := &process{
		s: s, id: randomID(), key: c.Key, timeout: c.Timeout, silence: c.NoOutputTimeout, grace: c.GraceOrDefault(), ctx: ctx,
		drained: make(chan struct{}), started: make(chan struct{}), over: make(chan struct{}),
		ended: make(chan struct{}), left: make(chan struct{}), linked: make(chan struct{}),
	}
	p.guestID, p.unwatch = p.id, func() {}
	p.life, p.drop = context.WithCancel(s.alive)
	if stdio.Stdout != nil {
		p.outputs = append(p.outputs, newOutput(1, stdio.Stdout))
	}
	if stdio.Stderr != nil && !c.MergeOutput {
		p.outputs = append(p.outputs, newOutput(2, stdio.Stderr))
	}
	if p.running = len(p.outputs); p.running == 0 {
		close(p.drained)
	}
	if stdio.Stdin != nil {
		p.in = newInput(stdio.Stdin, s.o.Profile)
	}
	return p
}

func byteStrings(list []string) []wire.Bytes {
	out := make([]wire.Bytes, len(list))
	for i, s := range list {
		out[i] = wire.Bytes(s)
	}
	return out
}

func execRequest(id string, c *spec.Command, stdio driver.Stdio) *wire.Request {
	r := &wire.ExecRequest{
		ID: id, Key: c.Key, Dir: wire.Bytes(c.Dir), CleanEnv: c.CleanEnv,
		TimeoutMS: millis(c.Timeout), GraceMS: millis(c.GraceOrDefault()), Merge: c.MergeOutput,
		Stdin: stdio.Stdin != nil, Stdout: stdio.Stdout != nil, Stderr: stdio.Stderr != nil && !c.MergeOutput,
		Args:       byteStrings(c.Args),
		NoOutputMS: millis(c.NoOutputTimeout), User: c.User, Rlimits: c.Rlimits, Keep: c.KeepOutput,
	}
	if c.Umask != nil {
		mask := uint32(*c.Umask)
		r.Umask = &mask
	}
	if len(c.Env) > 0 {
		r.Env = make(map[string]wire.Bytes, len(c.Env))
		for k, v := range c.Env {
			r.Env[k] = wire.Bytes(v)
		}
	}
	if len(c.EnvPaths) > 0 {
		r.EnvPaths = make(map[string][]wire.Bytes, len(c.EnvPaths))
		for name, dirs := range c.EnvPaths {
			r.EnvPaths[name] = byteStrings(dirs)
		}
	}
	return &wire.Request{Op: wire.OpExec, Exec: r}
}

// ID implements driver.Process.
func (p *process) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.guestID
}

// Wait implements driver.Process.
func (p *process) Wait(ctx context.Context) (spec.Exit, error) {
	select {
	case <-p.over:
		return p.exit, p.err
	default:
	}
	select {
	case <-p.over:
		return p.exit, p.err
	case <-ctx.Done():
		return spec.Exit{}, ctx.Err()
	}
}

// Signal implements driver.Process. A connection that breaks before the guest has
// confirmed is CodeUnknownOutcome: a signal is never sent twice.
func (p *process) Signal(ctx context.Context, sig spec.Signal) error {
	if sig < 1 || sig > 64 {
		return spec.New(spec.CodeInvalid, fmt.Sprintf("signal %d: want 1 to 64", int(sig)))
	}
	l, err := p.current(ctx)
	if l == nil || err != nil {
		return err
	}
	err = p.tell(ctx, l, wire.Control{Signal: int(sig)})
	if errors.Is(err, errLost) {
		return &spec.Error{Code: spec.CodeUnknownOutcome, Err: errLost}
	}
	return err
}

// Kill implements driver.Process. It is sent again after a re-attach.
func (p *process) Kill(ctx context.Context) error { return p.insist(ctx, wire.Control{Kill: true}) }

// insist sends c on each link until one confirms it or the command has ended.
func (p *process) insist(ctx context.Context, c wire.Control) error {
	for {
		l, err := p.current(ctx)
		if l == nil || err != nil {
			return err
		}
		if err = p.tell(ctx, l, c); !errors.Is(err, errLost) {
			return err
		}
		select {
		case <-l.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// current returns the command's link to the guest. It is nil, without an error, if
// the command has ended.
func (p *process) current(ctx context.Context) (*link, error) {
	select {
	case <-p.ended:
		return nil, nil
	default:
	}
	select {
	case <-p.linked:
	case <-p.left:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		p.mu.Lock()
		l := p.link
		p.mu.Unlock()
		if l == nil {
			return nil, p.goneError()
		}
		select {
		case <-l.gone: // the next one is in its place, or none
			continue
		default:
			return l, nil
		}
	}
}

// goneError is what a signal answers once the host no longer listens to the command.
func (p *process) goneError() error {
	select {
	case <-p.ended:
		return nil
	default:
		return &spec.Error{Code: spec.CodeUnknownOutcome, Err: errors.New("the command is out of reach")}
	}
}

// tell sends a control message on l and waits until it is confirmed or the command
// has ended. errLost: l broke first.
func (p *process) tell(ctx context.Context, l *link, c wire.Control) error {
	ack := make(chan error, 1)
	p.mu.Lock()
	p.seq++
	c.Seq = p.seq
	if p.acks == nil {
		p.acks = make(map[uint64]chan error)
	}
	p.acks[c.Seq] = ack
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.acks, c.Seq)
		p.mu.Unlock()
	}()
	err := p.s.dispatch(ctx, l.c, func(*conn) error { return l.send(ctx, c) })
	if err != nil {
		return ctxFirst(ctx, err)
	}
	select {
	case err := <-ack:
		return err
	case <-p.ended:
		return nil
	case <-l.gone:
		return errLost
	case <-l.c.mux.Done():
		return errLost
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acknowledge hands an acknowledgement to the one who waits for it, if anyone does. One
// for what was never sent, or more of them than were asked for, is a breach.
func (p *process) acknowledge(seq uint64, e *wire.Error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acked++; seq > p.seq || p.acked > p.seq {
		return violation("acknowledgement %d of %d", seq, p.seq)
	}
	ack := p.acks[seq]
	delete(p.acks, seq)
	switch {
	case ack == nil:
	case e != nil:
		ack <- e.Spec() // it holds one
	default:
		ack <- nil
	}
	return nil
}

// settle makes (exit, err) the answer of Wait, unless there is one. Nothing is
// written to the caller's writers after it.
func (p *process) settle(exit spec.Exit, err error) {
	p.mu.Lock()
	if p.settled {
		p.mu.Unlock()
		return
	}
	p.settled = true
	p.mu.Unlock()
	for _, o := range p.outputs {
		o.shut()
	}
	if p.in != nil {
		p.in.stop()
	}
	p.exit, p.err = exit, err
	close(p.over)
}

// cancelled runs when Start's ctx has ended: Wait answers at once, and the cancel is
// seen through in the background.
func (p *process) cancelled() {
	p.settle(spec.Exit{}, p.ctx.Err())
	p.seeThrough(wire.Control{Cancel: true}, p.grace+confirmSlack)
}

// startClock notes that the request is about to be sent, and starts the host's clock.
func (p *process) startClock() {
	p.sent = time.Now()
	if p.timeout > 0 {
		p.host = time.AfterFunc(p.timeout+p.grace+hostSlack, p.expired)
	}
}

// overdue reports whether the deadline is over and the guest has not said how the
// command ended, nor that it did in time.
func (p *process) overdue() bool {
	select {
	case <-p.ended:
		return false
	default:
		return p.timeout > 0 && !p.sent.IsZero() && time.Since(p.sent) >= p.timeout && !p.leftInTime()
	}
}

func (p *process) leftInTime() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inTime
}

// expired runs when the guest has not said how the command ended although its
// deadline, its grace and some slack are over: the host decides.
func (p *process) expired() {
	select {
	case <-p.ended:
		return // it ended in time: it is the caller's writer that is slow
	default:
	}
	if p.leftInTime() {
		p.expectRest()
		return
	}
	p.settle(p.timedOut(), nil)
	p.seeThrough(wire.Control{Kill: true}, confirmSlack)
}

// expectRest waits for what is left of a command that, by the guest's word, has ended in
// time, although the host's deadline is over: for the caller's writers as long as they
// take, and for the guest no longer than after an exit.
func (p *process) expectRest() {
	for _, o := range p.outputs {
		// What may be on its way, and what the guest and the pipe may hold.
		rest := lateBytes + 2*int64(p.s.o.Profile.WindowBytes)
		o.most.CompareAndSwap(math.MaxInt64, o.received.Load()+rest)
	}
	p.mu.Lock()
	p.late = true
	l := p.link
	p.mu.Unlock()
	if l != nil {
		l.hasten()
	}
	select {
	case <-p.drained:
	case <-p.over:
		return
	}
	select {
	case <-p.over:
		return
	case <-p.ended:
		return
	case <-time.After(p.grace + hostSlack + p.s.resume):
	}
	p.settle(spec.Exit{}, &spec.Error{Code: spec.CodeUnknownOutcome, Err: errors.New("the guest said that the command has ended, and not how")})
	p.seeThrough(wire.Control{Kill: true}, confirmSlack)
}

// timedOut is the result of a command that was running at its deadline and of which
// the guest said no more.
func (p *process) timedOut() spec.Exit {
	e := spec.Exit{Code: -1, TimedOut: true, Kill: spec.KillUnknown, Duration: time.Since(p.sent)}
	for _, o := range p.outputs {
		*o.count(&e) = o.received.Load()
	}
	return e
}

// seeThrough ends the command and gives the guest so long to confirm it. Then the
// host lets go of the command's streams.
func (p *process) seeThrough(c wire.Control, most time.Duration) {
	ctx, cancel := context.WithTimeout(p.life, most)
	defer cancel()
	if err := p.insist(ctx, c); err == nil {
		select {
		case <-p.left:
		case <-ctx.Done():
		}
	}
	p.drop()
}
