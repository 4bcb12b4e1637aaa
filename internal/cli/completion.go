package cli

import (
	"io"

	"github.com/spf13/cobra"
)

func newCompletion(a *app) *cobra.Command {
	scripts := map[string]func(root *cobra.Command, w io.Writer) error{
		"bash":       func(r *cobra.Command, w io.Writer) error { return r.GenBashCompletionV2(w, true) },
		"zsh":        func(r *cobra.Command, w io.Writer) error { return r.GenZshCompletion(w) },
		"fish":       func(r *cobra.Command, w io.Writer) error { return r.GenFishCompletion(w, true) },
		"powershell": func(r *cobra.Command, w io.Writer) error { return r.GenPowerShellCompletionWithDesc(w) },
	}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes berth's command lines",
		Long:  `Completion prints a script for a shell. It completes verbs, flags, backends and keys.`,
		Example: `  source <(berth completion bash)
  berth completion zsh > "${fpath[1]}/_berth"
  berth completion fish > ~/.config/fish/completions/berth.fish`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || scripts[args[0]] == nil {
				return usageError("want one of bash, zsh, fish and powershell")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return scripts[args[0]](cmd.Root(), a.stdout)
		},
	}
}

// addCompletions offers values for the flags of a verb that has them.
func (a *app) addCompletions(cmd *cobra.Command) {
	fixed := func(values ...string) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return values, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"backend":   a.completeBackends,
		"key":       a.completeKeys,
		"isolation": fixed("none", "guard", "jail", "standard", "strict"),
		"network":   fixed("none", "limited", "open"),
	} {
		if cmd.Flags().Lookup(flag) == nil {
			continue
		}
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic("cli: " + err.Error())
		}
	}
}

func (a *app) completeBackends(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	if a.prepare(cmd, nil) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.registry.Names(), cobra.ShellCompDirectiveNoFileComp
}
