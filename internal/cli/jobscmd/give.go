package jobscmd

import (
	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/verb"
)

func newGive(env *verb.Env) *cobra.Command {
	p := &place{env: env}
	var to string
	var all bool
	cmd := &cobra.Command{
		Use:   "give --key KEY --to OWNER [FLAG]... (--all | ID...)",
		Short: "Give running jobs to another owner",
		Long: `Give makes running jobs those of another owner, who is told of what happens to them from
then on. It prints what it moved; a job that has ended stays where it is. If one of the
ids is unknown nothing is moved.`,
		Example: `  berth jobs give --key session-1 --job-owner agent-7 --to agent-8 --all
  berth jobs give --key session-1 --to reviewer job-1 job-2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case !cmd.Flags().Changed("to"):
				return verb.Usage("--to is missing: it says who gets the jobs")
			case all == (len(args) > 0):
				return verb.Usage("want either --all or the ids of jobs")
			}
			return give(cmd, p, to, args)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`OWNER` who gets them; empty: the owner without a name")
	cmd.Flags().BoolVar(&all, "all", false, "all that run")
	return p.add(cmd, true)
}

func give(cmd *cobra.Command, p *place, to string, ids []string) error {
	jobs, closer, err := p.open(cmd.Context())
	if err != nil {
		return err
	}
	defer closer()
	moved, err := jobs.HandOver(cmd.Context(), to, ids...)
	if err != nil {
		return explain(err)
	}
	for _, j := range moved {
		if p.env.JSON {
			err = p.env.Print(newJobLine(j))
		} else {
			err = p.env.Say("%s", j.ID)
		}
		if err != nil {
			return err
		}
	}
	if len(moved) == 0 {
		p.env.Note("jobs give: nothing that runs was moved")
	}
	return nil
}
