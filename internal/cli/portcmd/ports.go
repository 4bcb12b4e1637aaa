// Package portcmd holds the verbs of berth for what listens inside a sandbox: dial, forward
// and ports.
package portcmd

import (
	"context"
	"errors"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// NewPorts returns the verb ports.
func NewPorts(env *verb.Env) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "ports --key KEY [FLAG]...",
		Short: "List what listens in a sandbox",
		Long: `Ports lists the TCP ports and unix sockets on which something in the sandbox listens, and
the process that holds each; "berth" is what forward --reverse offers. In a sandbox that
shares the network of its machine these are those of its own processes. Ports that are
published follow, with the address on the engine's machine, whether something listens or not.`,
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
	published, err := sb.PublishedPorts(ctx)
	if err != nil && !errors.Is(err, spec.ErrUnsupported) {
		return err
	}
	for _, p := range published {
		row := publishedRow{Network: string(p.Protocol), Address: ":" + strconv.Itoa(p.Container), Published: net.JoinHostPort(p.Address, strconv.Itoa(p.Host))}
		if env.JSON {
			if err := env.Print(row); err != nil {
				return err
			}
		}
		rows = append(rows, []string{row.Network, row.Address, "-", "published at " + row.Published})
	}
	switch {
	case env.JSON:
		return nil
	case len(rows) == 1:
		env.Note("nothing listens")
		return nil
	}
	return env.Table(rows)
}

// publishedRow is a port that is published, as --json prints it.
type publishedRow struct {
	Network   string `json:"network"`
	Address   string `json:"address"`
	Published string `json:"published"`
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
