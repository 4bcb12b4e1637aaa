package remotejobs

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Start starts the command of req as a job, and returns it once it runs. An answer that is
// lost is asked for again by the request's id.
func (c *Client) Start(ctx context.Context, req *wire.Request, o spec.JobOptions) (spec.Job, error) {
	if err := o.Validate(); err != nil {
		return spec.Job{}, err
	}
	req.Op, req.Job = wire.OpJobStart, &wire.JobRequest{Owner: o.Owner, StallMS: millis(o.StallAfter), MaxLogBytes: o.MaxLogBytes}
	return c.askOne(ctx, req, "")
}

// millis rounds up: a duration that is not zero stays so.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// List lists the jobs that q selects.
func (c *Client) List(ctx context.Context, q spec.JobQuery) ([]spec.Job, error) {
	if err := checkJobs(q.Owner, q.IDs...); err != nil {
		return nil, err
	}
	req := &wire.Request{Op: wire.OpJobList, Job: &wire.JobRequest{Owner: q.Owner, IDs: q.IDs}}
	return c.askMany(ctx, req, ask.Reads, q.Owner, q.IDs)
}

// Wait returns a job once it has ended. It goes on over a redial.
func (c *Client) Wait(ctx context.Context, owner, id string) (spec.Job, error) {
	if err := checkJobs(owner, id); err != nil {
		return spec.Job{}, err
	}
	return c.askOne(ctx, &wire.Request{Op: wire.OpJobWait, Job: &wire.JobRequest{Owner: owner, ID: id}}, id)
}

// Kill ends a job and returns it then. It goes on over a redial.
func (c *Client) Kill(ctx context.Context, owner, id string, grace time.Duration) (spec.Job, error) {
	if err := checkJobs(owner, id); err != nil {
		return spec.Job{}, err
	}
	grace = (&spec.Command{Grace: grace}).GraceOrDefault()
	if grace > spec.MaxTimeout {
		return spec.Job{}, spec.New(spec.CodeInvalid, fmt.Sprintf("grace %v: want at most %v", grace, spec.MaxTimeout))
	}
	return c.askOne(ctx, &wire.Request{Op: wire.OpJobKill, Job: &wire.JobRequest{Owner: owner, ID: id, GraceMS: millis(grace)}}, id)
}

// HandOver gives running jobs to another owner. A connection that breaks before the
// answer is CodeUnknownOutcome.
func (c *Client) HandOver(ctx context.Context, from, to string, ids []string) ([]spec.Job, error) {
	if err := checkJobs(from, ids...); err != nil {
		return nil, err
	}
	if err := spec.ValidateOwner(to); err != nil {
		return nil, err
	}
	req := &wire.Request{Op: wire.OpJobHandOver, Job: &wire.JobRequest{Owner: from, To: to, IDs: ids}}
	return c.askMany(ctx, req, ask.Changes, to, ids)
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

// askOne makes a request that is answered by one job, over as many connections as it
// takes. id is what it must be; "": any. After a hand-over it has another owner.
func (c *Client) askOne(ctx context.Context, req *wire.Request, id string) (spec.Job, error) {
	var job spec.Job
	err := c.s.Patiently(ctx, req, ask.Changes, func(st ask.Stream) (bool, error) {
		defer st.End()
		start, again := req.Op == wire.OpJobStart, req.Job.Resume
		req.Job.Resume = true
		reply, err := wire.ReadReply(st)
		if err != nil {
			return false, err
		}
		job, err = c.jobOf(reply.Job)
		if err == nil && (id != "" && job.ID != id || !start && job.Running() || start && !again && job.Owner != req.Job.Owner) {
			err = ask.Violation("%s answers with %s of owner %.64q, %s", req.Op, job.ID, job.Owner, job.State)
		}
		return true, err
	})
	return job, err
}

// jobOf takes what can be true of a job's record.
func (c *Client) jobOf(said *wire.Job) (spec.Job, error) {
	if said == nil {
		return spec.Job{}, ask.Violation("a reply without the job's record")
	}
	job, err := said.Spec()
	if err != nil {
		return spec.Job{}, &spec.Error{Code: spec.CodeInternal, Err: err}
	}
	c.hint(said, &job.Exit)
	for i := range job.Exit.Survivors {
		job.Exit.Survivors[i].Name = clip(job.Exit.Survivors[i].Name)
	}
	return job, nil
}

// clip bounds the name of a survivor; a kernel's has 15 bytes.
func clip(name string) string {
	const most = 64
	return name[:min(len(name), most)]
}
