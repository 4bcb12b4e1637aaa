package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// The annotations that hold parts of a help text: the last one, and one that stands
// before the flags.
const (
	exitStatusKey = "exit-status"
	notesKey      = "notes"
)

const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}USAGE
  {{if and .Runnable (not .HasAvailableSubCommands)}}{{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}{{if not .HasParent}}{{.UseLine}}
  {{end}}{{.CommandPath}} COMMAND ...

COMMANDS{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasHelpSubCommands}}

TOPICS{{range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
{{if .HasExample}}
EXAMPLES
{{.Example}}
{{end}}{{with index .Annotations "` + notesKey + `"}}
{{.}}
{{end}}{{if .HasAvailableLocalFlags}}
FLAGS
{{.LocalFlags.FlagUsagesWrapped 100 | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableInheritedFlags}}
FLAGS OF EVERY COMMAND
{{.InheritedFlags.FlagUsagesWrapped 100 | trimTrailingWhitespaces}}
{{end}}
EXIT STATUS
{{index .Annotations "` + exitStatusKey + `"}}
`

// newHelp shows the help of a command or a topic. There is no help on what there is not.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND | TOPIC]",
		Short: "Show help on a command or a topic",
		Long:  `Help shows what "berth COMMAND --help" shows, or a topic.`,
		Example: `  berth help run
  berth help exit-codes`,
		Annotations: map[string]string{verb.Tolerant: "yes"},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if at, _, err := cmd.Root().Find(args); err == nil {
				for _, sub := range at.Commands() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return verb.Usage("%w", err)
			}
			if len(rest) > 0 {
				return verb.Unknown(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// newExitCodes is the topic of the exit statuses.
func newExitCodes() *cobra.Command {
	rows := []string{"  0    done", fmt.Sprintf("  %-4d the answer is no", verb.StatusNo)}
	for _, row := range spec.Codes() {
		rows = append(rows, fmt.Sprintf("  %-4d %s (%s)", row.ExitCode, row.Text, row.Code))
	}
	rows = append(rows, "  128+N berth was interrupted by signal N")
	topic := &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit statuses mean",
		Long: `The exit status of a command line that runs no command of yours, and in brackets the
code of the error as --json has it:

` + strings.Join(rows, "\n") + `

"berth run", "berth exec", "berth shell" and "berth jobs wait" end with the command's own
status, 128+N after its death by signal N, and otherwise with

` + passThroughStatus + `

With --json, exit_code and signal are those of the command's own process: after a timeout
143 or 137, and timed_out is true. kill says how sure its end is, where berth ended it:
terminated (nothing is left of it), already_exited, or unknown.`,
	}
	topic.SetHelpTemplate("{{.Long}}\n")
	return topic
}

// passThroughStatus are the statuses that are not the command's own.
const passThroughStatus = `  124  it timed out
  125  berth itself failed, or the command line is wrong
  126  the program exists and cannot be executed
  127  there is no such program`

func passesThrough(cmd *cobra.Command) bool {
	return cmd != nil && cmd.Annotations[verb.PassThrough] != ""
}

// exitStatusText says what a verb's exit status means. It is derived from the code
// table.
func exitStatusText(cmd *cobra.Command) string {
	if passesThrough(cmd) {
		return "  the command's own; 128+N after its death by signal N\n" + passThroughStatus
	}
	return fmt.Sprintf(`  0 done; %d the answer is no; 2 the command line is wrong; others say what failed:
  see "berth help exit-codes"`, verb.StatusNo)
}

// wrap joins entries into lines of at most width bytes.
func wrap(entries []string, separator, indent string, width int) string {
	var b strings.Builder
	line := indent
	for i, entry := range entries {
		if i < len(entries)-1 {
			entry += separator
		}
		if len(line)+len(entry) > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += entry
	}
	return b.String() + line
}
