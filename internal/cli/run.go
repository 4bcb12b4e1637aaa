package cli

import (
	"github.com/spf13/cobra"
)

func newRun(a *app) *cobra.Command {
	var place placeFlags
	var command commandFlags
	cmd := &cobra.Command{
		Use:   "run [FLAG]... [--] COMMAND [ARG]...",
		Short: "Run a command in a sandbox of its own",
		Long: `Run makes a sandbox, runs the command in it with our input, output and signals, and
removes the sandbox. Without flags that is a kernel sandbox on this machine: the
command reads what it could read anyway but for credentials, writes nothing but the
current directory and temporary files, and has no network.

With --key the sandbox is kept, and used again if it exists.

Everything from the first word that is no flag belongs to the command. It is no
shell's line: write sh -c '...' for one. Three interrupts within two seconds kill it.`,
		Example: `  berth run -- npm test
  berth run --network open --writable ~/.cache/go-build -- go test ./...
  berth run --backend docker --image python:3.14-slim -- python -c 'print(1)'
  berth run --timeout 0 -- npm run dev
  git ls-files | berth run -- wc -l
  berth run --json -- make | jq .exit_code`,
		Args:        needCommand,
		Annotations: map[string]string{passThroughKey: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd, &place, &command, args)
		},
	}
	cmd.Flags().SetInterspersed(false)
	place.add(cmd.Flags())
	command.add(cmd.Flags())
	a.addCompletions(cmd)
	return cmd
}

func (a *app) run(cmd *cobra.Command, place *placeFlags, flags *commandFlags, args []string) (err error) {
	c, err := flags.command(a.config, args)
	if err != nil {
		return err
	}
	d, b, err := a.open()
	if err != nil {
		return err
	}
	s, err := place.spec(a.config, b)
	if err != nil {
		return err
	}
	sb, err := a.provision(cmd.Context(), d, s, place.replace)
	if err != nil {
		return err
	}
	defer func() {
		end := sb.Destroy
		if s.Key != "" {
			end = sb.Detach
		}
		if failed := cleanup(cmd.Context(), end); failed != nil {
			a.note("run: the sandbox was not tidied up, its guest will end it: %v", failed)
		}
	}()
	return a.execute(cmd, sb, c, flags.noStdin)
}
