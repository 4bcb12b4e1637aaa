package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

func newPs(a *app) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "ps --key KEY [FLAG]...",
		Short: "List what runs in a sandbox",
		Long: `Ps lists the commands and jobs of a sandbox that run, whoever started them, the oldest
first. NAME is what "berth kill" ends one by: the key that it was started with. PID is
that of its first process as the sandbox sees it; with --json there is also when that was
started, in clock ticks, which together with the pid names it for good.`,
		Example: `  berth ps --key session-1
  berth ps --key session-1 --json | jq -r .pid`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.ps(cmd, key) },
	}
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	a.AddCompletions(cmd)
	return cmd
}

// runningLine is what runs, as JSON has it.
type runningLine struct {
	ID         string    `json:"id"`
	Name       string    `json:"name,omitempty"`
	Job        bool      `json:"job"`
	JobOwner   string    `json:"job_owner,omitempty"`
	PID        int       `json:"pid"`
	StartTicks uint64    `json:"start_ticks"`
	Started    time.Time `json:"started"`
	Program    *string   `json:"program,omitempty"`
	ProgramB64 *string   `json:"program_b64,omitempty"` // where it is not UTF-8
}

func (a *app) ps(cmd *cobra.Command, key string) error {
	sb, _, err := a.Attach(cmd.Context(), key)
	if err != nil {
		return err
	}
	defer verb.Detach(cmd.Context(), sb)
	running, err := sb.Running(cmd.Context())
	if err != nil {
		return err
	}
	rows := [][]string{{"NAME", "KIND", "OWNER", "PID", "AGE", "PROGRAM"}}
	for _, r := range running {
		if a.JSON {
			l := runningLine{ID: r.ID, Name: r.Key, Job: r.Job, JobOwner: r.Owner, PID: r.PID, StartTicks: r.StartTicks, Started: r.Started}
			l.Program, l.ProgramB64 = console.Text([]byte(r.Name))
			if err := a.Print(l); err != nil {
				return err
			}
		}
		kind := "command"
		if r.Job {
			kind = r.ID
		}
		age := console.Short(max(time.Since(r.Started), 0))
		rows = append(rows, []string{console.OrDash(r.Key), kind, console.OrDash(r.Owner), strconv.Itoa(r.PID), age, r.Name})
	}
	switch {
	case a.JSON:
		return nil
	case len(running) == 0:
		a.Note("nothing runs")
		return nil
	}
	return a.Table(rows)
}

func newKill(a *app) *cobra.Command {
	var key string
	var grace verb.Grace
	cmd := &cobra.Command{
		Use:   "kill --key KEY [FLAG]... NAME",
		Short: "End a command or a job by the key that it was started with",
		Long: `Kill ends the whole tree of the command or job that was started under NAME - its key, or
what "berth jobs start --once NAME" gave it - whoever started it: TERM first and, after a
grace, KILL. It says, and its exit status is,

  terminated      0   it is proven that no process of it is left
  already_exited  1   it had ended before, or nothing is known by that name
  unknown         19  it was killed, and nothing proves that all of it is gone

Said again it answers as the first time.`,
		Example: `  berth ps --key session-1
  berth kill --key session-1 dev-server
  berth kill --key session-1 --grace 30s --json build`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return verb.Usage("NAME is missing: it says what is to be ended")
			case len(args) > 1:
				return verb.Usage("unexpected argument %q", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			g, err := grace.Duration()
			if err != nil {
				return err
			}
			return a.kill(cmd, key, args[0], g)
		},
	}
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	grace.Add(cmd.Flags())
	a.AddCompletions(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.Inside(cmd, key, namesRunning)
	}
	return cmd
}

func (a *app) kill(cmd *cobra.Command, key, name string, grace time.Duration) error {
	ctx := cmd.Context()
	sb, _, err := a.Attach(ctx, key)
	if err != nil {
		return err
	}
	defer verb.Detach(ctx, sb)
	progress := a.Progress("ending " + name)
	outcome, err := sb.Terminate(ctx, name, grace)
	progress.Stop()
	if err != nil {
		return err
	}
	if a.JSON {
		err = a.Print(struct {
			Name string            `json:"name"`
			Kill berth.KillOutcome `json:"kill"`
		}{name, outcome})
	} else {
		err = a.Say("%s %s", console.Clean(name), outcome)
	}
	if err != nil {
		return err
	}
	switch outcome {
	case berth.KillTerminated:
		return nil
	case berth.KillExited:
		return verb.Status(verb.StatusNo)
	default:
		return verb.Status(spec.CodeUnknownOutcome.Info().ExitCode)
	}
}

// namesRunning are the names of what runs.
func namesRunning(ctx context.Context, sb *berth.Sandbox) ([]string, error) {
	running, err := sb.Running(ctx)
	var names []string
	for _, r := range running {
		if r.Key != "" {
			names = append(names, r.Key+"\t"+console.Clean(r.Name))
		}
	}
	return names, err
}
