//go:build linux

package agent

import (
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// maxControlBytes bounds what a host says about a command in one message.
const maxControlBytes = 4 << 10

var errNoCommand = spec.New(spec.CodeNotFound, "no such command")

// exec serves the control stream of a new command, or of the one that runs or ran
// under the same key or id.
func (cl *client) exec(s *wire.Stream, req *wire.ExecRequest) error {
	a := cl.agent
	if len(req.ID) > maxIDBytes || len(req.Key) > spec.MaxKeyBytes {
		return errIncomplete
	}
	c, fresh := a.table.claim(req, cl.name)
	if fresh {
		if c.startErr = a.life.commandBegan(); c.startErr == nil {
			if c.startErr = a.begin(c, req, cl.profile.WindowBytes); c.startErr != nil {
				a.life.commandEnded()
			}
		}
		if c.startErr != nil {
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

// control reports on c and obeys what comes, until the host lets go. The caller has
// it held.
func (cl *client) control(s *wire.Stream, c *command) error {
	<-c.ready
	if c.startErr != nil {
		cl.agent.letGo(c, true)
		return c.startErr
	}
	var told atomic.Bool
	done := false
	if wire.WriteMessage(s, &wire.Event{Started: &wire.Started{ID: c.id, PID: c.process.PID}}) == nil {
		gone := make(chan struct{})
		go cl.report(s, c, gone, &told)
		done = cl.obey(s, c)
		close(gone)
	}
	// A host that hangs up after it was told the exit has it, unless the
	// connection broke: then it may ask again.
	cl.agent.letGo(c, c.over() && (done || told.Load() && !cl.lost()))
	return nil
}

// report sends the exit of c after all of its output, unless gone comes first.
func (cl *client) report(s *wire.Stream, c *command, gone <-chan struct{}, told *atomic.Bool) {
	select {
	case <-c.finished:
	case <-gone:
		return
	}
	for _, o := range c.out {
		if o != nil {
			o.Flushed(cl.peer)
		}
	}
	// Before the write: the host may hang up as soon as it has read it.
	told.Store(true)
	_ = wire.WriteMessage(s, &wire.Event{Exit: &c.exit})
}

// obey does what the host asks until its side of the stream ends, and reports
// whether it has said that it has the exit.
func (cl *client) obey(s *wire.Stream, c *command) (done bool) {
	for {
		var ctl wire.Control
		if wire.ReadMessage(s, &ctl, maxControlBytes) != nil {
			return done
		}
		if err := cl.allowed(); err != nil {
			_ = wire.WriteMessage(s, &wire.Event{Err: wire.FromError(err)})
			return done
		}
		done = done || ctl.Done
		if ctl.Signal > 0 && ctl.Signal <= proc.LastSignal {
			_ = cl.agent.reaper.SignalGroup(c.process, unix.Signal(ctl.Signal))
		}
		var ending *killer
		switch {
		case ctl.Kill:
			ending = c.end(0)
		case ctl.Cancel:
			ending = c.end(c.grace)
		}
		if ctl.Seq == 0 {
			continue
		}
		ack := &wire.Event{Ack: ctl.Seq}
		if ending == nil {
			_ = wire.WriteMessage(s, ack)
			continue
		}
		go func() { // a host that has asked for the end may still cut it short
			<-ending.done
			_ = wire.WriteMessage(s, ack)
		}()
	}
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
				c.end(c.grace)
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
	a.endAll(func(c *command) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.key == "" && c.owner == client
	}, -1)
}

// endAll ends the commands that match and have not finished, and forgets those
// without a key. A negative grace is that of each command.
func (a *agent) endAll(match func(*command) bool, grace time.Duration) {
	var endings []*command
	for _, c := range a.table.all(match) {
		<-c.ready
		if c.key == "" {
			a.forget(c)
		}
		if c.startErr != nil || c.over() {
			continue
		}
		if grace < 0 {
			c.end(c.grace)
		} else {
			c.end(grace)
		}
		endings = append(endings, c)
	}
	late := time.NewTimer(max(grace, spec.DefaultGrace) + 2*proc.KillTime)
	defer late.Stop()
	for _, c := range endings {
		select {
		case <-c.finished:
		case <-late.C: // a process that not even KILL ends
			return
		}
	}
}
