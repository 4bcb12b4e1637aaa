package eventcmd

import (
	"fmt"
	"iter"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/audit"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// NewAudit returns the verb audit.
func NewAudit(env *verb.Env) *cobra.Command {
	var key string
	var last int
	cmd := &cobra.Command{
		Use:   "audit --key KEY [FLAG]...",
		Short: "Show what was done to a sandbox with berth",
		Long: `Audit prints what berth has recorded on this machine of a sandbox with a key: each command,
job and change of files before it was asked for, and what became of it; the names of
environment variables and never their values. What follows the kind is the same in both
lines of an action. The record is kept when the sandbox is removed, and goes on with the next
one of that key. It is a file of the state directory, audit/BACKEND/OWNER/KEY.jsonl, which
berth only ever appends to.

The values of the variables that --secret or the setting secrets names, ours and those
of --env, are taken out of whatever is recorded; one that is too short for that is refused.
BERTH_AUDIT=false records nothing.`,
		Example: `  berth audit --key session-1
  berth audit --key session-1 -n 20
  berth audit --key session-1 --json | jq 'select(.kind == "command" and .ended) | .exit.code'
  berth exec --key session-1 --secret API_KEY --env API_KEY -- ./deploy`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return show(env, key, last) },
	}
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	cmd.Flags().IntVarP(&last, "lines", "n", 0, "only the last `N` records; 0: all")
	env.AddCompletions(cmd)
	return cmd
}

func show(env *verb.Env, name string, last int) error {
	if last < 0 {
		return verb.Usage("--lines %d is negative", last)
	}
	key, err := verb.KeyOf(name)
	if err != nil {
		return err
	}
	path := find(env, key)
	if path == "" {
		return &spec.Error{
			Code: spec.CodeNotFound, Err: fmt.Errorf("nothing is recorded of a sandbox with the key %q", name),
			Hint: "--backend and --owner say which one is meant; BERTH_AUDIT=false records nothing",
		}
	}
	var broken verb.Errors
	for l, err := range tail(audit.Read(path), last) {
		switch {
		case spec.CodeOf(err) == spec.CodeInvalid: // a line that is none; the others count
			broken = append(broken, err)
			continue
		case err != nil:
			return err
		case env.JSON:
			err = env.Print(l)
		default:
			err = env.Say("%s", console.Clean(describeRecord(l)))
		}
		if err != nil {
			return err
		}
	}
	if len(broken) > 0 {
		return broken
	}
	return nil
}

// find returns the record that is meant: that of the configured backend or, unless
// --backend has said which one, of another.
func find(env *verb.Env, key spec.Key) string {
	names := []string{env.Config.Backend}
	if !env.Config.Given("backend") {
		names = append(names, env.Registry.Names()...)
	}
	for _, backend := range names {
		path := env.AuditFile(backend, key)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return ""
}

// record is what Read yields.
type record struct {
	line audit.Line
	err  error
}

// tail yields the last n of seq; 0: all.
func tail(seq iter.Seq2[audit.Line, error], n int) iter.Seq2[audit.Line, error] {
	if n == 0 {
		return seq
	}
	return func(yield func(audit.Line, error) bool) {
		ring := make([]record, 0, n)
		at := 0 // the oldest
		for l, err := range seq {
			if len(ring) < n {
				ring = append(ring, record{l, err})
				continue
			}
			ring[at] = record{l, err}
			at = (at + 1) % n
		}
		for i := range ring {
			if r := ring[(at+i)%len(ring)]; !yield(r.line, r.err) {
				return
			}
		}
	}
}
