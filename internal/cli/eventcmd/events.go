// Package eventcmd holds the verbs that say what happens to a sandbox, events, and what was
// done to it, audit.
package eventcmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
)

// NewEvents returns the verb events.
func NewEvents(env *verb.Env) *cobra.Command {
	var key string
	var q berth.EventQuery
	cmd := &cobra.Command{
		Use:   "events --key KEY [FLAG]...",
		Short: "Tell what happens to a sandbox, whoever causes it",
		Long: `Events prints what has happened to a running sandbox since it was started, the oldest
first: clients that came and left, commands and jobs that began and ended, files that
"berth files", "cp" and "write" changed, what was killed and why. The sandbox keeps the last
4,096. With --follow it goes on with what happens, until the sandbox ends; an interrupt ends
the following. Who does not keep up is told how many events were missed.

With --json each event is an object; --after takes the seq of one. Names and arguments that
are not UTF-8 stand in members that end in _b64.

The sandbox tells this itself. "berth audit" shows what berth on this side has recorded.`,
		Example: `  berth events --key session-1
  berth events --key session-1 -f --json | jq 'select(.kind == "command_ended") | .exit.exit_code'
  berth events --key session-1 --after 120`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return events(cmd, env, key, q) },
	}
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "go on with what happens, until the sandbox ends")
	cmd.Flags().Int64Var(&q.After, "after", 0, "begin after the event of that `NUMBER`")
	env.AddCompletions(cmd)
	return cmd
}

func events(cmd *cobra.Command, env *verb.Env, key string, q berth.EventQuery) error {
	if q.After < 0 {
		return verb.Usage("--after %d is negative", q.After)
	}
	ctx := cmd.Context()
	sb, _, err := env.Attach(ctx, key)
	if err != nil {
		return err
	}
	defer verb.Detach(ctx, sb)
	for e, err := range sb.Events(ctx, q) {
		if err != nil {
			if q.Follow && errors.Is(err, context.Canceled) {
				return nil // a person has seen enough
			}
			return err
		}
		if env.JSON {
			err = env.Print(newEventLine(e))
		} else {
			err = env.Say("%s", console.Clean(describe(e)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
