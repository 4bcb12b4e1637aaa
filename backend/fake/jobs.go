package fake

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-dev/berth/backend/fake/internal/job"
	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// startJob runs a command as a job, or finds the one that runs or ran under its key.
func (p *place) startJob(c *spec.Command, o spec.JobOptions, client string) (spec.Job, error) {
	j, fresh, err := p.jobs.Add(c, o, false)
	switch {
	case err != nil:
		return spec.Job{}, err
	case !fresh:
		return p.jobs.Info(j), nil
	}
	c.MergeOutput, c.KeepOutput = true, false
	cmd := newCommand(p, c)
	cmd.tee, cmd.job, cmd.client = j.Log.Write, j, client
	if o.Terminal != nil {
		cmd.tty = kernel.NewTTY(o.Terminal.WithDefaults())
	}
	if err := cmd.start(false, [2]bool{true, false}); err != nil {
		p.jobs.Failed(j, err)
		return spec.Job{}, err
	}
	cmd.out[0].Untaken()
	p.jobs.Started(j, cmd.proc.PID, func(grace time.Duration) { cmd.kill(grace, "kill", "") })
	go p.attendJob(j, cmd, o.StallAfter)
	return p.jobs.Info(j), nil
}

// attendJob sees a job through to its end, and watches over its silence.
func (p *place) attendJob(j *job.Job, cmd *command, stallAfter time.Duration) {
	var stalled <-chan time.Time
	var timer *time.Timer
	if stallAfter > 0 {
		timer = time.NewTimer(stallAfter)
		defer timer.Stop()
		stalled = timer.C
	}
	var told time.Time // the write after whose silence the owner was told
	for {
		select {
		case <-cmd.finished:
			p.jobs.Finish(j, cmd.end())
			return
		case <-stalled:
			last := j.Log.LastWrite()
			silent := time.Since(last)
			if silent >= stallAfter && !last.Equal(told) {
				told = last
				p.jobs.Stalled(j, silent)
				cmd.tell("", spec.EventJobStalled, spec.Event{})
			}
			// Of a silence that was told nothing is awaited but its end.
			timer.Reset(max(stallAfter-silent, stallAfter/8, time.Millisecond))
		}
	}
}

// StartJob implements driver.Jobber.
func (s *session) StartJob(ctx context.Context, c *spec.Command, o spec.JobOptions) (spec.Job, error) {
	c = c.Clone()
	return ask(ctx, s, Request{Op: OpJobStart, Args: c.Args}, func() (spec.Job, error) {
		for _, err := range []error{c.Validate(), o.Validate(), check(c)} {
			if err != nil {
				return spec.Job{}, err
			}
		}
		return s.p.startJob(c, o, s.client)
	})
}

// Jobs implements driver.Jobber.
func (s *session) Jobs(ctx context.Context, q spec.JobQuery) ([]spec.Job, error) {
	return ask(ctx, s, Request{Op: OpJobs}, func() ([]spec.Job, error) { return s.p.jobs.List(q) })
}

// withJob does something with a job and returns its record once it has ended.
func (s *session) withJob(ctx context.Context, op Op, owner, id string, do func(j *job.Job)) (spec.Job, error) {
	return ask(ctx, s, Request{Op: op}, func() (spec.Job, error) {
		j, err := s.p.jobs.Find(owner, id)
		if err != nil {
			return spec.Job{}, err
		}
		do(j)
		select {
		case <-j.Done():
			return s.p.jobs.Info(j), nil
		case <-ctx.Done():
			return spec.Job{}, ctx.Err()
		}
	})
}

// WaitJob implements driver.Jobber.
func (s *session) WaitJob(ctx context.Context, owner, id string) (spec.Job, error) {
	return s.withJob(ctx, OpJobWait, owner, id, func(*job.Job) {})
}

// killGrace is the grace of one who kills, with the default filled in.
func killGrace(grace time.Duration) (time.Duration, error) {
	grace = (&spec.Command{Grace: grace}).GraceOrDefault()
	if grace > spec.MaxTimeout {
		return 0, spec.New(spec.CodeInvalid, fmt.Sprintf("grace %v: want at most %v", grace, spec.MaxTimeout))
	}
	return grace, nil
}

// KillJob implements driver.Jobber.
func (s *session) KillJob(ctx context.Context, owner, id string, grace time.Duration) (spec.Job, error) {
	grace, err := killGrace(grace)
	if err != nil {
		return spec.Job{}, err
	}
	return s.withJob(ctx, OpJobKill, owner, id, func(j *job.Job) { s.p.jobs.Kill(j, grace) })
}

// OpenLog implements driver.Jobber.
func (s *session) OpenLog(ctx context.Context, owner, id string, w spec.LogWindow) (driver.Log, error) {
	return ask(ctx, s, Request{Op: OpJobLog}, func() (driver.Log, error) {
		if err := w.Validate(); err != nil {
			return nil, err
		}
		j, err := s.p.jobs.Find(owner, id)
		if err != nil {
			return nil, err
		}
		return j.Log.Open(ctx, w), nil
	})
}

// HandOver implements driver.Jobber.
func (s *session) HandOver(ctx context.Context, from, to string, ids []string) ([]spec.Job, error) {
	return ask(ctx, s, Request{Op: OpHandOver}, func() ([]spec.Job, error) {
		if err := spec.ValidateOwner(to); err != nil {
			return nil, err
		}
		return s.p.jobs.HandOver(spec.JobQuery{Owner: from, IDs: ids}, to)
	})
}

// JobEvents implements driver.Jobber.
func (s *session) JobEvents(ctx context.Context, owner string, tell func(spec.JobEvent) error) error {
	var l *job.Listener
	err := s.do(ctx, Request{Op: OpEvents}, func() error {
		err := spec.ValidateOwner(owner)
		if err == nil {
			l = s.p.jobs.Listen(owner)
		}
		return err
	})
	if l != nil {
		defer l.Close()
	}
	if err != nil {
		return err
	}
	life, end := s.life(ctx)
	defer end(nil)
	s.p.mu.Lock()
	ended := s.p.ended
	s.p.mu.Unlock()
	go func() {
		select {
		case <-ended:
			end(errDown)
		case <-life.Done():
		}
	}()
	for {
		err := l.Tell(life, tell)
		if err != nil && err == life.Err() && ctx.Err() == nil {
			return context.Cause(life)
		}
		if err != nil {
			return err
		}
	}
}
