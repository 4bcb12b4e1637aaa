package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/spec"
)

// exitStatusKey is the annotation that holds the last part of a help text;
// passThroughKey marks the verbs whose status is the command's own.
const (
	exitStatusKey  = "exit-status"
	passThroughKey = "pass-through"
)

// The statuses of the verbs that pass a command's own status through.
const (
	statusTimedOut      = 124
	statusFailed        = 125
	statusNotExecutable = 126
	statusNotFound      = 127
)

// statusNo is the status of a verb whose answer is no: conform found a failure,
// doctor that something is missing.
const statusNo = 1

const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}USAGE
  {{if .Runnable}}{{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND ...

COMMANDS{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
{{if .HasExample}}
EXAMPLES
{{.Example}}
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

func passesThrough(cmd *cobra.Command) bool {
	return cmd != nil && cmd.Annotations[passThroughKey] != ""
}

// exitStatusText says what a verb's exit status means. It is derived from the code
// table.
func exitStatusText(cmd *cobra.Command) string {
	if passesThrough(cmd) {
		return `  the command's own; 128+N after its death by signal N
  124  it timed out
  125  berth itself failed, or the command line is wrong
  126  the program exists and cannot be executed
  127  there is no such program`
	}
	entries := []string{"0 done", fmt.Sprintf("%d the answer is no (conform, doctor)", statusNo)}
	for _, row := range spec.Codes() {
		entries = append(entries, fmt.Sprintf("%d %s", row.ExitCode, row.Text))
	}
	entries = append(entries, "128+N berth was interrupted by signal N")
	return wrap(entries, "; ", "  ", 98)
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
