package remoteterm

import (
	"context"
	"errors"
	"io"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// viewer is one view of a terminal.
type viewer struct {
	c    *Client
	id   string
	name string

	life   context.Context // ends with Detach, or with the session
	detach context.CancelFunc

	events chan spec.TerminalEvent
	begun  chan struct{} // closed when the guest serves the view
	over   chan struct{} // closed when nothing more is told; err says why
	err    error

	keyboard
}

var (
	errDetached = spec.New(spec.CodeInvalid, "the view of the terminal was ended")
	errClosed   = spec.New(spec.CodeInvalid, "the session is closed")
)

// attach begins a view, and returns once the guest serves it.
func (c *Client) attach(ctx context.Context, id, name string) (driver.Terminal, error) {
	v := &viewer{
		c: c, id: id, name: name, events: make(chan spec.TerminalEvent), begun: make(chan struct{}), over: make(chan struct{}),
		keyboard: keyboard{turn: make(chan struct{}, 1)},
	}
	v.life, v.detach = context.WithCancel(c.alive)
	go v.watch()
	select {
	case <-v.begun:
		return v, nil
	case <-v.over:
		v.detach()
		return nil, v.err
	case <-v.life.Done():
		return nil, v.ended()
	case <-ctx.Done():
		v.detach()
		return nil, ctx.Err()
	}
}

// watch takes what the guest tells until there is no more.
func (v *viewer) watch() {
	defer close(v.over)
	o := &output{v: v, req: &wire.Request{Op: wire.OpTerminalView, Terminal: &wire.TerminalRequest{ID: v.id, Viewer: v.name}}}
	v.err = v.c.s.Patiently(v.life, o.req, ask.Reads, func(st ask.Stream) (bool, error) {
		defer st.End()
		return o.read(st)
	})
	if v.err == nil {
		v.err = io.EOF
	}
	if v.life.Err() != nil {
		v.err = v.ended()
	}
}

// ended says why the view has ended before its terminal.
func (v *viewer) ended() error {
	if v.c.alive.Err() != nil {
		return errClosed
	}
	return errDetached
}

// output is how far a view has got.
type output struct {
	v    *viewer
	req  *wire.Request
	at   int64 // the offset of the next byte
	seen int64 // what the guest knows of that
	size spec.TerminalSize
	live bool
}

// ackBytes is how much is taken before the guest is told: a small part of what it sends
// ahead.
const ackBytes = 64 << 10

// read serves one stream of the view until it breaks, which is not over, or the terminal
// has ended.
func (o *output) read(st ask.Stream) (over bool, err error) {
	r := o.req.Terminal
	again := r.Resume
	defer func() { r.Offset, r.Live = o.at, o.live }()
	for first := true; ; first = false {
		e, data, err := wire.ReadTerminal(st, nil)
		switch {
		case err == io.EOF && !first:
			return true, nil
		case err == io.EOF || err == nil && first && (e == nil || e.Size == nil):
			return true, ask.Violation("a view without a beginning")
		case err != nil:
			return false, err
		}
		r.Resume = true
		if e != nil {
			if first && !again {
				o.at, o.seen = e.At-e.Skipped, e.At-e.Skipped
				close(o.v.begun)
			}
			err = o.hear(e, first)
		} else {
			o.at += int64(len(data))
			err = o.tell(spec.TerminalEvent{Data: data})
		}
		if err != nil {
			return true, err
		}
		if e != nil && e.Skipped > 0 || o.at-o.seen >= ackBytes {
			if err := st.Send(o.v.life, &wire.TerminalAck{Seen: o.at}); err != nil {
				return spec.CodeOf(err) == spec.CodeStaleOwner, err
			}
			o.seen = o.at
		}
	}
}

// hear takes an event, and tells what is new of it.
func (o *output) hear(e *wire.TerminalEvent, first bool) error {
	if e.At != o.at+e.Skipped || len(e.Restore) > 0 && e.Skipped == 0 && !first || e.Live && o.live {
		return ask.Violation("an event at byte %d where %d was due", e.At, o.at)
	}
	o.at = e.At
	var news []spec.TerminalEvent
	if e.Skipped > 0 {
		news = append(news, spec.TerminalEvent{Skipped: e.Skipped})
	}
	if e.Size != nil && *e.Size != o.size {
		o.size = *e.Size
		news = append(news, spec.TerminalEvent{Size: *e.Size})
	}
	if len(e.Restore) > 0 {
		news = append(news, spec.TerminalEvent{Data: e.Restore})
	}
	if e.Live {
		o.live = true
		news = append(news, spec.TerminalEvent{Live: true})
	}
	for _, n := range news {
		if err := o.tell(n); err != nil {
			return err
		}
	}
	return nil
}

// tell hands one event to Next.
func (o *output) tell(e spec.TerminalEvent) error {
	select {
	case o.v.events <- e:
		return nil
	case <-o.v.life.Done():
		return o.v.life.Err()
	}
}

// ID implements driver.Terminal.
func (v *viewer) ID() string { return v.id }

// Next implements driver.Terminal.
func (v *viewer) Next(ctx context.Context) (spec.TerminalEvent, error) {
	if v.life.Err() != nil {
		return spec.TerminalEvent{}, v.ended()
	}
	select {
	case e := <-v.events:
		return e, nil
	case <-v.over:
		return spec.TerminalEvent{}, v.err
	case <-v.life.Done(): // what watches the view may still be held up
		return spec.TerminalEvent{}, v.ended()
	case <-ctx.Done():
		return spec.TerminalEvent{}, ctx.Err()
	}
}

// Resize implements driver.Terminal.
func (v *viewer) Resize(ctx context.Context, size spec.TerminalSize) error {
	if err := size.Validate(); err != nil {
		return err
	}
	size = size.WithDefaults()
	req := &wire.Request{Op: wire.OpTerminalResize, Terminal: &wire.TerminalRequest{ID: v.id, Size: &size}}
	return v.c.s.Patiently(ctx, req, ask.Reads, func(st ask.Stream) (bool, error) {
		defer st.End()
		_, err := wire.ReadReply(st)
		return answered(err), err
	})
}

// Wait implements driver.Terminal.
func (v *viewer) Wait(ctx context.Context) (spec.Exit, error) {
	t, err := v.c.one(ctx, &wire.Request{Op: wire.OpTerminalWait, Terminal: &wire.TerminalRequest{ID: v.id}}, v.id, true)
	return t.Exit, err
}

// Detach implements driver.Terminal.
func (v *viewer) Detach() { v.detach() }

// answered reports whether an error, or none, is the guest's own answer.
func answered(err error) bool {
	e := (*spec.Error)(nil)
	return err == nil || errors.As(err, &e)
}
