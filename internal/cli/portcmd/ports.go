// Package portcmd holds the verbs of berth for what listens inside a sandbox: dial, forward
// and ports.
package portcmd

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
)

// NewPorts returns the verb ports.
func NewPorts(env *verb.Env) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "ports --key KEY [FLAG]...",
		Short: "List what listens in a sandbox",
		Long: `Ports lists the TCP ports and unix sockets on which something in the sandbox listens, and
the process that holds each; "berth" is what forward --reverse offers. In a sandbox that
shares the network of its machine these are those of its own processes.`,
		Example: `  berth ports --key session-1
  berth ports --key session-1 --json | jq -r .address`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd, env, key) },
	}
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	env.AddCompletions(cmd)
	return cmd
}

func list(cmd *cobra.Command, env *verb.Env, key string) error {
	ctx := cmd.Context()
	sb, _, err := env.Attach(ctx, key)
	if err != nil {
		return err
	}
	defer verb.Detach(ctx, sb)
	ports, err := sb.Ports(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"NETWORK", "ADDRESS", "PID", "PROGRAM"}}
	for _, p := range ports {
		if env.JSON {
			if err := env.Print(p); err != nil {
				return err
			}
		}
		pid := ""
		if p.PID > 0 {
			pid = strconv.Itoa(p.PID)
		}
		rows = append(rows, []string{p.Network, p.Address, console.OrDash(pid), console.OrDash(p.Name)})
	}
	switch {
	case env.JSON:
		return nil
	case len(ports) == 0:
		env.Note("nothing listens")
		return nil
	}
	return env.Table(rows)
}

// completePorts offers what listens in the sandbox.
func completePorts(env *verb.Env, key *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return env.Inside(cmd, *key, func(ctx context.Context, sb *berth.Sandbox) ([]string, error) {
			ports, err := sb.Ports(ctx)
			var offers []string
			for _, p := range ports {
				offers = append(offers, offer(p))
			}
			return offers, err
		})
	}
}

// offer is a port as an ADDRESS, and what it is.
func offer(p berth.Port) string {
	return console.Clean(p.Address) + "\t" + console.Clean(p.Name)
}
