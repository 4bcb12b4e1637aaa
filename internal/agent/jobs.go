//go:build linux

package agent

import (
	"time"

	"github.com/berth-dev/berth/internal/agent/job"
	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// openJobs takes up the jobs of the place, where it has a directory for its state.
func (a *agent) openJobs() error {
	if a.cfg.state == "" {
		return nil
	}
	registry, err := job.Open(a.cfg.state, job.DefaultRetention)
	if err != nil {
		return err
	}
	a.first = a.first || registry.Fresh()
	registry.OnStall = func(j *job.Job) { a.feed.Record(jobEvent(spec.EventJobStalled, j)) }
	a.jobs = &job.Server{Registry: registry, Buffers: &a.buffers, Start: a.startJob}
	return nil
}

var errNoState = spec.New(spec.CodeUnsupported, "the place has no directory for its state, so it keeps no jobs")

// job serves one operation on jobs.
func (cl *client) job(s *wire.Stream, req *wire.Request) error {
	if cl.agent.jobs == nil {
		return errNoState
	}
	return cl.agent.jobs.Serve(s, req, job.Host{Chunk: cl.profile.ChunkBytes, Allowed: cl.allowed, Client: cl.name})
}

// startJob starts the command of a job, which belongs to no client: its input is empty
// and its output goes to the job.
func (a *agent) startJob(req *wire.ExecRequest, j *job.Job, client string) error {
	run := *req
	run.Key, run.Keep = "", false
	run.Merge, run.Stdin, run.Stdout, run.Stderr = true, false, false, false
	c := newCommand(&run, client)
	c.job = true
	return a.start(c, &run, j, 0)
}

// start starts a command that has been claimed. j, unless it is nil, keeps its output.
func (a *agent) start(c *command, req *wire.ExecRequest, j *job.Job, window int) (err error) {
	if j == nil && req.Keep {
		if a.jobs == nil {
			return errNoState
		}
		if j, err = a.jobs.Keep(req); err != nil {
			return err
		}
		c.exit.LogID = j.ID()
	}
	c.keeper, c.feed = j, a.feed
	if err = a.life.commandBegan(); err == nil {
		if err = a.begin(c, req, window); err != nil {
			a.life.commandEnded()
		}
	}
	if err != nil && j != nil {
		j.Failed(err)
	}
	return err
}

// endJobs ends the jobs that run, and returns when they have ended.
func (a *agent) endJobs(grace time.Duration) {
	if a.jobs != nil {
		a.jobs.Registry.EndAll(grace, max(grace, spec.DefaultGrace)+2*proc.KillTime)
	}
}

// keptExit tells whoever keeps the command's output how it ended.
func (c *command) keptExit() {
	if c.keeper == nil {
		return
	}
	c.mu.Lock()
	terminated := c.terminated
	c.mu.Unlock()
	if terminated != spec.KillNone {
		c.keeper.Settle(terminated)
	}
	kill := spec.KillOutcome(c.exit.Kill)
	c.keeper.Ended(&c.exit, kill == spec.KillTerminated || kill == spec.KillUnknown)
}
