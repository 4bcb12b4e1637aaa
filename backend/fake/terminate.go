package fake

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

var _ driver.Terminator = (*session)(nil)

// Terminate implements driver.Terminator. Its word is always proven, unless an earlier
// start of the place has taken it along.
func (s *session) Terminate(ctx context.Context, key string, grace time.Duration) (spec.KillOutcome, error) {
	grace = (&spec.Command{Grace: grace}).GraceOrDefault()
	return ask(ctx, s, Request{Op: OpTerminate}, func() (spec.KillOutcome, error) {
		if err := spec.ValidateTermination(key, grace); err != nil {
			return "", err
		}
		return s.p.terminate(ctx, key, grace, s.client)
	})
}

// terminate ends the command with the key, or else the job.
func (p *place) terminate(ctx context.Context, key string, grace time.Duration, client string) (spec.KillOutcome, error) {
	p.mu.Lock()
	c, first := p.commands[key], p.starts == 1
	p.mu.Unlock()
	if c != nil {
		<-c.ready
		if c.startErr == nil {
			return c.terminate(ctx, grace, client)
		}
	}
	j, err := p.jobs.Keyed(key)
	switch {
	case err != nil:
		return "", err
	case j == nil && first:
		return spec.KillExited, nil
	case j == nil:
		return spec.KillUnknown, nil
	}
	for _, c := range p.runs() {
		if c.job == j {
			out, err := c.terminate(ctx, grace, client)
			if err != nil {
				return "", err
			}
			return p.jobs.Settle(j, out), nil
		}
	}
	return p.jobs.Settle(j, spec.KillExited), nil
}

// terminate ends the command's tree and answers as it first did.
func (c *command) terminate(ctx context.Context, grace time.Duration, client string) (spec.KillOutcome, error) {
	over := false
	select {
	case <-c.finished:
		over = true
	default:
	}
	c.mu.Lock()
	known := c.terminated
	c.asked = c.asked || !over
	c.mu.Unlock()
	if known != spec.KillNone {
		return known, nil
	}
	k := c.kill(grace, "terminate", client)
	select {
	case <-k.done:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.terminated != spec.KillNone:
	case over:
		c.terminated = spec.KillExited
	default:
		c.terminated = k.outcome
	}
	return c.terminated, nil
}

// Running implements driver.Terminator.
func (s *session) Running(ctx context.Context) ([]spec.Running, error) {
	return ask(ctx, s, Request{Op: OpRunning}, func() (out []spec.Running, err error) {
		for _, c := range s.p.runs() {
			select {
			case <-c.proc.Done:
				continue
			default:
			}
			r := spec.Running{
				ID: c.id, Key: c.spec.Key, Name: c.spec.Args[0], PID: c.proc.PID,
				StartTicks: c.proc.StartTicks(), Started: c.proc.Started(),
			}
			if c.job != nil {
				r.Job = true
				r.ID, r.Owner, r.Key = s.p.jobs.Names(c.job)
			}
			out = append(out, r)
		}
		return out, nil
	})
}

// runs are the commands and jobs that have started and not finished, the oldest first.
func (p *place) runs() []*command {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*command
	for c := range p.live {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *command) int { return cmp.Compare(a.proc.PID, b.proc.PID) })
	return out
}
