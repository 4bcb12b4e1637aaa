package snapshotcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/verb"
)

// NewSuspend returns the verb suspend.
func NewSuspend(env *verb.Env) *cobra.Command {
	return newState(env, state{
		name: "suspend", did: "suspended", doing: "suspending", do: (*berth.Sandbox).Suspend,
		short: "Freeze a sandbox with all that runs in it",
		long: `Suspend freezes a sandbox: what runs in it stands still, uses no CPU and keeps its memory.
"berth resume" lets it go on, and so does any verb that works in it. Its idle timeout and
its time to live run on.`,
	})
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
			if env.JSON {
				return env.Print(map[string]string{s.did: key, "backend": d.Name()})
			}
			return env.Say("%s %s", s.did, key)
		},
	}
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	env.AddCompletions(cmd)
	return cmd
}
