//go:build linux

package agent

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// maxControlBytes bounds what a host says about a command in one message.
const maxControlBytes = 4 << 10

var (
	errNoCommand = spec.New(spec.CodeNotFound, "no such command")
	errLapsed    = spec.New(spec.CodeUnknownOutcome, "the request has been served, and what became of it is no longer kept")
)

// exec serves the control stream of a new command, or of the one that runs or ran
// under the same key or id.
func (cl *client) exec(s *wire.Stream, req *wire.ExecRequest) error {
	a := cl.agent
	if len(req.ID) > maxIDBytes || len(req.Key) > spec.MaxKeyBytes || req.Terminal != nil {
		return stream.ErrIncomplete
	}
	c, fresh := a.table.claim(req, cl.name)
	if c == nil {
		return errLapsed
	}
	if fresh {
		if c.startErr = a.start(c, req, nil, cl.profile.WindowBytes); c.startErr != nil {
			a.table.unkey(c)
		}
		close(c.ready)
	} else if req.ID != c.id {
		defer time.AfterFunc(a.cfg.resume, func() { a.table.unalias(c, req.ID) })
	}
	return cl.control(s, c)
}

// attach serves the control stream of a command that is known.
func (cl *client) attach(s *wire.Stream, req *wire.AttachRequest) error {
	c := cl.agent.table.take(req.ID, cl.name)
	if c == nil {
		return errNoCommand
	}
	return cl.control(s, c)
}

// control serves a control stream of c, which the caller has held, until the host
// lets go.
func (cl *client) control(s *wire.Stream, c *command) error {
	<-c.ready
	if c.startErr != nil {
		// It stays known until the host has heard: its data streams may still
		// be on their way.
		_ = wire.WriteMessage(s, &wire.Event{Err: wire.FromError(c.startErr)})
		stream.Discard(s)
		cl.agent.letGo(c, true)
		return nil
	}
	ctl := &controller{client: cl, stream: s, command: c, gone: make(chan struct{})}
	done := false
	if wire.WriteMessage(s, &wire.Event{Started: &wire.Started{ID: c.id, PID: c.process.PID}}) == nil {
		go ctl.report()
		done = ctl.obey()
	}
	close(ctl.gone)
	// A host that hangs up after it was told the exit has it, unless the
	// connection broke: then it may ask again.
	collected := c.over() && (done || ctl.told.Load() && !cl.lost())
	for _, o := range c.outlets() {
		if collected {
			o.Collected(cl.name)
		}
	}
	cl.agent.letGo(c, collected)
	return nil
}

// controller is one control stream of a command that has started.
type controller struct {
	client  *client
	stream  *wire.Stream
	command *command
	gone    chan struct{} // closed when the host has let go
	told    atomic.Bool   // the exit has been sent, or is about to be

	mu        sync.Mutex
	reporting bool           // no more acknowledgement goes before the exit
	acks      sync.WaitGroup // acknowledgements that go before the exit
}

// report sends the exit, after all output that this connection has asked for and
// whatever acknowledgements are due. If that takes its time, it says before that the
// leader has ended.
func (ctl *controller) report() {
	c := ctl.command
	select {
	case <-c.process.Done:
	case <-ctl.gone:
		return
	}
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		<-c.finished
		for _, o := range c.out {
			if o != nil {
				o.Flushed(ctl.client.peer)
			}
		}
	}()
	const soon, since = 200 * time.Millisecond, 5
	select {
	case <-flushed:
	case <-time.After(soon):
		if ctl.client.minor >= since {
			_ = wire.WriteMessage(ctl.stream, &wire.Event{Ended: &wire.Ended{TimedOut: c.late()}})
		}
		<-flushed
	}
	ctl.mu.Lock()
	ctl.reporting = true
	ctl.mu.Unlock()
	ctl.acks.Wait()
	// Before the write: the host may hang up as soon as it has read it.
	ctl.told.Store(true)
	_ = wire.WriteMessage(ctl.stream, &wire.Event{Exit: &c.exit})
}

// obey does what the host asks until its side of the stream ends, and reports
// whether it has said that it has the exit.
func (ctl *controller) obey() (done bool) {
	for {
		var m wire.Control
		if wire.ReadMessage(ctl.stream, &m, maxControlBytes) != nil {
			return done
		}
		if err := ctl.client.allowed(); err != nil {
			_ = wire.WriteMessage(ctl.stream, &wire.Event{Err: wire.FromError(err)})
			return done
		}
		done = done || m.Done
		if m.Signal > 0 && m.Signal <= proc.LastSignal {
			_ = ctl.client.agent.reaper.SignalGroup(ctl.command.process, unix.Signal(m.Signal))
		}
		var ending *killer
		switch {
		case m.Kill:
			ending = ctl.command.end(0, cause{forKill, ctl.client.name})
		case m.Cancel:
			ending = ctl.command.end(ctl.command.grace, cause{forCancel, ctl.client.name})
		}
		if m.Seq != 0 {
			ctl.acknowledge(m.Seq, ending)
		}
	}
}

// acknowledge confirms what was asked for with seq, after ending unless that is nil.
// It does not wait: a host that has asked for the end may still cut it short.
func (ctl *controller) acknowledge(seq uint64, ending *killer) {
	ack := &wire.Event{Ack: seq}
	if ending == nil {
		_ = wire.WriteMessage(ctl.stream, ack)
		return
	}
	ctl.mu.Lock()
	first := !ctl.reporting
	if first {
		ctl.acks.Add(1)
	}
	ctl.mu.Unlock()
	go func() {
		if first {
			defer ctl.acks.Done()
		}
		<-ending.done
		_ = wire.WriteMessage(ctl.stream, ack)
	}()
}

// data serves one standard stream of a command.
func (cl *client) data(s *wire.Stream, req *wire.DataRequest) error {
	c := cl.agent.table.await(req.ID, cl.mux.Done())
	if c == nil {
		return errNoCommand
	}
	<-c.ready
	if c.startErr != nil {
		return c.startErr
	}
	switch {
	case req.FD == 0 && c.in != nil:
		c.in.Receive(s)
		return nil
	case (req.FD == 1 || req.FD == 2) && c.out[req.FD-1] != nil:
		return c.out[req.FD-1].Send(cl.peer, s, req.Offset)
	}
	return &spec.Error{Code: spec.CodeInvalid, Err: errors.New("the command was not started with this stream")}
}

// letGo gives up one hold on c. A command without a key that nobody holds is
// forgotten at once where the host has its exit, else ended and forgotten unless
// somebody takes it up within the resume window.
func (a *agent) letGo(c *command, collected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds--
	switch {
	case c.holds > 0 || c.key != "" && c.startErr == nil:
	case collected:
		go a.forget(c)
	default:
		c.lapse = time.AfterFunc(a.cfg.resume, func() {
			c.mu.Lock()
			late := c.holds == 0
			c.mu.Unlock()
			if !late {
				return
			}
			a.forget(c)
			if !c.over() { // what a command that has ended left behind lives on
				c.end(c.grace, cause{reason: forLeaving})
			}
		})
	}
}

// forget makes c unknown, and its streams lead nowhere.
func (a *agent) forget(c *command) {
	a.table.remove(c)
	if c.in != nil {
		c.in.Close()
	}
	for _, o := range c.out {
		if o != nil {
			o.Abandon()
		}
	}
}

// bye ends and forgets the commands without a key of a client that leaves on
// purpose, and returns when that is done.
func (a *agent) bye(client string) {
	a.terminals.Bye(client)
	for _, c := range a.table.all((*command).keyed) {
		for _, o := range c.outlets() {
			o.Bye(client)
		}
	}
	a.endAll(func(c *command) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.key == "" && c.owner == client
	}, -1, cause{forLeaving, client})
}

// endAll ends the commands that match and have not finished, and forgets those
// without a key. A negative grace is that of each command. It returns when they have
// ended, or after a time in which all should have: a command whose start is held up, or
// that not even KILL ends, is seen through in the background.
func (a *agent) endAll(match func(*command) bool, grace time.Duration, why cause) {
	var all sync.WaitGroup
	for _, c := range a.table.all(match) {
		all.Go(func() { a.endOne(c, grace, why) })
	}
	settled(&all, max(grace, spec.DefaultGrace)+2*proc.KillTime)
}

// endOne ends c, once it is known whether it has started, and waits for its end.
func (a *agent) endOne(c *command, grace time.Duration, why cause) {
	<-c.ready
	if c.key == "" {
		a.forget(c)
	}
	if c.startErr != nil || c.over() {
		return
	}
	if grace < 0 {
		grace = c.grace
	}
	c.end(grace, why)
	<-c.finished
}

// settled waits for group, for most at longest.
func settled(group *sync.WaitGroup, most time.Duration) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}
