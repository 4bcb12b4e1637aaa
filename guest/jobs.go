package guest

import (
	"context"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest/internal/remotejobs"
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
	if err := s.canRun(c); err != nil {
		return spec.Job{}, err
	}
	req := execRequest(randomID(), c, driver.Stdio{})
	if o.Terminal != nil {
		if _, err := s.terminals(); err != nil {
			return spec.Job{}, err
		}
		size := o.Terminal.WithDefaults()
		req.Exec.Terminal = &size
	}
	return s.jobs().Start(ctx, req, o)
}

// Jobs implements driver.Jobber.
func (s *Session) Jobs(ctx context.Context, q spec.JobQuery) ([]spec.Job, error) {
	return s.jobs().List(ctx, q)
}

// WaitJob implements driver.Jobber. It goes on over a redial.
func (s *Session) WaitJob(ctx context.Context, owner, id string) (spec.Job, error) {
	return s.jobs().Wait(ctx, owner, id)
}

// KillJob implements driver.Jobber. It goes on over a redial.
func (s *Session) KillJob(ctx context.Context, owner, id string, grace time.Duration) (spec.Job, error) {
	return s.jobs().Kill(ctx, owner, id, grace)
}

// OpenLog implements driver.Jobber. The Log goes on over a redial at the byte that it
// has reached. Close may be called while Read waits, which then returns.
func (s *Session) OpenLog(ctx context.Context, owner, id string, w spec.LogWindow) (driver.Log, error) {
	return s.jobs().OpenLog(ctx, owner, id, w)
}

// HandOver implements driver.Jobber. A connection that breaks before the answer is
// CodeUnknownOutcome.
func (s *Session) HandOver(ctx context.Context, from, to string, ids []string) ([]spec.Job, error) {
	return s.jobs().HandOver(ctx, from, to, ids)
}

// JobEvents implements driver.Jobber. It goes on over a redial, unless another listener
// has taken over meanwhile, and tells no event twice.
func (s *Session) JobEvents(ctx context.Context, owner string, tell func(spec.JobEvent) error) error {
	return s.jobs().Listen(ctx, owner, randomID(), tell)
}

func (s *Session) jobs() *remotejobs.Client { return remotejobs.New(asking{s}, s.o.Denied) }
