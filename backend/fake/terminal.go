package fake

import (
	"context"
	"time"

	"github.com/berth-dev/berth/backend/fake/internal/terminal"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

var _ driver.Terminaler = (*session)(nil)

var errSessionClosed = spec.New(spec.CodeInvalid, "the session is closed")

// OpenTerminal implements driver.Terminaler.
func (s *session) OpenTerminal(ctx context.Context, o spec.TerminalOptions) (driver.Terminal, error) {
	o = o.Clone()
	return s.view(ctx, Request{Op: OpTerminalOpen, Args: o.Args}, func() (v *terminal.View, err error) {
		if err := o.Validate(); err != nil {
			return nil, err
		}
		err = s.p.terminals.Open(o, func(t *terminal.Terminal) error {
			v = s.look(t) // before there is output to be seen
			return s.p.startTerminal(o, t, s.client)
		})
		return v, err
	})
}

// AttachTerminal implements driver.Terminaler.
func (s *session) AttachTerminal(ctx context.Context, id string) (driver.Terminal, error) {
	return s.view(ctx, Request{Op: OpTerminalAttach}, func() (*terminal.View, error) {
		t, err := s.p.terminals.Find(id)
		if err != nil {
			return nil, err
		}
		return s.look(t), nil
	})
}

// view begins a view, of which nothing is left if it cannot be had.
func (s *session) view(ctx context.Context, r Request, begin func() (*terminal.View, error)) (driver.Terminal, error) {
	var v *terminal.View
	err := s.do(ctx, r, func() (err error) {
		v, err = begin()
		return err
	})
	s.mu.Lock()
	late := s.closed
	s.mu.Unlock()
	if v != nil && (err != nil || late) {
		v.Detach()
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// look adds a view of the session's to a terminal.
func (s *session) look(t *terminal.Terminal) *terminal.View {
	return t.Attach(s, func(ctx context.Context, op string, do func() error) error { return s.do(ctx, Request{Op: Op(op)}, do) })
}

// startTerminal starts the program of a terminal, which belongs to no client.
func (p *place) startTerminal(o spec.TerminalOptions, t *terminal.Terminal, client string) error {
	c, name := terminal.Command(o)
	if err := check(c); err != nil {
		return err
	}
	cmd := newCommand(p, c)
	cmd.terminal, cmd.tty, cmd.tee, cmd.name, cmd.unset, cmd.client = t, t.TTY, t.Write, name, o.UnsetEnv, client
	if err := cmd.start(false, [2]bool{true, false}); err != nil {
		return err
	}
	cmd.out[0].Untaken()
	return nil
}

// hangUp tells the processes of a command on a terminal that this ends: a shell for people
// heeds no TERM.
func (c *command) hangUp() {
	if c.tty != nil {
		c.proc.Tree().Signal(int(spec.SIGHUP))
	}
}

// endTerminal tells the command's terminal, if it has one, that it has ended.
func (c *command) endTerminal() {
	switch {
	case c.terminal != nil:
		c.terminal.Ended(c.exit, c.lost)
	case c.tty != nil:
		c.tty.HangUp()
	}
}

// Terminals implements driver.Terminaler.
func (s *session) Terminals(ctx context.Context) ([]spec.Terminal, error) {
	return ask(ctx, s, Request{Op: OpTerminalList}, func() ([]spec.Terminal, error) { return s.p.terminals.List(), nil })
}

// KillTerminal implements driver.Terminaler.
func (s *session) KillTerminal(ctx context.Context, id string, grace time.Duration) (spec.Terminal, error) {
	grace, err := killGrace(grace)
	if err != nil {
		return spec.Terminal{}, err
	}
	return ask(ctx, s, Request{Op: OpTerminalKill}, func() (spec.Terminal, error) { return s.p.terminals.Kill(ctx, id, grace) })
}
