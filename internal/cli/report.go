package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/spec"
)

// status is the error of a verb that has said what there is to say: only the exit
// status is left.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// misuse is a command line that makes no sense.
type misuse struct{ err error }

func (m *misuse) Error() string { return m.err.Error() }

func usageError(format string, args ...any) error {
	return &misuse{fmt.Errorf(format, args...)}
}

// failure is an error as JSON has it.
type failure struct {
	Code      spec.Code `json:"code"`
	Message   string    `json:"message"`
	Hint      string    `json:"hint,omitempty"`
	Retryable bool      `json:"retryable"`
}

// finish reports err and returns the exit status of the verb that returned it.
func (a *app) finish(verb *cobra.Command, err error) int {
	var s status
	switch {
	case err == nil:
		return 0
	case errors.As(err, &s):
		return int(s)
	case errors.Is(err, syscall.EPIPE):
		// Whoever read our output has enough of it.
		return 128 + int(syscall.SIGPIPE)
	}
	code, message, hint := describe(verb, err)
	if a.json {
		a.print(map[string]failure{"error": {Code: code, Message: message, Hint: hint, Retryable: code.Info().Retryable}})
	} else {
		a.complain(verb.Name(), message, hint)
	}
	return exitStatus(verb, code, err)
}

// describe splits an error into what a person, or a program, wants to know.
func describe(verb *cobra.Command, err error) (code spec.Code, message, hint string) {
	help := verb.CommandPath() + " --help"
	var m *misuse
	var i *interrupted
	switch {
	case errors.As(err, &m):
		return spec.CodeInvalid, m.Error(), help
	case errors.As(err, &i):
		return "interrupted", i.Error(), ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "canceled", err.Error(), ""
	}
	code, hint = spec.CodeOf(err), spec.HintOf(err)
	if hint == "" {
		hint = usualHints[code]
	}
	if hint == "" {
		hint = help
	}
	return code, err.Error(), hint
}

// usualHints are for errors that bring no advice of their own.
var usualHints = map[spec.Code]string{
	spec.CodeNotFound:       "`berth ls` lists the sandboxes; `berth up --key KEY` makes one, or starts one that is stopped",
	spec.CodeExists:         "choose another --key",
	spec.CodeUnavailable:    "`berth doctor` says what is missing",
	spec.CodeUnsupported:    "`berth info --backend NAME` says what can be had where",
	spec.CodeSpecMismatch:   "--replace removes the sandbox and makes a new one",
	spec.CodeUnknownOutcome: "the command may have run: look before you run it again",
	spec.CodeStaleOwner:     "another owner has taken over; leave the sandbox to it",
	spec.CodeInternal:       "this is a defect: please report it",
}

// exitStatus derives the exit status from the code table.
func exitStatus(verb *cobra.Command, code spec.Code, err error) int {
	var i *interrupted
	switch {
	case errors.As(err, &i):
		return 128 + int(i.signal)
	case !passesThrough(verb):
		return code.Info().ExitCode
	case code != spec.CodeStartFailed:
		return statusFailed
	case errors.Is(err, fs.ErrNotExist):
		return statusNotFound
	default:
		return statusNotExecutable
	}
}

// complain prints an error for a person: one line, and one with the hint.
func (a *app) complain(verb, message, hint string) {
	prefix, dim, end := "berth: ", "", ""
	if a.colour() {
		prefix, dim, end = "\x1b[1;31mberth:\x1b[0m ", "\x1b[2m", "\x1b[0m"
	}
	if verb != "" && verb != "berth" {
		prefix += verb + ": "
	}
	fmt.Fprintf(a.stderr, "%s%s\n", prefix, clean(message))
	if hint != "" {
		fmt.Fprintf(a.stderr, "%shint: %s%s\n", dim, clean(hint), end)
	}
}

// note prints a remark for a person, unless --quiet or --json.
func (a *app) note(format string, args ...any) {
	if !a.quiet && !a.json {
		fmt.Fprintf(a.stderr, "berth: %s\n", clean(fmt.Sprintf(format, args...)))
	}
}

// detail is a note that only --verbose shows.
func (a *app) detail(format string, args ...any) {
	if a.verbose {
		a.note(format, args...)
	}
}
