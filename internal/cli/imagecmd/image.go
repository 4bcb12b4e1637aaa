// Package imagecmd holds the verbs of berth for the images that containers are made of, and
// for what is left of them: image pull, build, ls, rm and prune.
package imagecmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
)

// New returns the group of verbs for images.
func New(env *verb.Env) *cobra.Command {
	return verb.Group(&cobra.Command{
		Use:   "image VERB",
		Short: "Get, build, list and remove the images of containers",
		Long: `Image works with the images of a container engine, that of --backend. A sandbox gets its
image by itself where it is missing; these verbs do it beforehand, or again.`,
		Example: `  berth image pull --backend docker python:3.14-slim
  berth image build --backend docker .
  berth image ls --backend docker
  berth image prune`,
	}, newPull(env), newBuild(env), newLs(env), newRm(env), NewPrune(env))
}

// name is what people call an image.
func name(i berth.Image) string {
	switch {
	case len(i.Tags) > 0:
		return i.Tags[0]
	case len(i.Digests) > 0:
		return i.Digests[0]
	}
	return i.ID
}

// tell prints the image that a verb has got.
func tell(env *verb.Env, i berth.Image) error {
	if env.JSON {
		return env.Print(i)
	}
	return env.Say("%s", console.Clean(name(i)))
}

// complete offers the names of the images that the engine has.
func complete(env *verb.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp
		if env.Prepare(cmd) != nil {
			return nil, directive
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), verb.CompletionTime)
		defer cancel()
		d, _, err := env.Open()
		if err != nil {
			return nil, directive
		}
		images, err := berth.Images(ctx, d)
		if err != nil {
			return nil, directive
		}
		var names []string
		for _, i := range images {
			for _, tag := range i.Tags {
				names = append(names, console.Clean(tag)+"\t"+console.Bytes(i.SizeBytes))
			}
		}
		return names, directive
	}
}
