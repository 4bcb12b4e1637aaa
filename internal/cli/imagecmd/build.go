package imagecmd

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
)

func newBuild(env *verb.Env) *cobra.Command {
	var flags verb.BuildFlags
	var o berth.PrepareOptions
	cmd := &cobra.Command{
		Use:   "build DIR [FLAG]...",
		Short: "Build an image from a directory, unless it is there",
		Long: `Build makes an image by the Dockerfile of a directory and prints its name, which is made of
a hash of the Dockerfile, of all regular files of the directory and of the arguments: equal
files are one image, and it is built once. A .dockerignore does not change that. The log of
the build goes to stderr.`,
		Example: `  berth image build --backend docker .
  berth image build --backend docker --dockerfile ci/Dockerfile --build-arg VERSION=3 .
  berth run --backend docker --image "$(berth image build --backend docker .)" -- make`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return verb.Usage("want one directory to build an image from")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return build(cmd, env, &flags, o, args[0]) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	flags.Add(cmd.Flags())
	cmd.Flags().BoolVar(&o.Force, "force", false, "build also what is there, with base images pulled again: one may have moved")
	cmd.Flags().BoolVar(&o.NoBuild, "no-build", false, "build nothing: fail if the image is not there")
	cmd.Flags().StringVar(&o.Platform, "platform", "", "`OS/ARCH` of the image (default: the engine's own)")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	env.AddCompletions(cmd)
	return cmd
}

func build(cmd *cobra.Command, env *verb.Env, flags *verb.BuildFlags, o berth.PrepareOptions, context string) error {
	dir, err := os.Getwd()
	if err != nil {
		return verb.Usage("the current directory cannot be had: %w", err)
	}
	b, err := flags.Build(env.Config, dir, context)
	if err != nil {
		return err
	}
	d, _, err := env.Open()
	if err != nil {
		return err
	}
	if !env.Quiet && !env.JSON {
		log := console.NewLines(env.Stderr)
		defer log.Flush()
		o.Log = log
	}
	image, err := berth.BuildImage(cmd.Context(), d, *b, o)
	if err != nil {
		return err
	}
	return tell(env, image)
}
