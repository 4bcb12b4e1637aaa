package snapshotcmd

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/internal/config"
)

// Place are the flags that say what a sandbox is to be beside its image, and what they come
// to with a backend.
type Place struct {
	Add  func(*pflag.FlagSet)
	Spec func(*config.Config, all.Backend) (berth.Spec, error)
}

// NewRestore returns the verb restore.
func NewRestore(env *verb.Env, place Place) *cobra.Command {
	return newMaker(env, place, maker{
		use: "restore ID", what: "the ID of a snapshot", complete: completeIDs(env),
		short: "Make a sandbox of a snapshot",
		long: `Restore makes a sandbox that begins with the files of a snapshot, and prints its key. The
flags say all the rest of it; without --workdir it has that of the sandbox that the snapshot
is of. A sandbox that has the key already is an error.`,
		example: `  berth restore before-upgrade --key session-2
  berth restore before-upgrade --key session-2 --memory 2g`,
		find: func(ctx context.Context, id string) (kept, error) { return one(ctx, env, id) },
		make: func(ctx context.Context, from kept, s berth.Spec, o berth.ProvisionOptions) (*berth.Sandbox, error) {
			return berth.Restore(ctx, from.driver, from.ID, s, o)
		},
	})
}

// NewFork returns the verb fork.
func NewFork(env *verb.Env, place Place) *cobra.Command {
	var source *berth.Sandbox
	return newMaker(env, place, maker{
		use: "fork FROM", what: "the key of a sandbox", complete: func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(given) > 0 || env.Prepare(cmd) != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return env.Keys(cmd.Context(), ""), cobra.ShellCompDirectiveNoFileComp
		},
		short: "Make a sandbox that begins with the files of another",
		long: `Fork makes a sandbox that begins with the files that the one with the key FROM has at this
moment, and prints its key. The flags say all the rest of it. What runs there stays there,
as "berth snapshot" says.`,
		example: `  berth fork session-1 --key session-2`,
		find: func(ctx context.Context, from string) (kept, error) {
			sb, d, err := find(ctx, env, from)
			if err != nil {
				return kept{}, err
			}
			source = sb
			b, err := env.Registry.Lookup(d.Name())
			return kept{driver: d, backend: b}, err
		},
		make: func(ctx context.Context, _ kept, s berth.Spec, o berth.ProvisionOptions) (*berth.Sandbox, error) {
			return source.Fork(ctx, s, o)
		},
	})
}

// maker is a verb that makes a sandbox of what there is.
type maker struct {
	use, what, short, long, example string
	complete                        cobra.CompletionFunc
	find                            func(ctx context.Context, name string) (kept, error)
	make                            func(context.Context, kept, berth.Spec, berth.ProvisionOptions) (*berth.Sandbox, error)
}

func newMaker(env *verb.Env, place Place, m maker) *cobra.Command {
	var vars []string
	cmd := &cobra.Command{
		Use:     m.use + " [--key KEY] [FLAG]...",
		Short:   m.short,
		Long:    m.long,
		Example: m.example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return verb.Usage("want %s", m.what)
			}
			return nil
		},
		ValidArgsFunction: m.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			from, err := m.find(ctx, args[0])
			if err != nil {
				return err
			}
			s, err := place.Spec(env.Config, from.backend)
			if err != nil {
				return err
			}
			if s.Env, err = verb.Environment(env.Config, vars); err != nil {
				return err
			}
			p := env.Progress("making the sandbox")
			sb, err := m.make(ctx, from, s, berth.ProvisionOptions{Progress: p.Report})
			p.Stop()
			if err != nil {
				return err
			}
			defer verb.Detach(ctx, sb)
			env.Audit(sb, from.driver.Name())
			return report(cmd, env, sb, from)
		},
	}
	place.Add(cmd.Flags())
	cmd.Flags().StringArrayVarP(&vars, "env", "e", nil, "`NAME=VALUE` for the environment of every command, or NAME to take the value from ours; repeatable")
	env.AddCompletions(cmd)
	return cmd
}
