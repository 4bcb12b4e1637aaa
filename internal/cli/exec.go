package cli

import (
	"github.com/spf13/cobra"
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
shell's line: write sh -c '...' for one. Three interrupts within two seconds kill it.`,
		Example: `  berth exec --key session-1 -- pytest -q
  berth exec --key session-1 --cwd src --env DEBUG=1 -- make
  berth exec --key session-1 --env GITHUB_TOKEN -- gh pr list
  tar c . | berth exec --key session-1 -- tar x`,
		Args:        needCommand,
		Annotations: map[string]string{passThroughKey: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.exec(cmd, key, &command, args)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVarP(&key, "key", "k", "", "`KEY` of the sandbox")
	addSettings(cmd.Flags(), "backend", "owner")
	command.add(cmd.Flags())
	a.addCompletions(cmd)
	return cmd
}

func (a *app) exec(cmd *cobra.Command, name string, flags *commandFlags, args []string) error {
	c, err := flags.command(a.config, args)
	if err != nil {
		return err
	}
	sb, _, err := a.attach(cmd.Context(), name)
	if err != nil {
		return err
	}
	defer cleanup(cmd.Context(), sb.Detach)
	return a.execute(cmd, sb, c, flags.noStdin)
}
