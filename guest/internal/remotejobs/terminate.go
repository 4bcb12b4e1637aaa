package remotejobs

import (
	"context"
	"errors"
	"time"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

const (
	// terminateSlack is how long after the grace a guest may take to say what is known.
	terminateSlack = 30 * time.Second
	// maxRunning bounds what is taken of a list: more than a place can run.
	maxRunning = 20_000
)

// Terminate ends the command or job that was started with key. It goes on over a redial,
// since the guest answers a repeated request as the first one.
func (c *Client) Terminate(ctx context.Context, key string, grace time.Duration) (spec.KillOutcome, error) {
	grace = (&spec.Command{Grace: grace}).GraceOrDefault()
	if err := spec.ValidateTermination(key, grace); err != nil {
		return "", err
	}
	req := &wire.Request{Op: wire.OpTerminate, Terminate: &wire.TerminateRequest{Key: key, GraceMS: -1}}
	if grace > 0 {
		req.Terminate.GraceMS = max(grace.Milliseconds(), 1)
	}
	bounded, cancel := context.WithTimeout(ctx, grace+terminateSlack)
	defer cancel()
	var outcome spec.KillOutcome
	err := c.s.Patiently(bounded, req, ask.Changes, func(st ask.Stream) (bool, error) {
		defer st.End()
		reply, err := wire.ReadReply(st)
		if err != nil {
			return false, err
		}
		switch outcome = spec.KillOutcome(reply.Kill); outcome {
		case spec.KillTerminated, spec.KillExited, spec.KillUnknown:
			return true, nil
		}
		return true, ask.Violation("an ending without an outcome")
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return "", &spec.Error{Code: spec.CodeUnknownOutcome, Err: errors.New("the guest does not say what became of it")}
	case err != nil:
		return "", err
	}
	return outcome, nil
}

// Running lists the commands and jobs that run.
func (c *Client) Running(ctx context.Context) ([]spec.Running, error) {
	out, err := c.runningOnce(ctx)
	if c.s.Repeatable(err) {
		out, err = c.runningOnce(ctx)
	}
	return out, err
}

func (c *Client) runningOnce(ctx context.Context) ([]spec.Running, error) {
	st, err := c.s.Open(ctx, &wire.Request{Op: wire.OpRunning}, ask.Reads)
	if err != nil {
		return nil, err
	}
	defer st.End()
	var out []spec.Running
	for {
		reply, err := wire.ReadReply(st)
		if err != nil {
			return nil, st.Failed(ctx, err, ask.Reads)
		}
		if len(reply.Running) == 0 && !reply.Done || len(out)+len(reply.Running) > maxRunning {
			return nil, ask.Violation("a list of what runs without an end")
		}
		for i := range reply.Running {
			r, err := reply.Running[i].Spec()
			if err != nil {
				return nil, &spec.Error{Code: spec.CodeInternal, Err: err}
			}
			out = append(out, r)
		}
		if reply.Done {
			return out, nil
		}
	}
}
