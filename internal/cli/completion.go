package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/verb"
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
		Long: `Completion prints a script for a shell. It completes verbs, flags, backends and keys. That
for bash needs the package bash-completion (apt-get install bash-completion), sourced first.`,
		Example: `  source <(berth completion bash)
  berth completion zsh > "${fpath[1]}/_berth"
  berth completion fish > ~/.config/fish/completions/berth.fish`,
		Annotations: map[string]string{verb.Tolerant: "yes"},
		ValidArgs:   []string{"bash", "zsh", "fish", "powershell"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || scripts[args[0]] == nil {
				return verb.Usage("want one of bash, zsh, fish and powershell")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return scripts[args[0]](cmd.Root(), a.Stdout)
		},
	}
}
