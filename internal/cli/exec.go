package cli

import (
	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/verb"
)

func newExec(a *app) *cobra.Command {
	var key string
	var command commandFlags
	cmd := &cobra.Command{
		Use:   "exec --key KEY [FLAG]... [--] COMMAND [ARG]...",
		Short: "Run a command in a sandbox that exists",
		Long: `Exec runs the command in a running sandbox, with our input, output and signals. It
starts and makes nothing: see "berth up" for that. Without --backend the sandbox is
looked for on all backends, the configured one first.

Everything from the first word that is no flag belongs to the command. It is no
shell's line: write sh -c '...' for one. It gets no terminal, whatever ours is. Three
interrupts within two seconds kill it.`,
		Example: `  berth exec --key session-1 -- pytest -q
  berth exec --key session-1 --cwd src --env DEBUG=1 -- make
  berth exec --key session-1 --env GITHUB_TOKEN -- gh pr list
  tar c . | berth exec --key session-1 -- tar x`,
		Args:        verb.NeedCommand,
		Annotations: map[string]string{verb.PassThrough: "yes", notesKey: environmentNote},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.exec(cmd, key, &command, args)
		},
	}
	cmd.Flags().SetInterspersed(false)
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	command.add(cmd.Flags())
	a.AddCompletions(cmd)
	return cmd
}

func (a *app) exec(cmd *cobra.Command, name string, flags *commandFlags, args []string) error {
	c, err := flags.command(a.Config, args)
	if err != nil {
		return err
	}
	a.Conceal(c.Env)
	sb, _, err := a.Attach(cmd.Context(), name)
	if err != nil {
		return err
	}
	defer verb.Detach(cmd.Context(), sb)
	return a.execute(cmd, sb, c, flags.noStdin)
}
