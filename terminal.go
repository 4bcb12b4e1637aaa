package berth

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// OpenTerminal starts a program on a new terminal of the place, by default the login shell
// of its user, and looks at it. The terminal belongs to the place: it runs on when ctx, this
// view or this client ends, and is found again by its id. Where OpenTerminal fails, as ctx has
// ended say, what may have been started is ended soon after, while the place can be reached.
// Where Caps.Terminals is false it is ErrUnsupported, and never a program outside of the place.
func (sb *Sandbox) OpenTerminal(ctx context.Context, o TerminalOptions) (*Terminal, error) {
	o = o.Clone()
	if err := o.Validate(); err != nil {
		return nil, sb.wrap(err, "open terminal", o.Dir)
	}
	record := auditCommand(spec.AuditTerminal, &Command{Args: o.Args, Dir: o.Dir, Env: o.Env, User: o.User})
	return sb.view(ctx, "open terminal", func(t driver.Terminaler) (view driver.Terminal, err error) {
		a, err := sb.announce(ctx, record)
		if err != nil {
			return nil, err
		}
		view, err = t.OpenTerminal(ctx, o)
		a.end(err, func(r *spec.AuditRecord) {
			if err == nil {
				r.ID = view.ID()
			}
		})
		return view, err
	})
}

// AttachTerminal looks at a terminal of the place, with a replay of what is kept of its
// output first. One that has ended is replayed too while it is listed; an unknown one is
// ErrNotFound.
func (sb *Sandbox) AttachTerminal(ctx context.Context, id string) (*Terminal, error) {
	return sb.view(ctx, "attach to terminal", func(t driver.Terminaler) (driver.Terminal, error) { return t.AttachTerminal(ctx, id) })
}

// view begins a view of a terminal.
func (sb *Sandbox) view(ctx context.Context, op string, begin func(driver.Terminaler) (driver.Terminal, error)) (*Terminal, error) {
	terminaler, err := sb.terminaler(ctx)
	if err != nil {
		return nil, sb.wrap(err, op, "")
	}
	view, err := begin(terminaler)
	if err != nil {
		return nil, sb.wrap(err, op, "")
	}
	return &Terminal{sb: sb, view: view}, nil
}

// Terminals lists the terminals of the place, the oldest first: those that run and the
// latest that have ended.
func (sb *Sandbox) Terminals(ctx context.Context) ([]TerminalInfo, error) {
	terminaler, err := sb.terminaler(ctx)
	if err != nil {
		return nil, sb.wrap(err, "list terminals", "")
	}
	list, err := terminaler.Terminals(ctx)
	return list, sb.wrap(err, "list terminals", "")
}

// KillTerminal ends the whole tree of a terminal with HUP and TERM and, after grace (0: 5 s;
// negative: at once), with KILL, and returns its record once it has ended. One that has ended
// is no error.
func (sb *Sandbox) KillTerminal(ctx context.Context, id string, grace time.Duration) (TerminalInfo, error) {
	terminaler, err := sb.terminaler(ctx)
	if err != nil {
		return TerminalInfo{}, sb.wrap(err, "kill terminal", "")
	}
	var info TerminalInfo
	err = sb.audited(ctx, spec.AuditRecord{Kind: spec.AuditTerminalKill, ID: id}, func() error {
		info, err = terminaler.KillTerminal(ctx, id, grace)
		return err
	})
	return info, sb.wrap(err, "kill terminal", "")
}

// terminaler returns the session as one that has terminals.
func (sb *Sandbox) terminaler(ctx context.Context) (driver.Terminaler, error) {
	session, err := sb.session(ctx)
	if err != nil {
		return nil, err
	}
	caps := session.Caps()
	terminaler, ok := session.(driver.Terminaler)
	if ok && caps.Terminals {
		return terminaler, nil
	}
	why := caps.Why("terminals")
	if why == "" {
		why = "the place has none"
	}
	return nil, &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("terminals: " + why)}
}

// Terminal is one view of a terminal in a Sandbox. Next and Read are called from one
// goroutine at a time, and one of them is used; the other methods are safe for concurrent
// use. Whoever opened or attached calls Detach, which does not end the terminal.
type Terminal struct {
	sb   *Sandbox
	view driver.Terminal
	rest []byte // of what Read has been told
}

var _ io.ReadWriter = (*Terminal)(nil)

// ID identifies the terminal in its place, for as long as that lists it.
func (t *Terminal) ID() string { return t.view.ID() }

// Next waits for what there is to show next. After the last byte of a terminal that has
// ended it is io.EOF. A lost connection is dialled again and nothing is told twice; when the
// place stays out of reach it is ErrUnavailable.
//
// A program that writes faster than all of its viewers take it waits for the fastest; a
// viewer who is slower than that by more than the scrollback is told how much was skipped.
func (t *Terminal) Next(ctx context.Context) (TerminalEvent, error) {
	e, err := t.view.Next(ctx)
	return e, t.wrap(err, "watch terminal")
}

// Read reads the output alone, as it would come from a terminal: what is kept first, then
// what is new, and io.EOF at the end. Detach ends a Read that waits.
func (t *Terminal) Read(p []byte) (int, error) {
	for len(t.rest) == 0 && len(p) > 0 {
		e, err := t.Next(context.Background())
		if err != nil {
			return 0, err
		}
		t.rest = e.Data
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// Write types p. It returns once the place has taken it: a program that reads nothing makes
// it wait, until it does or the view is detached.
func (t *Terminal) Write(p []byte) (int, error) {
	if err := t.WriteContext(context.Background(), p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteContext is Write with a bound. When ctx ends a part of p may have been typed. What is
// typed into a terminal that has ended is dropped.
func (t *Terminal) WriteContext(ctx context.Context, p []byte) error {
	return t.wrap(t.view.Write(ctx, p), "type")
}

// Resize sets the size of the terminal for its program and all of its viewers. To set the
// present one has the program draw anew. Of a terminal that has ended it does nothing.
func (t *Terminal) Resize(ctx context.Context, size TerminalSize) error {
	return t.wrap(t.view.Resize(ctx, size), "resize terminal")
}

// Wait returns what became of the program. ctx bounds the waiting only.
func (t *Terminal) Wait(ctx context.Context) (Exit, error) {
	exit, err := t.view.Wait(ctx)
	return exit, t.wrap(err, "wait for terminal")
}

// Detach ends this view; the terminal runs on. It is idempotent.
func (t *Terminal) Detach() { t.view.Detach() }

// wrap says where an error happened; io.EOF is none.
func (t *Terminal) wrap(err error, op string) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return t.sb.wrap(err, op, "")
}
