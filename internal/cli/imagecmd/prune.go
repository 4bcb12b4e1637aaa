package imagecmd

import (
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
		RunE: func(cmd *cobra.Command, _ []string) error { return prune(cmd, env) },
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

func prune(cmd *cobra.Command, env *verb.Env) error {
	if env.Config.Given("backend") {
		d, _, err := env.Open()
		if err != nil {
			return err
		}
		return pruneOne(cmd.Context(), env, d)
	}
	var failed verb.Errors
	for _, b := range env.Registry.Backends() {
		d, err := verb.OpenOne(b)
		if err != nil {
			env.Detail("prune: %s: %v", b.Name, err)
			continue
		}
		if _, ok := d.(driver.Pruner); !ok {
			continue
		}
		err = pruneOne(cmd.Context(), env, d)
		switch {
		case spec.CodeOf(err) == spec.CodeUnavailable && b.Name != env.Config.Backend:
			env.Detail("prune: %s does not answer: %v", b.Name, err)
		case err != nil:
			failed = append(failed, err)
		}
	}
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return failed[0]
	}
	return failed
}

// pruneOne prunes a backend, and says what was removed also where something failed.
func pruneOne(ctx context.Context, env *verb.Env, d driver.Driver) error {
	done, err := berth.Prune(ctx, d, berth.ReapOptions{})
	if env.JSON {
		if err == nil {
			err = env.Print(pruned{Backend: d.Name(), Pruned: done})
		}
		return err
	}
	for _, list := range []struct {
		kind  string
		names []string
	}{{"container", done.Containers}, {"volume", done.Volumes}, {"network", done.Networks}, {"image", done.Images}} {
		for _, name := range list.names {
			if said := env.Say("removed %s %s", list.kind, console.Clean(name)); said != nil {
				return said
			}
		}
	}
	if done.FreedBytes > 0 {
		env.Note("prune: images of %s are removed on %s", console.Bytes(done.FreedBytes), d.Name())
	}
	return err
}
