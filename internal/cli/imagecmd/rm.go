package imagecmd

import (
	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/verb"
)

func newRm(env *verb.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm IMAGE... [FLAG]...",
		Aliases: []string{"remove"},
		Short:   "Remove images",
		Long: `Rm removes images by name or id, whoever put them there. One that a container uses stays,
and is an error; so is one that is not there.`,
		Example: `  berth image rm --backend docker python:3.14-slim
  berth image rm --backend docker localhost/berth-build:0123456789ab`,
		Args: needImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, _, err := env.Open()
			if err != nil {
				return err
			}
			return verb.Each(cmd.Context(), args, func(ref string) error {
				if err := berth.RemoveImage(cmd.Context(), d, ref, berth.ReapOptions{}); err != nil {
					return err
				}
				if env.JSON {
					return env.Print(map[string]string{"removed": ref})
				}
				return env.Say("removed %s", ref)
			})
		},
		ValidArgsFunction: complete(env),
	}
	verb.AddSettings(cmd.Flags(), "backend")
	env.AddCompletions(cmd)
	return cmd
}
