package jobscmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

func newWait(env *verb.Env) *cobra.Command {
	p := &place{env: env}
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait --key KEY [FLAG]... ID",
		Short: "Wait for a job to end, and end as it did",
		Long: `Wait returns when a job has ended, with its exit status. With --timeout it waits no
longer than that; the job goes on. That is the status 124 too; with --json the state is
"running" then.`,
		Example: `  berth jobs wait --key session-1 job-1
  berth jobs wait --key session-1 --timeout 30s job-1 || echo not yet, or not well
  berth jobs wait --key session-1 --json job-1 | jq .exit`,
		Args:        needIDs(1),
		Annotations: map[string]string{verb.PassThrough: "yes"},
		RunE:        func(cmd *cobra.Command, args []string) error { return wait(cmd, p, args[0], timeout) },
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait no longer than `DURATION`; 0: for ever")
	return p.add(cmd, true)
}

// errWaited ends a wait whose time is over.
var errWaited = errors.New("waited long enough")

func wait(cmd *cobra.Command, p *place, id string, timeout time.Duration) error {
	ctx := cmd.Context()
	if timeout < 0 {
		return verb.Usage("--timeout %v is negative", timeout)
	}
	job, closer, err := p.get(ctx, id)
	if err != nil {
		return err
	}
	defer closer()
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		waiting, cancel = context.WithTimeoutCause(ctx, timeout, errWaited)
	}
	defer cancel()
	progress := p.env.Progress("waiting for " + id)
	info, err := job.Wait(waiting)
	progress.Stop()
	if err == nil {
		return ended(p, info)
	}
	if !errors.Is(context.Cause(waiting), errWaited) || spec.CodeOf(err) != "" {
		return explain(err)
	}
	if p.env.JSON {
		if info, err = job.Info(ctx); err != nil {
			return err
		}
		if err := p.env.Print(newJobLine(info)); err != nil {
			return err
		}
	}
	p.env.Note("jobs wait: %s still runs after %v", id, timeout)
	return verb.Status(verb.StatusTimedOut)
}

// ended reports a job that has ended and turns its result into an exit status.
func ended(p *place, j berth.JobInfo) error {
	if p.env.JSON {
		if err := p.env.Print(newJobLine(j)); err != nil {
			return err
		}
	}
	switch e := j.Exit; {
	case j.State == berth.JobLost && p.env.JSON:
		return verb.Status(verb.StatusFailed)
	case j.State == berth.JobLost:
		return &spec.Error{Op: "jobs wait", Code: spec.CodeUnknownOutcome, Err: fmt.Errorf("%s ran when the sandbox's guest died", j.ID)}
	case e.NoOutput:
		p.env.Note("jobs wait: %s was ended because it wrote nothing", j.ID)
		return verb.Status(verb.StatusTimedOut)
	case e.TimedOut:
		p.env.Note("jobs wait: %s timed out", j.ID)
		return verb.Status(verb.StatusTimedOut)
	case e.Code != 0:
		return verb.Status(e.Code)
	}
	return nil
}

func newKill(env *verb.Env) *cobra.Command {
	p := &place{env: env}
	var grace verb.Grace
	cmd := &cobra.Command{
		Use:   "kill --key KEY [FLAG]... ID...",
		Short: "End jobs",
		Long: `Kill ends the whole tree of each job, with TERM and after a grace with KILL, and returns
when it is gone and the log is complete. A job that has ended is no error.`,
		Example: `  berth jobs kill --key session-1 job-1
  berth jobs kill --key session-1 --grace 30s job-1 job-2
  berth jobs kill --key session-1 --grace 0 job-3`,
		Args: needIDs(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := grace.Duration()
			if err != nil {
				return err
			}
			return kill(cmd, p, args, o)
		},
	}
	grace.Add(cmd.Flags())
	return p.add(cmd, true)
}

func kill(cmd *cobra.Command, p *place, ids []string, grace time.Duration) error {
	ctx := cmd.Context()
	jobs, closer, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer closer()
	return verb.Each(ctx, ids, func(id string) error {
		job, err := jobs.Get(ctx, id)
		if err != nil {
			return explain(err)
		}
		progress := p.env.Progress("ending " + id)
		info, err := job.Kill(ctx, grace)
		progress.Stop()
		if err != nil {
			return explain(err)
		}
		if p.env.JSON {
			return p.env.Print(newJobLine(info))
		}
		for _, s := range info.Exit.Survivors {
			p.env.Note("jobs kill: process %d (%s) outlived the end of %s", s.PID, s.Name, id)
		}
		return p.env.Say("%s %s", info.ID, info.State)
	})
}
