package jobscmd

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/internal/config"
)

// startFlags are the flags of start.
type startFlags struct {
	verb.CommandFlags
	once           string
	timeout, stall time.Duration
	maxLog         string
}

func newStart(env *verb.Env) *cobra.Command {
	p := &place{env: env}
	var flags startFlags
	cmd := &cobra.Command{
		Use:   "start --key KEY [FLAG]... [--] COMMAND [ARG]...",
		Short: "Start a command as a job, and print its id",
		Long: `Start runs a command in the background of a sandbox and prints the job's id as soon as
it runs. Nothing ends it but itself, "berth jobs kill", its own --timeout, or the end of
the sandbox.

Everything from the first word that is no flag belongs to the command. With --once a
job that was started before under the same name is found again, and nothing is run.`,
		Example: `  berth jobs start --key session-1 -- npm run dev
  berth jobs start --key session-1 --shell 'make all 2>&1 | tee build.txt'
  berth jobs start --key session-1 --once nightly --timeout 6h -- ./nightly.sh
  berth jobs start --key session-1 --job-owner agent-7 --json -- pytest -q`,
		Args: verb.NeedCommand,
		RunE: func(cmd *cobra.Command, args []string) error { return start(cmd, p, &flags, args) },
	}
	cmd.Flags().SetInterspersed(false)
	p.add(cmd, false)
	flags.Add(cmd.Flags())
	cmd.Flags().StringVar(&flags.once, "once", "", "start the command only if this owner has no job of that `NAME`")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 0, "end the job after `DURATION`; 0: no limit")
	cmd.Flags().DurationVar(&flags.stall, "stall-after", 0, "tell who watches the owner's jobs when it wrote nothing for `DURATION`; 0: never")
	cmd.Flags().StringVar(&flags.maxLog, "max-log", "", "`SIZE` at which the log stops, the job going on; 512m say (default 1g)")
	return cmd
}

// options builds what the flags ask for.
func (f *startFlags) options(c *berth.Command) (berth.JobOptions, error) {
	o := berth.JobOptions{
		Key: f.once, Dir: c.Dir, Env: c.Env, CleanEnv: c.CleanEnv, EnvPaths: c.EnvPaths, Timeout: f.timeout, NoOutputTimeout: c.NoOutputTimeout,
		User: c.User, Umask: c.Umask, Rlimits: c.Rlimits, StallAfter: f.stall,
	}
	if f.maxLog != "" {
		n, err := config.ParseSize(f.maxLog)
		if err != nil {
			return o, verb.Usage("--max-log: %w", err)
		}
		o.MaxLogBytes = n
	}
	return o, nil
}

func start(cmd *cobra.Command, p *place, flags *startFlags, args []string) error {
	c, err := flags.Command(p.env.Config, args)
	if err != nil {
		return err
	}
	o, err := flags.options(c)
	if err != nil {
		return err
	}
	p.env.Conceal(c.Env)
	ctx := cmd.Context()
	jobs, closer, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer closer()
	job, err := jobs.Start(ctx, c.Args, o)
	if err != nil {
		return verb.ExplainStart(err, c)
	}
	if !p.env.JSON {
		return p.env.Say("%s", job.ID())
	}
	info, err := job.Info(ctx)
	if err != nil {
		return err
	}
	return p.env.Print(newJobLine(info))
}
