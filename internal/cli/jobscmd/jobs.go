// Package jobscmd holds the group jobs of berth: commands that go on in a sandbox when
// the program that started them has ended.
package jobscmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/verb"
)

// New returns the group jobs.
func New(env *verb.Env) *cobra.Command {
	return verb.Group(&cobra.Command{
		Use:   "jobs COMMAND ...",
		Short: "Run commands in the background of a sandbox, and look after them",
		Long: `Jobs are commands that belong to a sandbox and not to the program that started them:
they go on when it has ended, and any other finds them by the sandbox's key. Their input
is empty; stdout and stderr go to one log, in the order in which they were written.
Those that have ended stay listed.

Each job has an owner, --job-owner, who may be nobody in particular; the jobs of others
are as unknown as if there were none.`,
		Example: `  id=$(berth jobs start --key session-1 -- npm run dev)
  berth jobs ls --key session-1
  berth jobs logs --key session-1 -f "$id"
  berth jobs wait --key session-1 "$id"
  berth jobs kill --key session-1 "$id"`,
	},
		newStart(env), newLs(env), newLogs(env), newWait(env), newKill(env), newGive(env),
	)
}

// place are the flags that say whose jobs of which sandbox are meant.
type place struct {
	env *verb.Env
	key string
}

// add adds the flags, and what is completed, to a verb. ids: its arguments are jobs.
func (p *place) add(cmd *cobra.Command, ids bool) *cobra.Command {
	verb.AddKey(cmd.Flags(), &p.key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "job_owner", "backend", "owner")
	p.env.AddCompletions(cmd)
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if ids {
		cmd.ValidArgsFunction = p.complete
	}
	return cmd
}

// open attaches to the sandbox. The caller calls the function that it returns.
func (p *place) open(ctx context.Context) (*berth.Jobs, func(), error) {
	sb, _, err := p.env.Attach(ctx, p.key)
	if err != nil {
		return nil, nil, err
	}
	return sb.Jobs(p.env.Config.JobOwner), func() { verb.Detach(ctx, sb) }, nil
}

// get finds one job.
func (p *place) get(ctx context.Context, id string) (*berth.Job, func(), error) {
	jobs, closer, err := p.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	job, err := jobs.Get(ctx, id)
	if err != nil {
		closer()
		return nil, nil, explain(err)
	}
	return job, closer, nil
}

// complete offers the ids of jobs.
func (p *place) complete(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.env.Inside(cmd, p.key, func(ctx context.Context, sb *berth.Sandbox) ([]string, error) {
		list, err := sb.Jobs(p.env.Config.JobOwner).List(ctx)
		var ids []string
		for _, j := range list {
			ids = append(ids, j.ID+"\t"+string(j.State)+" "+commandLine(j.Args))
		}
		return ids, err
	})
}

// needIDs refuses a command line without a job, or with more than so many.
func needIDs(most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return verb.Usage("a job is missing: %s", cmd.UseLine())
		case most > 0 && len(args) > most:
			return verb.Usage("unexpected argument %q", args[most])
		}
		return nil
	}
}
