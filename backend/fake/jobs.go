package fake

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-dev/berth/backend/fake/internal/job"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// startJob runs a command as a job, or finds the one that runs or ran under its key.
func (p *place) startJob(c *spec.Command, o spec.JobOptions, client string) (spec.Job, error) {
	j, fresh, err := p.jobs.Add(o.Owner, c, o.MaxLogBytes, false)
	switch {
	case err != nil:
		return spec.Job{}, err
	case !fresh:
		return p.jobs.Info(j), nil
	}
	c.MergeOutput, c.KeepOutput = true, false
	cmd := newCommand(p, c)
	cmd.log, cmd.job, cmd.client = j.Log, j, client
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
	var out spec.Job
	err := s.do(ctx, Request{Op: OpJobStart, Args: c.Args}, func() error {
		for _, err := range []error{c.Validate(), o.Validate(), check(c)} {
			if err != nil {
				return err
			}
		}
		var err error
		out, err = s.p.startJob(c, o, s.client)
		return err
	})
	if err != nil {
		return spec.Job{}, err
	}
	return out, nil
}

// Jobs implements driver.Jobber.
func (s *session) Jobs(ctx context.Context, q spec.JobQuery) ([]spec.Job, error) {
	var out []spec.Job
	err := s.do(ctx, Request{Op: OpJobs}, func() (err error) {
		out, err = s.p.jobs.List(q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// withJob does something with a job and returns its record once it has ended.
func (s *session) withJob(ctx context.Context, op Op, owner, id string, do func(j *job.Job)) (spec.Job, error) {
	var out spec.Job
	err := s.do(ctx, Request{Op: op}, func() error {
		j, err := s.p.jobs.Find(owner, id)
		if err != nil {
			return err
		}
		do(j)
		select {
		case <-j.Done():
			out = s.p.jobs.Info(j)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return spec.Job{}, err
	}
	return out, nil
}

// WaitJob implements driver.Jobber.
func (s *session) WaitJob(ctx context.Context, owner, id string) (spec.Job, error) {
	return s.withJob(ctx, OpJobWait, owner, id, func(*job.Job) {})
}

// KillJob implements driver.Jobber.
func (s *session) KillJob(ctx context.Context, owner, id string, grace time.Duration) (spec.Job, error) {
	grace = (&spec.Command{Grace: grace}).GraceOrDefault()
	if grace > spec.MaxTimeout {
		return spec.Job{}, spec.New(spec.CodeInvalid, fmt.Sprintf("grace %v: want at most %v", grace, spec.MaxTimeout))
	}
	return s.withJob(ctx, OpJobKill, owner, id, func(j *job.Job) { s.p.jobs.Kill(j, grace) })
}

// OpenLog implements driver.Jobber.
func (s *session) OpenLog(ctx context.Context, owner, id string, w spec.LogWindow) (driver.Log, error) {
	var out driver.Log
	err := s.do(ctx, Request{Op: OpJobLog}, func() error {
		if err := w.Validate(); err != nil {
			return err
		}
		j, err := s.p.jobs.Find(owner, id)
		if err == nil {
			out = j.Log.Open(ctx, w)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// HandOver implements driver.Jobber.
func (s *session) HandOver(ctx context.Context, from, to string, ids []string) ([]spec.Job, error) {
	var out []spec.Job
	err := s.do(ctx, Request{Op: OpHandOver}, func() error {
		err := spec.ValidateOwner(to)
		if err == nil {
			out, err = s.p.jobs.HandOver(spec.JobQuery{Owner: from, IDs: ids}, to)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
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
	life, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.p.mu.Lock()
	ended := s.p.ended
	s.p.mu.Unlock()
	go func() {
		select {
		case <-s.over:
			end(errClosed)
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
