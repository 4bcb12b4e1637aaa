package shellcmd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// NewTerminals returns the group terminals.
func NewTerminals(env *verb.Env) *cobra.Command {
	return verb.Group(&cobra.Command{
		Use:   "terminals COMMAND ...",
		Short: "List and end the terminals of a sandbox",
		Long: `Terminals belong to a sandbox and not to the program that opened them: they go on when
it has ended, and "berth shell --attach" shows them again. Those that have ended stay
listed, up to 64.`,
		Example: `  berth terminals ls --key session-1
  berth terminals kill --key session-1 term-2`,
	}, newLs(env), newKill(env))
}

// place is the flag that says which sandbox is meant.
type place struct {
	env *verb.Env
	key string
}

// add adds the flags, and what is completed, to a verb. ids: its arguments are terminals.
func (p *place) add(cmd *cobra.Command, ids bool) *cobra.Command {
	verb.AddKey(cmd.Flags(), &p.key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	p.env.AddCompletions(cmd)
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if ids {
		cmd.ValidArgsFunction = p.complete
	}
	return cmd
}

// complete offers the ids of terminals that run.
func (p *place) complete(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.env.Inside(cmd, p.key, func(ctx context.Context, sb *berth.Sandbox) ([]string, error) {
		list, err := sb.Terminals(ctx)
		var ids []string
		for _, t := range list {
			if t.Running() {
				ids = append(ids, t.ID+"\t"+console.Clean(t.Name))
			}
		}
		return ids, err
	})
}

func newLs(env *verb.Env) *cobra.Command {
	p := &place{env: env}
	return p.add(&cobra.Command{
		Use:     "ls --key KEY [FLAG]...",
		Aliases: []string{"list"},
		Short:   "List the terminals of a sandbox",
		Long:    `Ls lists the terminals of a sandbox, the oldest first, also those that have ended.`,
		Example: `  berth terminals ls --key session-1
  berth terminals ls --key session-1 --json | jq -r 'select(.state == "running").id'`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd, p) },
	}, false)
}

func list(cmd *cobra.Command, p *place) error {
	sb, _, err := p.env.Attach(cmd.Context(), p.key)
	if err != nil {
		return err
	}
	defer verb.Detach(cmd.Context(), sb)
	found, err := sb.Terminals(cmd.Context())
	if err != nil {
		return err
	}
	rows := [][]string{{"ID", "STATE", "EXIT", "SIZE", "VIEWERS", "STARTED", "OUTPUT", "PROGRAM"}}
	for _, t := range found {
		if p.env.JSON {
			if err := p.env.Print(newLine(t)); err != nil {
				return err
			}
		}
		state, exit := "running", "-"
		if !t.Running() {
			state, exit = "ended", strconv.Itoa(t.Exit.Code)
		}
		rows = append(rows, []string{
			t.ID, state, exit, fmt.Sprintf("%dx%d", t.Size.Cols, t.Size.Rows), strconv.Itoa(t.Viewers),
			t.Started.UTC().Format("2006-01-02T15:04:05Z"), console.Bytes(t.OutputBytes), t.Name,
		})
	}
	switch {
	case p.env.JSON:
		return nil
	case len(rows) == 1:
		p.env.Note("no terminals")
		return nil
	}
	return p.env.Table(rows)
}

// line is a terminal as JSON has it.
type line struct {
	ID          string            `json:"id"`
	Program     string            `json:"program"`
	State       string            `json:"state"`
	PID         int               `json:"pid"`
	Size        spec.TerminalSize `json:"size"`
	Viewers     int               `json:"viewers"`
	Started     time.Time         `json:"started"`
	Ended       *time.Time        `json:"ended,omitempty"`
	Exit        *verb.Ending      `json:"exit,omitempty"`
	OutputBytes int64             `json:"output_bytes"`
}

func newLine(t berth.TerminalInfo) line {
	l := line{
		ID: t.ID, Program: t.Name, State: "running", PID: t.PID, Size: t.Size, Viewers: t.Viewers, Started: t.Started, OutputBytes: t.OutputBytes,
	}
	if !t.Running() {
		exit := verb.NewEnding(t.Exit)
		l.State, l.Ended, l.Exit = "ended", &t.Ended, &exit
	}
	return l
}

func newKill(env *verb.Env) *cobra.Command {
	p := &place{env: env}
	var grace verb.Grace
	cmd := &cobra.Command{
		Use:   "kill --key KEY [FLAG]... ID...",
		Short: "End terminals",
		Long: `Kill ends the whole tree of each terminal, with HUP and TERM and after a grace with
KILL, and returns when it is gone. A terminal that has ended is no error.`,
		Example: `  berth terminals kill --key session-1 term-1
  berth terminals kill --key session-1 --grace 0 term-1 term-2`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return verb.Usage("a terminal is missing: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := grace.Duration()
			if err != nil {
				return err
			}
			return kill(cmd, p, args, o)
		},
	}
	grace.Add(cmd.Flags())
	return p.add(cmd, true)
}

func kill(cmd *cobra.Command, p *place, ids []string, grace time.Duration) error {
	ctx := cmd.Context()
	sb, _, err := p.env.Attach(ctx, p.key)
	if err != nil {
		return err
	}
	defer verb.Detach(ctx, sb)
	return verb.Each(ctx, ids, func(id string) error {
		progress := p.env.Progress("ending " + id)
		info, err := sb.KillTerminal(ctx, id, grace)
		progress.Stop()
		if err != nil {
			return explain(err)
		}
		if p.env.JSON {
			return p.env.Print(newLine(info))
		}
		for _, s := range info.Exit.Survivors {
			p.env.Note("terminals kill: process %d (%s) outlived the end of %s", s.PID, s.Name, id)
		}
		return p.env.Say("%s ended", info.ID)
	})
}

// explain says where to look for what is not there.
func explain(err error) error {
	if spec.CodeOf(err) != spec.CodeNotFound || spec.HintOf(err) != "" {
		return err
	}
	e := spec.Wrap(err, "", "", "", "").(*spec.Error)
	e.Hint = "`berth terminals ls` lists the terminals of a sandbox"
	return e
}
