package snapshotcmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/cli/verb"
)

// NewSuspend returns the verb suspend.
func NewSuspend(env *verb.Env) *cobra.Command {
	cmd := newState(env, state{
		name: "suspend", did: "suspended", doing: "suspending", do: (*berth.Sandbox).Suspend,
		short: "Freeze a sandbox with all that runs in it",
		long: `Suspend freezes a sandbox: what runs in it stands still, uses no CPU and keeps its memory.
"berth resume" lets it go on, and so does any verb that works in it. Its idle timeout and
its time to live run on.

With --idle it freezes every sandbox in which nothing has been done for so long, no command
or job runs, and to which nobody is connected: run it every minute, say. It asks all backends
that can suspend and answer; with --backend that one, which has to.`,
	})
	cmd.Use = "suspend {--key KEY | --idle DURATION} [FLAG]..."
	cmd.Example += "\n  berth suspend --idle 10m"
	var idle time.Duration
	cmd.Flags().DurationVar(&idle, "idle", 0, "suspend what nobody has used for `DURATION`, in place of one sandbox")
	one := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !cmd.Flags().Changed("idle"):
			return one(cmd, args)
		case cmd.Flags().Changed("key"):
			return verb.Usage("--key and --idle: one sandbox is meant, or all that are idle")
		}
		return env.Each("suspend", suspends, func(d driver.Driver) error { return suspendIdle(cmd.Context(), env, d, idle) })
	}
	return cmd
}

func suspends(d driver.Driver) bool {
	_, ok := d.(driver.Suspender)
	return ok
}

// suspendIdle suspends what is idle on a backend, and says what was suspended also where
// something failed.
func suspendIdle(ctx context.Context, env *verb.Env, d driver.Driver, idle time.Duration) error {
	places, err := berth.SuspendIdle(ctx, d, idle, berth.ReapOptions{})
	for _, place := range places {
		if said := changed(env, "suspended", d, string(place.Key)); said != nil {
			return said
		}
	}
	return err
}

// changed says that something was done with a sandbox.
func changed(env *verb.Env, did string, d driver.Driver, key string) error {
	if env.JSON {
		return env.Print(map[string]string{did: key, "backend": d.Name()})
	}
	return env.Say("%s %s", did, key)
}

// NewResume returns the verb resume.
func NewResume(env *verb.Env) *cobra.Command {
	return newState(env, state{
		name: "resume", did: "resumed", doing: "resuming", do: (*berth.Sandbox).Resume,
		short: "Let a suspended sandbox go on",
		long:  `Resume lets a sandbox go on that "berth suspend", or somebody else, has frozen.`,
	})
}

// state is a verb that changes whether a sandbox runs.
type state struct {
	name, did, doing, short, long string
	do                            func(*berth.Sandbox, context.Context) error
}

func newState(env *verb.Env, s state) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:     s.name + " --key KEY [FLAG]...",
		Short:   s.short,
		Long:    s.long,
		Example: "  berth " + s.name + " --key session-1",
		Args:    verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sb, d, err := find(cmd.Context(), env, key)
			if err != nil {
				return err
			}
			p := env.Progress(s.doing + " " + key)
			err = s.do(sb, cmd.Context())
			p.Stop()
			if err != nil {
				return err
			}
			return changed(env, s.did, d, key)
		},
	}
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	env.AddCompletions(cmd)
	return cmd
}
