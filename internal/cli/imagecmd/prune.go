package imagecmd

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// NewPrune returns the verb prune, which is the same for images alone: they are in use, or
// not, as what is made of them is.
func NewPrune(env *verb.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune [FLAG]...",
		Short: "Remove what sandboxes have left behind",
		Long: `Prune removes what nothing uses any more: images that Berth has built, containers that were
made in passing, guests and volumes that no container mounts. It removes no sandbox and no
snapshot, and nothing of another owner or of anybody else. It asks all backends that answer;
with --backend that one, which has to.`,
		Example: `  berth prune
  berth prune --backend docker --json`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.Each("prune", prunes, func(d driver.Driver) error { return pruneOne(cmd.Context(), env, d) })
		},
	}
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	env.AddCompletions(cmd)
	return cmd
}

// pruned is what was removed, as JSON has it.
type pruned struct {
	Backend string `json:"backend"`
	spec.Pruned
}

func prunes(d driver.Driver) bool {
	_, ok := d.(driver.Pruner)
	return ok
}

// pruneOne prunes a backend, and says what was removed also where something failed.
func pruneOne(ctx context.Context, env *verb.Env, d driver.Driver) error {
	done, err := berth.Prune(ctx, d, berth.ReapOptions{})
	if env.JSON {
		return cmp.Or(env.Print(pruned{Backend: d.Name(), Pruned: done}), err)
	}
	for _, list := range []struct {
		kind  string
		names []string
	}{{"container", done.Containers}, {"volume", done.Volumes}, {"network", done.Networks}, {"image", done.Images}} {
		for _, name := range list.names {
			if said := env.Say("removed %s %s on %s", list.kind, console.Clean(name), d.Name()); said != nil {
				return said
			}
		}
	}
	if done.FreedBytes > 0 {
		env.Note("prune: images of %s are removed on %s", console.Bytes(done.FreedBytes), d.Name())
	}
	return err
}
