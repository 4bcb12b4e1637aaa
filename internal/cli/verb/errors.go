package verb

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/spec"
)

// Status is the error of a verb that has said what there is to say: only the exit
// status is left.
type Status int

func (s Status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// The statuses of the verbs that pass a command's own status through.
const (
	StatusTimedOut      = 124
	StatusFailed        = 125
	StatusNotExecutable = 126
	StatusNotFound      = 127
)

// StatusNo is the status of a verb whose answer is no: conform found a failure, doctor
// that something is missing, grep no line.
const StatusNo = 1

// PassThrough is the annotation of the verbs whose status is that of a command.
const PassThrough = "pass-through"

// Misuse is a command line that makes no sense.
type Misuse struct{ err error }

func (m *Misuse) Error() string { return m.err.Error() }

// Usage returns a Misuse.
func Usage(format string, args ...any) error {
	return &Misuse{fmt.Errorf(format, args...)}
}

// Errors are what failed of a verb that goes on after a failure. Each is reported, and
// the last one decides the exit status.
type Errors []error

func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// orNil is the error that e amounts to.
func (e Errors) orNil() error {
	switch len(e) {
	case 0:
		return nil
	case 1:
		return e[0]
	}
	return e
}

// Each calls f with each argument, also after a failure but not after an interrupt.
func Each(ctx context.Context, args []string, f func(arg string) error) error {
	var failed Errors
	for _, arg := range args {
		if err := f(arg); err != nil {
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed.orNil()
}

// Unknown refuses a word that is no command of cmd, and names those that it is like.
func Unknown(cmd *cobra.Command, word string) error {
	const distance = 2 // letters that are added, left out or mistaken
	cmd.SuggestionsMinimumDistance = distance
	like := ""
	if names := cmd.SuggestionsFor(word); len(names) > 0 {
		like = ": do you mean " + strings.Join(names, " or ") + "?"
	}
	return Usage("there is no command %q%s", strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath()+" "+word, cmd.Root().Name())), like)
}

// Tolerant is the annotation of the verbs that work with settings that are wrong.
const Tolerant = "tolerant"

// NoArguments refuses what a verb does not take.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage("unexpected argument %q", args[0])
	}
	return nil
}

// NeedCommand refuses a command line that does not say what to run.
func NeedCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return Usage("there is no command to run: %s -- COMMAND [ARG]...", cmd.CommandPath())
	}
	return nil
}

// Group makes cmd the head of a group of verbs: by itself it shows its help.
func Group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return Unknown(cmd, args[0])
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// ExplainStart adds what people most often did wrong.
func ExplainStart(err error, c *berth.Command) error {
	code, program := spec.CodeOf(err), c.Args[0]
	badDir := code == spec.CodeInvalidPath && c.Dir != ""
	if !badDir && code != spec.CodeStartFailed || spec.HintOf(err) != "" {
		return err
	}
	e := spec.Wrap(err, "", "", "", "").(*spec.Error)
	if badDir {
		e.Hint = "--cwd names a directory inside the sandbox; a relative one begins in the sandbox's workdir"
		return e
	}
	e.Hint = "the program is looked up inside the sandbox, on the PATH there"
	if strings.ContainsAny(program, " |&;<>$") {
		e.Hint = "for a shell's command line write: sh -c '" + strings.ReplaceAll(program, "'", `'\''`) + "'"
	}
	return e
}
