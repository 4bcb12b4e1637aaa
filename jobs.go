package berth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Jobs is what one owner runs in the background of a Sandbox: commands that belong to
// the place and not to a client. Caps.Jobs says how long they live; where it is empty
// every call is ErrUnsupported.
//
// A job of another owner is ErrNotFound, as one that never was. Jobs is safe for
// concurrent use.
type Jobs struct {
	sb    *Sandbox
	owner string
}

// Jobs returns the jobs of an owner, who may be "". It starts nothing by itself.
func (sb *Sandbox) Jobs(owner string) *Jobs { return &Jobs{sb, owner} }

// Owner is the name of the owner.
func (j *Jobs) Owner() string { return j.owner }

// JobOptions modify Start of a job. The zero value runs the command in the workdir
// with the place's environment and without a deadline.
type JobOptions struct {
	// Key makes a repeated Start idempotent: while the place remembers the job
	// that this owner started under it, that one is returned and nothing runs.
	Key      string
	Dir      string            // relative to the workdir; "": the workdir
	Env      map[string]string // added to the place's; under CleanEnv the whole of it
	CleanEnv bool
	// EnvPaths are put in front of lists of directories; see Command.EnvPaths.
	EnvPaths map[string][]string
	// Timeout ends the job's whole tree; 0: none. NoOutputTimeout does once it
	// has written nothing for so long. Grace is the time between TERM and KILL
	// then; 0: 5 s, negative: KILL at once.
	Timeout, NoOutputTimeout, Grace time.Duration
	// User, Umask and Rlimits are as in Command.
	User    string
	Umask   *fs.FileMode
	Rlimits map[string]uint64
	// StallAfter has the owner told (see Watch) when the job has run and written
	// nothing for so long: once, and again only after it has written. 0: never.
	StallAfter time.Duration
	// MaxLogBytes stops the log and never the job. 0: 1 GiB.
	MaxLogBytes int64
	// Terminal, unless nil, runs the job on a terminal of this size, for programs that
	// print otherwise there. Nobody types into it. Needs Caps.Terminals.
	Terminal *TerminalSize
}

// Start starts argv as a job and returns once it runs. Its input is empty; stdout and
// stderr go to one log in the order of its writes. ctx bounds the call and not the job,
// which is ended by Kill, by its own Timeout or with its place.
func (j *Jobs) Start(ctx context.Context, argv []string, o JobOptions) (*Job, error) {
	c := (&Command{
		Key: o.Key, Args: argv, Dir: o.Dir, Env: o.Env, CleanEnv: o.CleanEnv, EnvPaths: o.EnvPaths,
		Timeout: o.Timeout, NoOutputTimeout: o.NoOutputTimeout, Grace: o.Grace,
		User: o.User, Umask: o.Umask, Rlimits: o.Rlimits,
	}).Clone()
	options := spec.JobOptions{Owner: j.owner, StallAfter: o.StallAfter, MaxLogBytes: o.MaxLogBytes, Terminal: o.Terminal}
	err := c.Validate()
	if err == nil {
		err = options.Validate()
	}
	if err != nil {
		return nil, j.sb.wrap(err, "start job", c.Dir)
	}
	jobber, err := j.jobber(ctx)
	if err != nil {
		return nil, j.sb.wrap(err, "start job", "")
	}
	if options.Terminal != nil {
		if _, err := j.sb.terminaler(ctx); err != nil {
			return nil, j.sb.wrap(err, "start job", "")
		}
	}
	record := auditCommand(spec.AuditJob, c)
	record.Owner = j.owner
	a, err := j.sb.announce(ctx, record)
	if err != nil {
		return nil, j.sb.wrap(err, "start job", "")
	}
	info, err := jobber.StartJob(ctx, c, options)
	a.end(err, func(r *spec.AuditRecord) { r.ID = info.ID })
	if err != nil {
		return nil, j.sb.wrap(err, "start job", "")
	}
	return &Job{jobs: j, id: info.ID}, nil
}

// List returns the owner's jobs, the oldest first: the running ones and, up to the
// place's retention, those that have ended.
func (j *Jobs) List(ctx context.Context) ([]JobInfo, error) {
	return j.list(ctx, "list jobs", nil)
}

// Get returns the job with an id, which must be known.
func (j *Jobs) Get(ctx context.Context, id string) (*Job, error) {
	if _, err := j.list(ctx, "find job", []string{id}); err != nil {
		return nil, err
	}
	return &Job{jobs: j, id: id}, nil
}

// HandOver gives running jobs to another owner: those with ids, or all. Their later
// events go to the new owner, and so do those that the old one has not been told of; a
// Wait or Kill under way goes on. It returns what it moved: what has ended stays. An id
// that is unknown is ErrNotFound and moves nothing. To hand over to the same owner
// moves nothing.
func (j *Jobs) HandOver(ctx context.Context, to string, ids ...string) ([]JobInfo, error) {
	err := spec.ValidateOwner(to)
	var jobber driver.Jobber
	if err == nil {
		jobber, err = j.jobber(ctx)
	}
	if err != nil {
		return nil, j.sb.wrap(err, "hand over jobs", "")
	}
	var moved []JobInfo
	record := spec.AuditRecord{Kind: spec.AuditHandOver, Owner: j.owner, Args: append([]string{to}, ids...)}
	err = j.sb.audited(ctx, record, func() error {
		moved, err = jobber.HandOver(ctx, j.owner, to, ids)
		return err
	})
	return moved, j.sb.wrap(err, "hand over jobs", "")
}

// JobWatch says what to call for what happens to jobs. The calls are made one at a
// time. One that returns an error ends the Watch, and its event is told again to the
// next one. Where a function is nil, such events are taken and forgotten.
type JobWatch struct {
	// OnExit is called when a job has ended: by itself, killed or lost.
	OnExit func(JobInfo) error
	// OnStall is called when a job has been silent for its StallAfter, with how
	// long it had been so.
	OnStall func(job JobInfo, silent time.Duration) error
}

// Watch tells of what happens to the owner's jobs, and first of what happened while
// nobody watched. Each event is told once to one watcher. Another Watch for the same
// owner, by any client, takes over, and this one ends with ErrStaleOwner; otherwise it
// ends with the context, the error of a call or the loss of the place.
func (j *Jobs) Watch(ctx context.Context, w JobWatch) error {
	jobber, err := j.jobber(ctx)
	if err != nil {
		return j.sb.wrap(err, "watch jobs", "")
	}
	var own error
	err = jobber.JobEvents(ctx, j.owner, func(e spec.JobEvent) error {
		switch {
		case e.Kind == spec.JobEnded && w.OnExit != nil:
			own = w.OnExit(e.Job)
		case e.Kind == spec.JobStalled && w.OnStall != nil:
			own = w.OnStall(e.Job, e.StalledFor)
		}
		return own
	})
	if own != nil {
		return own
	}
	return j.sb.wrap(err, "watch jobs", "")
}

// list asks for the owner's jobs, or for those with ids.
func (j *Jobs) list(ctx context.Context, op string, ids []string) ([]JobInfo, error) {
	jobber, err := j.jobber(ctx)
	if err != nil {
		return nil, j.sb.wrap(err, op, "")
	}
	jobs, err := jobber.Jobs(ctx, spec.JobQuery{Owner: j.owner, IDs: ids})
	return jobs, j.sb.wrap(err, op, "")
}

// jobber returns the session as one that runs jobs.
func (j *Jobs) jobber(ctx context.Context) (driver.Jobber, error) {
	if err := spec.ValidateOwner(j.owner); err != nil {
		return nil, err
	}
	session, err := j.sb.session(ctx)
	if err != nil {
		return nil, err
	}
	caps := session.Caps()
	jobber, ok := session.(driver.Jobber)
	if ok && caps.Jobs != spec.JobsNone {
		return jobber, nil
	}
	why := caps.Why("jobs")
	if why == "" {
		why = "the place has none"
	}
	return nil, &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("jobs: " + why)}
}

// Job is one job of a place. It is safe for concurrent use.
type Job struct {
	jobs *Jobs
	id   string
}

// ID identifies the job in its place, for as long as that exists.
func (j *Job) ID() string { return j.id }

// Info describes the job as it is now.
func (j *Job) Info(ctx context.Context) (JobInfo, error) {
	jobs, err := j.jobs.list(ctx, "job", []string{j.id})
	if err != nil {
		return JobInfo{}, err
	}
	if len(jobs) != 1 {
		return JobInfo{}, j.jobs.sb.wrap(spec.New(spec.CodeInternal, fmt.Sprintf("%d jobs have one id", len(jobs))), "job", "")
	}
	return jobs[0], nil
}

// Wait returns the job's record once it has ended and its log is complete. ctx bounds
// the waiting only.
func (j *Job) Wait(ctx context.Context) (JobInfo, error) {
	jobber, err := j.jobs.jobber(ctx)
	if err != nil {
		return JobInfo{}, j.jobs.sb.wrap(err, "wait for job", "")
	}
	info, err := jobber.WaitJob(ctx, j.jobs.owner, j.id)
	return info, j.jobs.sb.wrap(err, "wait for job", "")
}

// Kill ends the job's whole tree with TERM and, after grace (0: 5 s; negative: at
// once), with KILL, and returns its record once the tree is gone and the log complete.
// A job that has ended is no error.
func (j *Job) Kill(ctx context.Context, grace time.Duration) (JobInfo, error) {
	jobber, err := j.jobs.jobber(ctx)
	if err != nil {
		return JobInfo{}, j.jobs.sb.wrap(err, "kill job", "")
	}
	a, err := j.jobs.sb.announce(ctx, spec.AuditRecord{Kind: spec.AuditJobKill, Owner: j.jobs.owner, ID: j.id})
	if err != nil {
		return JobInfo{}, j.jobs.sb.wrap(err, "kill job", "")
	}
	info, err := jobber.KillJob(ctx, j.jobs.owner, j.id, grace)
	a.end(err, func(r *spec.AuditRecord) {
		if err == nil && info.State != JobLost {
			r.Exit = &info.Exit
		}
	})
	return info, j.jobs.sb.wrap(err, "kill job", "")
}
