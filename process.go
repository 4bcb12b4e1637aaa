package berth

import (
	"context"
	"sync"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Process is one command that Start started.
type Process struct {
	sb     *Sandbox
	p      driver.Process
	life   context.Context // Start's, which bounds the command's life
	action *action         // of its start
	told   sync.Once       // the end of it
}

// Start starts a command with its streams given as they are; Cmd and Exec are the
// comfortable ways to do the same. c is copied. ctx bounds the command's life: when
// it ends, the command's whole tree is ended and Wait returns the context's error.
// A program that cannot be started is ErrStartFailed, with fs.ErrNotExist or
// fs.ErrPermission as the cause where that is why.
func (sb *Sandbox) Start(ctx context.Context, c *Command, io Stdio) (*Process, error) {
	return sb.start(ctx, "start", c, io)
}

func (sb *Sandbox) start(ctx context.Context, op string, c *Command, io Stdio) (*Process, error) {
	c = c.Clone()
	if err := c.Validate(); err != nil {
		return nil, sb.wrap(err, op, c.Dir)
	}
	session, err := sb.session(ctx)
	if err != nil {
		return nil, sb.wrap(err, op, "")
	}
	a, err := sb.announce(ctx, auditCommand(spec.AuditCommand, c))
	if err != nil {
		return nil, sb.wrap(err, op, "")
	}
	p, err := session.Start(ctx, c, ownEnds(io))
	if err != nil {
		a.end(err, nil)
		return nil, sb.wrap(err, op, "")
	}
	return &Process{sb: sb, p: p, life: ctx, action: a}, nil
}

// ID identifies the command inside its place.
func (p *Process) ID() string { return p.p.ID() }

// Signal sends a signal to the command's process group. A command that has ended is
// no error.
func (p *Process) Signal(ctx context.Context, s Signal) error {
	return p.sb.wrap(p.p.Signal(ctx, s), "signal", "")
}

// Kill ends the command's whole tree with KILL and returns when that is done.
func (p *Process) Kill(ctx context.Context) error {
	return p.sb.wrap(p.p.Kill(ctx), "kill", "")
}

// Wait returns what became of the command once all of its output is written. ctx
// bounds the waiting only. It may be called again and from several goroutines. What a
// reader or writer of Stdio failed with is returned as it was, beside the Exit.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	exit, own, err := p.wait(ctx)
	if own != nil {
		return exit, own
	}
	return exit, p.sb.wrap(err, "wait", "")
}

// wait is Wait with what the caller's own streams failed with, and, where there is no
// Exit, the bare error.
func (p *Process) wait(ctx context.Context) (exit Exit, own, err error) {
	exit, err = p.p.Wait(ctx)
	own, err = ownFault(err)
	p.ended(ctx, exit, err)
	return exit, own, err
}
