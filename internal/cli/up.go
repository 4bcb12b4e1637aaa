package cli

import (
	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/repocmd"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

func newUp(a *app) *cobra.Command {
	var place placeFlags
	var env []string
	var repository repocmd.Flags
	cmd := &cobra.Command{
		Use:   "up [--key KEY] [FLAG]...",
		Short: "Make a sandbox that stays, or start one that is stopped",
		Long: `Up makes a sandbox and prints its key. One that exists under the key is used as it
is, if its specification is the same, and started if it is stopped.

Without --key a key is made up, and the sandbox is ended 30 s after the last client
has left it.`,
		Example: `  berth up --key session-1
  berth up --key build --backend docker --image golang:1.26 --memory 2g --ttl 8h
  berth up --key session-1 --network open --replace
  berth up --key web --backend docker --image nginx --network open --publish 8080:80 --mount .:/srv
  berth up --key agent --backend docker --image debian --isolation strict --env TOKEN --secret TOKEN
  berth up --key fix-1 --worktree fix-1
  berth up --key a --backend docker --image debian --clone https://github.com/owner/project
  key=$(berth up) && berth exec --key "$key" -- make`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.up(cmd, &place, &repository, env) },
	}
	place.add(cmd.Flags())
	repository.Add(&a.Env, cmd)
	cmd.Flags().StringArrayVarP(&env, "env", "e", nil, "`NAME=VALUE` for the environment of every command, or NAME to take the value from ours; repeatable")
	verb.AddSettings(cmd.Flags(), "secrets")
	a.AddCompletions(cmd)
	return cmd
}

func (a *app) up(cmd *cobra.Command, place *placeFlags, repository *repocmd.Flags, env []string) error {
	d, b, err := a.Open()
	if err != nil {
		return err
	}
	s, err := place.spec(a.Config, b)
	if err != nil {
		return err
	}
	if s.Env, err = verb.Environment(a.Config, env); err != nil {
		return err
	}
	if err := verb.KeepSecrets(&s, a.Config, b); err != nil {
		return err
	}
	use, err := repository.Begin(cmd.Context(), &a.Env, &s, b, place.workdir != "")
	if err != nil {
		return err
	}
	sb, err := use.Provision(cmd.Context(), d, func() (*berth.Sandbox, error) { return a.provision(cmd.Context(), d, s, place.replace) })
	if err != nil {
		use.End(cmd.Context(), false)
		return err
	}
	defer verb.Detach(cmd.Context(), sb)
	owned, err := berth.List(cmd.Context(), d)
	if err != nil {
		return err
	}
	for _, o := range owned {
		if o.ID != sb.ID() {
			continue
		}
		if a.JSON {
			return a.Print(o)
		}
		if o.Ephemeral {
			a.Note("up: the sandbox has no key of its own: it ends 30 s after its last client")
		}
		return a.Say("%s", o.Key)
	}
	return spec.New(spec.CodeUnknownOutcome, "the sandbox was made and is gone")
}
