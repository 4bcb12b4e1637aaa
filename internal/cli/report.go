package cli

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// failure is an error as JSON has it.
type failure struct {
	Code      spec.Code `json:"code"`
	Message   string    `json:"message"`
	Hint      string    `json:"hint,omitempty"`
	Retryable bool      `json:"retryable"`
}

// finish reports err and returns the exit status of the verb that returned it.
func (a *app) finish(cmd *cobra.Command, err error) int {
	var s verb.Status
	var many verb.Errors
	if errors.As(err, &many) {
		for _, e := range many[:len(many)-1] {
			a.finish(cmd, e)
		}
		err = many[len(many)-1]
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, &s):
		return int(s)
	case errors.Is(err, syscall.EPIPE):
		// Whoever read our output has enough of it.
		return 128 + int(syscall.SIGPIPE)
	}
	code, message, hint := describe(cmd, err)
	if a.JSON {
		a.Print(map[string]failure{"error": {Code: code, Message: message, Hint: hint, Retryable: code.Info().Retryable}})
	} else {
		a.Complain(strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "berth"), " "), message, hint)
	}
	return exitStatus(cmd, code, err)
}

// describe splits an error into what a person, or a program, wants to know.
func describe(cmd *cobra.Command, err error) (code spec.Code, message, hint string) {
	help := cmd.CommandPath() + " --help"
	var m *verb.Misuse
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
	if e, ok := errors.AsType[*spec.Error](err); hint == "" && !(ok && e.Op == "config") {
		hint = help // which says nothing of a file that is wrong
	}
	return code, err.Error(), hint
}

// usualHints are for errors that bring no advice of their own.
var usualHints = map[spec.Code]string{
	spec.CodeNotFound:       "`berth ls` lists the sandboxes; `berth up --key KEY` makes one, or starts one that is stopped",
	spec.CodeFileNotFound:   "`berth files ls KEY:DIR` lists what is there",
	spec.CodeExists:         "choose another --key",
	spec.CodeUnavailable:    "`berth doctor` says what is missing",
	spec.CodeUnsupported:    "`berth info --backend NAME` says what can be had where",
	spec.CodeSpecMismatch:   "--replace removes the sandbox and makes a new one",
	spec.CodeUnknownOutcome: "the command may have run: look before you run it again",
	spec.CodeStaleOwner:     "another owner has taken over; leave the sandbox to it",
	spec.CodeInternal:       "this is a defect: please report it",
}

// exitStatus derives the exit status from the code table.
func exitStatus(cmd *cobra.Command, code spec.Code, err error) int {
	var i *interrupted
	switch {
	case errors.As(err, &i):
		return 128 + int(i.signal)
	case !passesThrough(cmd):
		return code.Info().ExitCode
	case code != spec.CodeStartFailed:
		return verb.StatusFailed
	case errors.Is(err, fs.ErrNotExist):
		return verb.StatusNotFound
	default:
		return verb.StatusNotExecutable
	}
}
