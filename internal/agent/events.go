//go:build linux

package agent

import (
	"time"

	"github.com/berth-dev/berth/internal/agent/job"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// lastWord is how long listeners have to take the last event of the place.
const lastWord = time.Second

// tell records what the client causes.
func (cl *client) tell(e wire.PlaceEvent) {
	e.Client = cl.name
	cl.agent.feed.Record(e)
}

// event begins to say what happens to a command that has started.
func (c *command) event(kind, ofJob spec.EventKind) wire.PlaceEvent {
	if c.job {
		e := jobEvent(ofJob, c.keeper)
		e.Client = c.client
		return e
	}
	if c.console != nil {
		kind = c.console.event(kind)
	}
	return wire.PlaceEvent{Kind: string(kind), Client: c.client, ID: c.id, Key: c.key}
}

// jobEvent begins to say what happens to a job.
func jobEvent(kind spec.EventKind, j *job.Job) wire.PlaceEvent {
	e := wire.PlaceEvent{Kind: string(kind)}
	e.ID, e.Owner, e.Key = j.Names()
	return e
}

// begun records that a command runs.
func (a *agent) begun(c *command, args []wire.Bytes) {
	e := c.event(spec.EventCommandBegun, spec.EventJobBegun)
	e.Args, e.PID = args, c.process.PID
	a.feed.Record(e)
}

// ended records how it ended.
func (a *agent) ended(c *command) {
	exit := c.exit // a copy: an event outlives its command
	if exit.OOM != nil {
		a.feed.Record(c.event(spec.EventOOM, spec.EventOOM))
	}
	e := c.event(spec.EventCommandEnded, spec.EventJobEnded)
	e.PID, e.Exit = c.process.PID, &exit
	a.feed.Record(e)
}

// cause is why a tree is ended, and which client asked for it; "": none did.
type cause struct{ reason, client string }

// The reasons.
const (
	forTimeout   = "timeout"
	forSilence   = "no_output"
	forTerminate = "terminate"
	forKill      = "kill"
	forCancel    = "cancel"
	forLeaving   = "abandoned" // its client has left
	forClosing   = "closing"   // the place ends
)

// jobCause is why a job is ended through its record.
func (a *agent) jobCause() cause {
	if a.life.over() {
		return cause{reason: forClosing}
	}
	return cause{reason: forKill}
}

// killing records that the command is about to be ended, unless it has ended by itself.
func (c *command) killing(why cause) {
	if c.over() {
		return
	}
	e := c.event(spec.EventKilled, spec.EventKilled)
	e.Client, e.Reason = why.client, why.reason
	c.feed.Record(e)
}
