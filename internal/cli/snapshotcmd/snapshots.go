package snapshotcmd

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// NewSnapshot returns the verb snapshot.
func NewSnapshot(env *verb.Env) *cobra.Command {
	var key, id string
	cmd := &cobra.Command{
		Use:   "snapshot --key KEY [FLAG]...",
		Short: "Keep the files of a sandbox, to make others of them",
		Long: `Snapshot keeps the files of a sandbox and prints the id of what it has kept. The sandbox,
which may be stopped, is frozen meanwhile. What runs in it, its environment and its secrets
are not kept, and neither is what is mounted from outside; where its files are in memory
nothing is kept, and that is an error.`,
		Example: `  berth snapshot --key session-1
  id=$(berth snapshot --key session-1) && berth restore "$id" --key session-2`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sb, _, err := find(cmd.Context(), env, key)
			if err != nil {
				return err
			}
			p := env.Progress("keeping the files of " + key)
			snap, err := sb.Snapshot(cmd.Context(), berth.SnapshotOptions{ID: id, Progress: p.Report})
			p.Stop()
			if err != nil {
				return err
			}
			if env.JSON {
				return env.Print(snap)
			}
			return env.Say("%s", snap.ID)
		},
	}
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	cmd.Flags().StringVar(&id, "id", "", "`ID` of the snapshot, in the grammar of a key (default: one is made up)")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	env.AddCompletions(cmd)
	return cmd
}

// NewSnapshots returns the verb snapshots.
func NewSnapshots(env *verb.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshots [FLAG]...",
		Short: "List the snapshots, and remove some",
		Long: `Snapshots lists what "berth snapshot" has kept, of all backends that answer; with
--backend of one, which has to answer. SIZE is what a snapshot takes beside the image that
its sandbox was made of.`,
		Example: `  berth snapshots
  berth snapshots --json | jq -r .id
  berth snapshots rm before-upgrade`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd, env) },
	}
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	env.AddCompletions(cmd)
	cmd.AddCommand(newRemove(env))
	return cmd
}

func list(cmd *cobra.Command, env *verb.Env) error {
	found, err := snapshots(cmd.Context(), env)
	if err != nil {
		return err
	}
	rows := [][]string{{"ID", "BACKEND", "KEY", "AGE", "SIZE"}}
	for _, s := range found {
		if env.JSON {
			if err := env.Print(s.Snapshot); err != nil {
				return err
			}
		}
		rows = append(rows, []string{s.ID, s.Backend, string(s.Key), console.Short(max(time.Since(s.Created), 0)), console.Bytes(s.SizeBytes)})
	}
	switch {
	case env.JSON:
		return nil
	case len(found) == 0:
		env.Note("no snapshots")
		return nil
	}
	return env.Table(rows)
}

func newRemove(env *verb.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm ID... [FLAG]...",
		Short: "Remove snapshots",
		Long: `Rm removes snapshots. Sandboxes that were made of them stay, and keep what they need of
them.`,
		Example: `  berth snapshots rm before-upgrade`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return verb.Usage("want the ID of a snapshot")
			}
			return nil
		},
		ValidArgsFunction: completeIDs(env),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, id := range args {
				s, err := one(cmd.Context(), env, id)
				if err == nil {
					err = berth.RemoveSnapshot(cmd.Context(), s.driver, id, berth.ReapOptions{})
				}
				if err != nil {
					return err
				}
				if env.JSON {
					err = env.Print(map[string]string{"removed": id, "backend": s.Backend})
				} else {
					err = env.Say("removed %s", id)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	env.AddCompletions(cmd)
	return cmd
}

// completeIDs offers the snapshots.
func completeIDs(env *verb.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		if env.Prepare(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := snapshots(cmd.Context(), env)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, s := range found {
			ids = append(ids, s.ID+"\t"+s.Backend+" "+string(s.Key))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// report says which sandbox was made.
func report(cmd *cobra.Command, env *verb.Env, sb *berth.Sandbox, s kept) error {
	owned, err := berth.List(cmd.Context(), s.driver)
	if err != nil {
		return err
	}
	for _, o := range owned {
		switch {
		case o.ID != sb.ID():
			continue
		case env.JSON:
			return env.Print(o)
		case o.Ephemeral:
			env.Note("%s: the sandbox has no key of its own: it ends 30 s after its last client", cmd.Name())
		}
		return env.Say("%s", o.Key)
	}
	return spec.New(spec.CodeUnknownOutcome, "the sandbox was made and is gone")
}
