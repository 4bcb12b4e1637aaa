//go:build linux

package agent

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/agent/job"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// roster knows the commands and jobs that have started and not finished.
type roster struct {
	mu      sync.Mutex
	running map[*command]bool
}

func newRoster() *roster { return &roster{running: map[*command]bool{}} }

func (r *roster) add(c *command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[c] = true
}

func (r *roster) remove(c *command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, c)
}

// all returns those that match, in the order of their starts.
func (r *roster) all(match func(*command) bool) []*command {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*command
	for c := range r.running {
		if match(c) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *command) int {
		return cmp.Or(a.process.Begun.Compare(b.process.Begun), cmp.Compare(a.process.PID, b.process.PID))
	})
	return out
}

// terminate serves the request to end what runs under a key.
func (cl *client) terminate(s *wire.Stream, req *wire.TerminateRequest) error {
	most := spec.MaxTimeout.Milliseconds()
	if req == nil || req.Key == "" || len(req.Key) > spec.MaxKeyBytes || req.GraceMS > most {
		return stream.ErrIncomplete
	}
	c := spec.Command{Grace: time.Duration(max(req.GraceMS, -1)) * time.Millisecond}
	outcome, err := cl.agent.terminate(req.Key, c.GraceOrDefault(), cl.name)
	if err != nil {
		return err
	}
	return stream.Reply(s, &wire.Reply{Kill: string(outcome)})
}

// terminate ends the tree of the command that has the key, or else that of the job.
func (a *agent) terminate(key string, grace time.Duration, client string) (spec.KillOutcome, error) {
	if c := a.table.keyed(key); c != nil {
		<-c.ready
		if c.startErr == nil {
			return c.terminate(grace, client), nil
		}
	}
	if a.jobs != nil {
		outcome, err := a.jobs.Registry.Terminate(key, func(j *job.Job) spec.KillOutcome {
			for _, c := range a.roster.all(func(c *command) bool { return c.keeper == j }) {
				return c.terminate(grace, client)
			}
			return spec.KillNone
		})
		if err != nil || outcome != spec.KillNone {
			return outcome, err
		}
	}
	if a.first {
		return spec.KillExited, nil
	}
	return spec.KillUnknown, nil
}

// terminate ends the tree, those processes too that the command left behind if it has
// ended. It answers as it first did.
func (c *command) terminate(grace time.Duration, client string) spec.KillOutcome {
	over := c.over()
	c.mu.Lock()
	answer := c.terminated
	c.asked = c.asked || !over
	c.mu.Unlock()
	if answer != spec.KillNone {
		return answer
	}
	k := c.end(grace, cause{forTerminate, client})
	<-k.done
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.terminated != spec.KillNone:
	case over:
		c.terminated = spec.KillExited
	default:
		c.terminated = k.outcome
	}
	return c.terminated
}

// runningBatch is how many commands one reply describes: what is said of each has a
// bound that makes wire.RunningBatch too many.
const runningBatch = 64

// running serves the request to list what runs.
func (cl *client) running(s *wire.Stream) error {
	all := cl.agent.runs()
	for batch := range slices.Chunk(all, runningBatch) {
		if err := stream.Reply(s, &wire.Reply{Running: batch}); err != nil {
			return err
		}
	}
	return stream.Reply(s, &wire.Reply{Done: true})
}

// maxNameBytes bounds what is told of a program's name.
const maxNameBytes = 256

// runs describes what runs.
func (a *agent) runs() []wire.Running {
	var out []wire.Running
	for _, c := range a.roster.all(func(*command) bool { return true }) {
		start, ok := a.reaper.Identify(c.process)
		if !ok {
			continue // it has ended since
		}
		r := wire.Running{
			ID: c.id, Key: c.key, Name: wire.Bytes(c.name[:min(len(c.name), maxNameBytes)]),
			PID: c.process.PID, StartTicks: start, StartedUnixNS: c.process.Begun.UnixNano(),
		}
		if c.job {
			r.Job = true
			r.ID, r.Owner, r.Key = c.keeper.Names()
		}
		out = append(out, r)
	}
	return out
}
