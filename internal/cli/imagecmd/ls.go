package imagecmd

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
)

func newLs(env *verb.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [FLAG]...",
		Aliases: []string{"list"},
		Short:   "List the images that the engine has",
		Long: `Ls lists the images of the engine, by whomever they were put there. KIND says which ones
Berth has made: built from a directory, or kept of a sandbox as a snapshot.`,
		Example: `  berth image ls --backend docker
  berth image ls --backend docker --json | jq -r '.tags[]'`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd, env) },
	}
	verb.AddSettings(cmd.Flags(), "backend")
	env.AddCompletions(cmd)
	return cmd
}

func list(cmd *cobra.Command, env *verb.Env) error {
	d, _, err := env.Open()
	if err != nil {
		return err
	}
	images, err := berth.Images(cmd.Context(), d)
	if err != nil {
		return err
	}
	rows := [][]string{{"IMAGE", "ID", "KIND", "SIZE", "AGE"}}
	for _, i := range images {
		if env.JSON {
			if err := env.Print(i); err != nil {
				return err
			}
			continue
		}
		names := i.Tags
		if len(names) == 0 {
			names = []string{"-"}
		}
		for _, name := range names {
			rows = append(rows, []string{name, shortID(i.ID), kind(i), console.Bytes(i.SizeBytes), age(i.Created)})
		}
	}
	switch {
	case env.JSON:
		return nil
	case len(images) == 0:
		env.Note("no images")
		return nil
	}
	return env.Table(rows)
}

func kind(i berth.Image) string {
	switch {
	case i.Snapshot:
		return "snapshot"
	case i.Built:
		return "built"
	}
	return "-"
}

func shortID(id string) string {
	const digits = 12
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(len(id), digits)]
}

func age(created time.Time) string {
	if created.IsZero() {
		return "-"
	}
	return console.Short(max(time.Since(created), 0))
}
