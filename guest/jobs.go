package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

var _ driver.Jobber = (*Session)(nil)

// StartJob implements driver.Jobber. An answer that is lost is asked for again by the
// request's id, so that the job never runs twice; if the place stays out of reach it is
// CodeUnknownOutcome.
func (s *Session) StartJob(ctx context.Context, c *spec.Command, o spec.JobOptions) (spec.Job, error) {
	c = c.Clone()
	if err := c.Validate(); err != nil {
		return spec.Job{}, err
	}
	if err := o.Validate(); err != nil {
		return spec.Job{}, err
	}
	if err := s.canRun(c); err != nil {
		return spec.Job{}, err
	}
	req := execRequest(randomID(), c, driver.Stdio{})
	req.Op, req.Job = wire.OpJobStart, &wire.JobRequest{Owner: o.Owner, StallMS: millis(o.StallAfter), MaxLogBytes: o.MaxLogBytes}
	return s.askJob(ctx, req, "")
}

// Jobs implements driver.Jobber.
func (s *Session) Jobs(ctx context.Context, q spec.JobQuery) ([]spec.Job, error) {
	if err := checkJobs(q.Owner, q.IDs...); err != nil {
		return nil, err
	}
	req := &wire.Request{Op: wire.OpJobList, Job: &wire.JobRequest{Owner: q.Owner, IDs: q.IDs}}
	return s.askJobs(ctx, req, reads, q.Owner)
}

// WaitJob implements driver.Jobber. It goes on over a redial.
func (s *Session) WaitJob(ctx context.Context, owner, id string) (spec.Job, error) {
	if err := checkJobs(owner, id); err != nil {
		return spec.Job{}, err
	}
	return s.askJob(ctx, &wire.Request{Op: wire.OpJobWait, Job: &wire.JobRequest{Owner: owner, ID: id}}, id)
}

// KillJob implements driver.Jobber. It goes on over a redial.
func (s *Session) KillJob(ctx context.Context, owner, id string, grace time.Duration) (spec.Job, error) {
	if err := checkJobs(owner, id); err != nil {
		return spec.Job{}, err
	}
	grace = (&spec.Command{Grace: grace}).GraceOrDefault()
	if grace > spec.MaxTimeout {
		return spec.Job{}, spec.New(spec.CodeInvalid, fmt.Sprintf("grace %v: want at most %v", grace, spec.MaxTimeout))
	}
	return s.askJob(ctx, &wire.Request{Op: wire.OpJobKill, Job: &wire.JobRequest{Owner: owner, ID: id, GraceMS: millis(grace)}}, id)
}

// HandOver implements driver.Jobber. A connection that breaks before the answer is
// CodeUnknownOutcome.
func (s *Session) HandOver(ctx context.Context, from, to string, ids []string) ([]spec.Job, error) {
	if err := checkJobs(from, ids...); err != nil {
		return nil, err
	}
	if err := spec.ValidateOwner(to); err != nil {
		return nil, err
	}
	req := &wire.Request{Op: wire.OpJobHandOver, Job: &wire.JobRequest{Owner: from, To: to, IDs: ids}}
	return s.askJobs(ctx, req, changes, to)
}

// checkJobs refuses the names of an owner and jobs that cannot be meant. What is no id
// of a job is unknown.
func checkJobs(owner string, ids ...string) error {
	if len(ids) > wire.MaxJobIDs {
		return &spec.Error{Code: spec.CodeTooLarge, Err: fmt.Errorf("%d jobs, at most %d can be asked for at once", len(ids), wire.MaxJobIDs)}
	}
	for _, id := range ids {
		if _, ok := wire.JobNumber(id); !ok {
			return spec.New(spec.CodeNotFound, "no such job")
		}
	}
	return spec.ValidateOwner(owner)
}

// askJob makes a request that is answered by one job, over as many connections as it
// takes. id is what it must be; "": any. After a hand-over it has another owner.
func (s *Session) askJob(ctx context.Context, req *wire.Request, id string) (spec.Job, error) {
	var job spec.Job
	err := s.patiently(ctx, req, changes, func(st *stream) (bool, error) {
		defer st.end()
		req.Job.Resume = true
		reply, err := wire.ReadReply(st)
		if err != nil {
			return false, err
		}
		job, err = jobOf(reply.Job)
		if err == nil && (id != "" && job.ID != id || req.Op != wire.OpJobStart && job.Running()) {
			err = violation("%s answers with %s, %s", req.Op, job.ID, job.State)
		}
		return true, err
	})
	return job, err
}

// askJobs makes a request that is answered by jobs, all of owner.
func (s *Session) askJobs(ctx context.Context, req *wire.Request, e effect, owner string) ([]spec.Job, error) {
	jobs, err := s.askJobsOnce(ctx, req, e, owner)
	if s.repeatable(err, e) {
		jobs, err = s.askJobsOnce(ctx, req, e, owner)
	}
	return jobs, err
}

// maxJobs bounds what is taken of a list: more than a place can run and keep.
const maxJobs = 100_000

func (s *Session) askJobsOnce(ctx context.Context, req *wire.Request, e effect, owner string) ([]spec.Job, error) {
	st, err := s.open(ctx, nil, req)
	if err != nil {
		return nil, s.failed(ctx, nil, err, e)
	}
	defer st.end()
	var out []spec.Job
	for {
		reply, err := wire.ReadReply(st)
		if err != nil {
			return nil, s.failed(ctx, st.c, err, e)
		}
		if len(reply.Jobs) == 0 && !reply.Done || len(out)+len(reply.Jobs) > maxJobs {
			return nil, violation("a list of jobs without an end")
		}
		for i := range reply.Jobs {
			job, err := jobOf(&reply.Jobs[i])
			if err != nil {
				return nil, err
			}
			if job.Owner != owner {
				return nil, violation("%s of another owner", job.ID)
			}
			out = append(out, job)
		}
		if reply.Done {
			return out, nil
		}
	}
}

// jobOf takes what can be true of a job's record.
func jobOf(said *wire.Job) (spec.Job, error) {
	if said == nil {
		return spec.Job{}, violation("a reply without the job's record")
	}
	job, err := said.Spec()
	if err != nil {
		return spec.Job{}, &spec.Error{Code: spec.CodeInternal, Err: err}
	}
	for i := range job.Exit.Survivors {
		job.Exit.Survivors[i].Name = clip(job.Exit.Survivors[i].Name, maxNameBytes)
	}
	return job, nil
}

// patiently makes a request that may be repeated, and has read take its answer, which
// may be long in coming. If the connection breaks it makes the request again on the
// next one, until none is to be had for as long as the resume window. read owns the
// stream, and says with its error whether that is the answer; what it has changed in
// req is in the next request.
func (s *Session) patiently(ctx context.Context, req *wire.Request, e effect, read func(*stream) (over bool, err error)) error {
	var sent bool
	var lost time.Time // since when the place is out of reach
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		st, err := s.open(ctx, nil, req)
		if err == nil {
			var over bool
			sent, lost, pause = true, time.Time{}, firstPause
			if over, err = read(st); over {
				return err
			}
			if ctx.Err() == nil {
				if err = st.c.explain(err); err != errLost { //nolint:errorlint // the bare sentinel
					return err
				}
			}
		} else if err == errLost { //nolint:errorlint // the bare sentinel: it may have been sent
			sent = true
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if lost.IsZero() {
			lost = time.Now()
		}
		unreachable := errors.Is(err, errLost) || spec.CodeOf(err) == spec.CodeUnavailable
		if !unreachable || final(err) || s.o.Redial == nil || time.Since(lost) > max(s.resume, minResume) {
			if !sent || e == reads {
				return s.failed(ctx, nil, err, reads)
			}
			return &spec.Error{Code: spec.CodeUnknownOutcome, Err: fmt.Errorf("the place is out of reach: %w", err)}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
