package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

func newLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [FLAG]...",
		Aliases: []string{"list"},
		Short:   "List the sandboxes",
		Long: `Ls lists the sandboxes of all backends that answer, running or not, and says so of one that
does not, if you have named its engine or host; with --backend those of one backend,
which has to answer. ENDS says when the sandbox ends by itself:
its idle timeout and its time to live.`,
		Example: `  berth ls
  berth ls --backend docker
  berth ls --json | jq -r .key`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.ls(cmd) },
	}
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	a.AddCompletions(cmd)
	return cmd
}

func (a *app) ls(cmd *cobra.Command) error {
	found, err := a.find(cmd)
	if err != nil {
		return err
	}
	if a.JSON {
		for _, o := range found {
			if err := a.Print(o); err != nil {
				return err
			}
		}
		return nil
	}
	rows := [][]string{{"KEY", "BACKEND", "STATE", "ISOLATION", "AGE", "ENDS", "IMAGE OR WORKDIR"}}
	for _, o := range found {
		age := "-"
		if !o.Created.IsZero() {
			age = console.Short(max(time.Since(o.Created), 0))
		}
		where := o.Image
		if where == "" {
			where = o.Workdir
		}
		rows = append(rows, []string{string(o.Key), o.Backend, string(o.State), console.OrDash(string(o.Isolation)), age, ends(o), console.OrDash(where)})
	}
	if len(found) == 0 {
		a.Note("no sandboxes")
		return nil
	}
	return a.Table(rows)
}

// ends says by what a sandbox ends without being told to.
func ends(o spec.Owned) string {
	switch {
	case o.Ephemeral:
		return "with its client"
	case o.IdleTimeout > 0 && o.TTL > 0:
		return "idle " + console.Short(o.IdleTimeout) + ", ttl " + console.Short(o.TTL)
	case o.IdleTimeout > 0:
		return "idle " + console.Short(o.IdleTimeout)
	case o.TTL > 0:
		return "ttl " + console.Short(o.TTL)
	}
	return "-"
}

// find lists the sandboxes that a command line means: those of --backend, which has
// to answer, or all that can be had.
func (a *app) find(cmd *cobra.Command) ([]spec.Owned, error) {
	if !a.Config.Given("backend") {
		return a.Owned(cmd.Context(), func(b all.Backend, err error) { a.Unanswered(cmd.Name(), b, err) }), nil
	}
	d, _, err := a.Open()
	if err != nil {
		return nil, err
	}
	return berth.List(cmd.Context(), d)
}
