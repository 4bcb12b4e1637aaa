package jobscmd

import (
	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/verb"
)

func newLs(env *verb.Env) *cobra.Command {
	p := &place{env: env}
	var running bool
	cmd := &cobra.Command{
		Use:     "ls --key KEY [FLAG]...",
		Aliases: []string{"list"},
		Short:   "List the jobs of an owner",
		Long: `Ls lists the jobs of one owner, the oldest first, also those that have ended: the
sandbox remembers the last 1,000. Output that "berth exec --keep-output" kept is among
those of the owner without a name.`,
		Example: `  berth jobs ls --key session-1
  berth jobs ls --key session-1 --running --json | jq -r .id
  berth jobs ls --key session-1 --job-owner agent-7`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd, p, running) },
	}
	cmd.Flags().BoolVar(&running, "running", false, "only those that have not ended")
	return p.add(cmd, false)
}

func list(cmd *cobra.Command, p *place, running bool) error {
	jobs, closer, err := p.open(cmd.Context())
	if err != nil {
		return err
	}
	defer closer()
	found, err := jobs.List(cmd.Context())
	if err != nil {
		return err
	}
	rows := [][]string{{"ID", "STATE", "EXIT", "STARTED", "TOOK", "LINES", "LOG", "COMMAND"}}
	for _, j := range found {
		if running && !j.Running() {
			continue
		}
		if p.env.JSON {
			if err := p.env.Print(newJobLine(j)); err != nil {
				return err
			}
		}
		rows = append(rows, row(j))
	}
	switch {
	case p.env.JSON:
		return nil
	case len(rows) == 1:
		p.env.Note("no jobs")
		return nil
	}
	return p.env.Table(rows)
}
