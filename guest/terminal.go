package guest

import (
	"context"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest/internal/remoteterm"
	"github.com/berth-dev/berth/spec"
)

var _ driver.Terminaler = (*Session)(nil)

// OpenTerminal implements driver.Terminaler. An answer that is lost is asked for again by
// the request's id; if the place stays out of reach it is CodeUnknownOutcome.
func (s *Session) OpenTerminal(ctx context.Context, o spec.TerminalOptions) (driver.Terminal, error) {
	o = o.Clone()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &spec.Command{Args: o.Args, Dir: o.Dir, Env: o.Env, User: o.User}
	if err := s.canRun(c); err != nil {
		return nil, err
	}
	t, err := s.terminals()
	if err != nil {
		return nil, err
	}
	return t.Open(ctx, execRequest(randomID(), c, driver.Stdio{}), o, randomID())
}

// AttachTerminal implements driver.Terminaler.
func (s *Session) AttachTerminal(ctx context.Context, id string) (driver.Terminal, error) {
	t, err := s.terminals()
	if err != nil {
		return nil, err
	}
	return t.Attach(ctx, id, randomID())
}

// Terminals implements driver.Terminaler.
func (s *Session) Terminals(ctx context.Context) ([]spec.Terminal, error) {
	t, err := s.terminals()
	if err != nil {
		return nil, err
	}
	return t.List(ctx)
}

// KillTerminal implements driver.Terminaler. It goes on over a redial.
func (s *Session) KillTerminal(ctx context.Context, id string, grace time.Duration) (spec.Terminal, error) {
	t, err := s.terminals()
	if err != nil {
		return spec.Terminal{}, err
	}
	return t.Kill(ctx, id, grace)
}

// terminals returns the terminals of the place, if it has some.
func (s *Session) terminals() (*remoteterm.Client, error) {
	if !s.caps.Terminals {
		return nil, spec.New(spec.CodeUnsupported, "the place has no terminals")
	}
	return remoteterm.New(asking{s}, s.alive, s.o.Denied), nil
}
