package remotejobs

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// askMany makes a request that is answered by jobs, all of owner and, if ids are given,
// among these.
func (c *Client) askMany(ctx context.Context, req *wire.Request, changes bool, owner string, ids []string) ([]spec.Job, error) {
	jobs, err := c.askManyOnce(ctx, req, ask.Changes, &list{owner: owner, ids: ids})
	if !changes && c.s.Repeatable(err) {
		jobs, err = c.askManyOnce(ctx, req, ask.Changes, &list{owner: owner, ids: ids})
	}
	return jobs, err
}

func (c *Client) askManyOnce(ctx context.Context, req *wire.Request, changes bool, l *list) ([]spec.Job, error) {
	st, err := c.s.Open(ctx, req, ask.Changes)
	if err != nil {
		return nil, err
	}
	defer st.End()
	for {
		reply, err := wire.ReadReply(st)
		if err != nil {
			return nil, st.Failed(ctx, err, ask.Changes)
		}
		if len(reply.Jobs) == 0 && !reply.Done {
			return nil, ask.Violation("a part of a list without jobs")
		}
		for i := range reply.Jobs {
			job, err := c.jobOf(&reply.Jobs[i])
			if err == nil {
				err = l.add(job)
			}
			if err != nil {
				return nil, err
			}
		}
		if reply.Done {
			return l.jobs, nil
		}
	}
}

// list is what a guest answers to a question about many jobs.
type list struct {
	owner string
	ids   []string // only these; none: all

	jobs  []spec.Job
	had   map[string]bool
	bytes int
}

// The most that is taken of a list: more than a place keeps of ended jobs and runs
// beside them. What a record holds beside its texts is counted as jobBytes.
const (
	maxJobs      = 20_000
	maxListBytes = 32 << 20
	jobBytes     = 512
)

// add takes a job in that was asked for and has not been told of.
func (l *list) add(job spec.Job) error {
	switch {
	case job.Owner != l.owner:
		return ask.Violation("%s of another owner", job.ID)
	case l.had[job.ID] || len(l.ids) > 0 && !slices.Contains(l.ids, job.ID):
		return ask.Violation("%s, which is not asked for", job.ID)
	}
	if l.had == nil {
		l.had = map[string]bool{}
	}
	l.had[job.ID] = true
	l.bytes += jobBytes + len(job.Dir) + len(job.LogPath)
	for _, a := range job.Args {
		l.bytes += 16 + len(a)
	}
	if l.jobs = append(l.jobs, job); len(l.jobs) > maxJobs || l.bytes > maxListBytes {
		return ask.Violation("a list of more than %d jobs, or %d bytes", maxJobs, maxListBytes)
	}
	return nil
}
