// Package shellcmd holds the verbs for terminals: berth shell, by which a person works in a
// sandbox, and the group terminals.
package shellcmd

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// shell are the flags of berth shell.
type shell struct {
	env    *verb.Env
	key    string
	attach bool
	keys   string
	vars   []string
	unset  []string
	dir    string
	user   string
}

// NewShell returns the verb shell.
func NewShell(env *verb.Env) *cobra.Command {
	s := &shell{env: env}
	cmd := &cobra.Command{
		Use:   "shell --key KEY [FLAG]... [--] [COMMAND [ARG]... | --attach [ID]]",
		Short: "Work in a sandbox that exists, on a terminal of its own",
		Long: `Shell opens a terminal in a running sandbox and joins ours to it: the login shell of the
sandbox's user, or a command. It ends with the shell's status. It is never a shell of this
machine: a sandbox without terminals refuses it.

The terminal belongs to the sandbox. The detach keys, ctrl-p ctrl-q, or the loss of ours
leave it running; what was typed before them is sent first, for up to 2 s, and the keys once
more do not wait for it. --attach shows it again, the latest one that runs or the one with an id.
Several can look at one and type into it; it has the size of the one that changed last.`,
		Example: `  berth shell --key session-1
  berth shell --key session-1 --cwd src -- vim main.go
  berth shell --key session-1 --attach
  berth shell --key session-1 --attach term-2
  berth terminals ls --key session-1`,
		Annotations: map[string]string{verb.PassThrough: "yes"},
		RunE:        func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	verb.AddKey(flags, &s.key, "`KEY` of the sandbox")
	verb.AddSettings(flags, "backend", "owner")
	flags.BoolVar(&s.attach, "attach", false, "show a terminal that runs, the latest or the one with the id that follows")
	flags.StringVar(&s.keys, "detach-keys", defaultDetachKeys, "`KEYS` that leave the terminal running, with commas between; empty: none do")
	flags.StringArrayVarP(&s.vars, "env", "e", nil, "`NAME=VALUE` for the shell's environment, or NAME to take the value from ours; repeatable")
	flags.StringArrayVar(&s.unset, "unset-env", nil, "`NAME` of the sandbox's environment that the shell does not get; repeatable")
	flags.StringVar(&s.dir, "cwd", "", "`DIR` that the shell starts in, relative to the sandbox's workdir")
	flags.StringVar(&s.user, "user", "", "`USER[:GROUP]` of the sandbox that the shell runs as, numbers or names")
	env.AddCompletions(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
		if !s.attach || len(given) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return (&place{env: env, key: s.key}).complete(cmd, given, word)
	}
	return cmd
}

func (s *shell) run(ctx context.Context, args []string) error {
	keys, err := parseKeys(s.keys)
	if err != nil {
		return err
	}
	given := len(s.vars)+len(s.unset) > 0 || s.dir != "" || s.user != ""
	if s.attach && (len(args) > 1 || given) {
		return verb.Usage("--attach takes the id of a terminal at most: what runs in it runs already")
	}
	in, inOK := s.env.Stdin.(*os.File)
	out, outOK := s.env.Stdout.(*os.File)
	if !inOK || !outOK || !console.Terminal(in) || !console.Terminal(out) {
		return &spec.Error{
			Code: spec.CodeInvalid, Err: fmt.Errorf("our own input and output are no terminal"),
			Hint: "`berth exec` runs a command without one",
		}
	}
	sb, _, err := s.env.Attach(ctx, s.key)
	if err != nil {
		return err
	}
	defer verb.Detach(ctx, sb)
	v := &view{in: in, out: out, keys: keys, attached: s.attach}
	v.asked = v.size()
	if v.terminal, err = s.begin(ctx, sb, v, args); err != nil {
		return err
	}
	defer v.terminal.Detach()
	detached, err := v.show(ctx)
	switch {
	case err != nil:
		return err
	case detached:
		if v.unsent > 0 {
			s.env.Note("shell: %d bytes that were typed before the detach keys were not taken", v.unsent)
		}
		s.env.Note("shell: detached; `berth shell --key %s --attach %s` shows it again", s.key, v.terminal.ID())
		return nil
	}
	exit, err := v.terminal.Wait(ctx)
	if err != nil || exit.Code == 0 {
		return err
	}
	if exit.Kill != spec.KillNone {
		s.env.Note("shell: the terminal was killed")
	}
	return verb.Status(exit.Code)
}

// begin opens a terminal of the size of ours, or finds the one that is meant.
func (s *shell) begin(ctx context.Context, sb *berth.Sandbox, v *view, args []string) (*berth.Terminal, error) {
	if s.attach {
		id := ""
		if len(args) > 0 {
			id = args[0]
		} else if err := latest(ctx, sb, &id); err != nil {
			return nil, err
		}
		t, err := sb.AttachTerminal(ctx, id)
		return t, explain(err)
	}
	env, err := verb.Environment(s.env.Config, s.vars)
	if err != nil {
		return nil, err
	}
	s.env.Conceal(env)
	t, err := sb.OpenTerminal(ctx, berth.TerminalOptions{Size: v.asked, Args: args, Dir: s.dir, Env: env, UnsetEnv: s.unset, User: s.user})
	if err != nil && len(args) > 0 {
		err = verb.ExplainStart(err, &berth.Command{Args: args, Dir: s.dir})
	}
	return t, err
}

// latest finds the youngest terminal that runs.
func latest(ctx context.Context, sb *berth.Sandbox, id *string) error {
	list, err := sb.Terminals(ctx)
	if err != nil {
		return err
	}
	for _, t := range slices.Backward(list) {
		if t.Running() {
			*id = t.ID
			return nil
		}
	}
	return &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("no terminal runs in the sandbox"), Hint: "without --attach a new one is opened"}
}

// size is that of our terminal; zero where it is not known.
func (v *view) size() berth.TerminalSize {
	cols, rows, err := term.GetSize(int(v.out.Fd()))
	size := berth.TerminalSize{Cols: cols, Rows: rows}
	if err != nil || size.Validate() != nil {
		return berth.TerminalSize{}
	}
	return size
}
