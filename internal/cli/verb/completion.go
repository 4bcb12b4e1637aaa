package verb

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
)

// CompletionTime is what a person waits for a completion.
const CompletionTime = 3 * time.Second

// Inside offers what offers finds in the running sandbox with a key, in the time that a
// completion has. Where it finds nothing, for whatever reason, nothing is offered.
func (e *Env) Inside(cmd *cobra.Command, key string, offers func(context.Context, *berth.Sandbox) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if e.Prepare(cmd) != nil || key == "" {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTime)
	defer cancel()
	sb, _, err := e.Attach(ctx, key)
	if err != nil {
		return nil, directive
	}
	defer Detach(ctx, sb)
	words, err := offers(ctx, sb)
	if err != nil {
		return nil, directive
	}
	return words, directive
}

// AddCompletions offers values for the flags of a verb that has them.
func (e *Env) AddCompletions(cmd *cobra.Command) {
	fixed := func(values ...string) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return values, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"backend":      e.completeBackends,
		"key":          e.completeKeys,
		"isolation":    fixed("none", "guard", "jail", "standard", "strict"),
		"network":      fixed("none", "limited", "open"),
		"network-mode": fixed("host\tthe engine's machine's own", "container:\tthat of a container"),
		"runtime":      fixed("runc", "crun", "runsc"),
		"publish":      fixed("8080\ta free port of the machine", "8080:8080", "127.0.0.1:8080:8080"),
		"gpus":         fixed("all", "1"),
		"type":         fixed("f\tfiles", "d\tdirectories", "l\tlinks", "o\tFIFOs, devices, sockets"),
	} {
		if cmd.Flags().Lookup(flag) == nil {
			continue
		}
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic("verb: " + err.Error())
		}
	}
}

func (e *Env) completeBackends(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	if e.Prepare(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return e.Registry.Names(), cobra.ShellCompDirectiveNoFileComp
}

// completeKeys offers the keys of what there is.
func (e *Env) completeKeys(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	if e.Prepare(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return e.Keys(cmd.Context(), ""), cobra.ShellCompDirectiveNoFileComp
}

// Keys returns the keys of what there is, each with suffix and a description, as a
// completion has them.
func (e *Env) Keys(ctx context.Context, suffix string) []string {
	var keys []string
	for _, o := range e.Owned(ctx, nil) {
		keys = append(keys, string(o.Key)+suffix+"\t"+o.Backend+" "+string(o.State))
	}
	return keys
}
