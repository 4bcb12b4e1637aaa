package imagecmd

import (
	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/verb"
)

func newPull(env *verb.Env) *cobra.Command {
	var platform string
	cmd := &cobra.Command{
		Use:   "pull IMAGE... [FLAG]...",
		Short: "Get images from their registries",
		Long: `Pull gets images, also such as are there: a tag may have moved. One that is named by a
digest is checked to have it. Credentials are those of "docker login".`,
		Example: `  berth image pull --backend docker python:3.14-slim
  berth image pull --backend docker ghcr.io/team/app@sha256:...
  berth image pull --backend docker --platform linux/arm64 debian:12`,
		Args: needImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, _, err := env.Open()
			if err != nil {
				return err
			}
			return verb.Each(cmd.Context(), args, func(ref string) error {
				p := env.Progress("pulling " + ref)
				defer p.Stop()
				image, err := berth.Pull(cmd.Context(), d, ref, berth.PrepareOptions{Platform: platform, Progress: p.Report})
				p.Stop()
				if err != nil {
					return err
				}
				return tell(env, image)
			})
		},
	}
	cmd.Flags().StringVar(&platform, "platform", "", "`OS/ARCH` of the image, linux/arm64 say (default: the engine's own)")
	verb.AddSettings(cmd.Flags(), "backend")
	env.AddCompletions(cmd)
	return cmd
}

func needImages(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return verb.Usage("no image is named: %s IMAGE...", cmd.CommandPath())
	}
	return nil
}
