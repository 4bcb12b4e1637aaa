package terminal

import (
	"context"
	"io"

	"github.com/berth-dev/berth/internal/vt"
	"github.com/berth-dev/berth/spec"
)

// What a View asks for through its Do.
const (
	OpType   = "terminal_type"
	OpResize = "terminal_resize"
)

// Do is what a request of a viewer passes through.
type Do func(ctx context.Context, op string, do func() error) error

// pieceBytes is how much output is told at a time.
const pieceBytes = 32 << 10

// View is one view of a terminal. It implements driver.Terminal.
type View struct {
	t     *Terminal
	owner any
	do    Do
	life  context.Context // ends when left is set
	end   context.CancelFunc

	// What follows is guarded by the terminal's lock.
	at      int64             // how far the output has been told
	told    spec.TerminalSize // zero: nothing yet
	restore []byte            // what is to be shown first from here on
	live    bool              // it knows that the replay is over
	until   int64             // where the replay ends
	left    error             // why the view has ended before its terminal

	buf []byte // of the present event
}

var errDetached = spec.New(spec.CodeInvalid, "the view of the terminal was ended")

// Attach adds a view of an owner, whose requests pass through do.
func (t *Terminal) Attach(owner any, do Do) *View {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := &View{t: t, owner: owner, do: do, until: t.back.Total()}
	v.life, v.end = context.WithCancel(context.Background())
	var modes vt.Modes
	if v.at, modes = t.back.Replay(); v.at > 0 {
		v.restore = modes.Restore()
	}
	t.views[v] = true
	return v
}

// ID implements driver.Terminal.
func (v *View) ID() string { return v.t.Info().ID }

// Next implements driver.Terminal.
func (v *View) Next(ctx context.Context) (spec.TerminalEvent, error) {
	for {
		e, changed, err := v.next()
		if changed == nil {
			return e, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return spec.TerminalEvent{}, ctx.Err()
		}
	}
}

// next is what there is to tell, or what to wait for.
func (v *View) next() (e spec.TerminalEvent, changed <-chan struct{}, err error) {
	t := v.t
	t.mu.Lock()
	defer t.mu.Unlock()
	size, boundary := t.back.SizeAt(v.at)
	switch {
	case v.left != nil:
		return e, nil, v.left
	case size != v.told:
		v.told = size
		e.Size = size
	case v.at < t.back.First():
		at, modes := t.back.Begin(t.back.First())
		e.Skipped = at - v.at
		v.at, v.restore = at, append(vt.Reset(), modes.Restore()...)
	case len(v.restore) > 0:
		e.Data, v.restore = v.restore, nil
	case !v.live && v.at >= v.until:
		v.live = true
		e.Live = true
	case v.at < t.back.Total():
		e.Data = v.piece(boundary)
	case t.lost != nil:
		return e, nil, t.lost
	case t.ended:
		return e, nil, io.EOF
	default:
		return e, t.changed, nil
	}
	t.notify() // the output may have waited for this one
	return e, nil, nil
}

// piece is the next output, up to where something else is to be told. The caller holds the
// terminal's lock.
func (v *View) piece(boundary int64) []byte {
	most := min(v.t.back.Total()-v.at, pieceBytes)
	if boundary >= 0 {
		most = min(most, boundary-v.at)
	}
	if !v.live {
		most = min(most, v.until-v.at)
	}
	if v.buf == nil {
		v.buf = make([]byte, pieceBytes)
	}
	n := v.t.back.CopyAt(v.buf[:most], v.at)
	v.at += int64(n)
	return v.buf[:n]
}

// Write implements driver.Terminal.
func (v *View) Write(ctx context.Context, p []byte) error {
	if err := v.ended(); err != nil {
		return err
	}
	return v.do(ctx, OpType, func() error {
		life, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(v.life, cancel)()
		select {
		case v.t.typing <- struct{}{}:
			defer func() { <-v.t.typing }()
		case <-life.Done():
			return v.cutOff(ctx)
		}
		if _, err := v.t.TTY.Type(p, life.Done()); err != nil {
			return v.cutOff(ctx)
		}
		return nil
	})
}

// cutOff says why what was typed has not been taken as a whole.
func (v *View) cutOff(ctx context.Context) error {
	if err := v.ended(); err != nil {
		return err
	}
	return ctx.Err()
}

// Resize implements driver.Terminal.
func (v *View) Resize(ctx context.Context, size spec.TerminalSize) error {
	if err := size.Validate(); err != nil {
		return err
	}
	return v.do(ctx, OpResize, func() error {
		v.t.resize(size.WithDefaults())
		return nil
	})
}

// Wait implements driver.Terminal.
func (v *View) Wait(ctx context.Context) (spec.Exit, error) {
	select {
	case <-v.t.done:
	default:
		select {
		case <-v.t.done:
		case <-ctx.Done():
			return spec.Exit{}, ctx.Err()
		}
	}
	if v.t.lost != nil {
		return spec.Exit{}, v.t.lost
	}
	return v.t.Info().Exit, nil
}

// Detach implements driver.Terminal.
func (v *View) Detach() {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	v.leave(errDetached)
}

// leave ends the view. The caller holds the terminal's lock.
func (v *View) leave(why error) {
	if v.left == nil {
		v.left = why
		v.end()
	}
	delete(v.t.views, v)
	v.t.notify()
}

// ended is why the view has ended before its terminal, or nil.
func (v *View) ended() error {
	v.t.mu.Lock()
	defer v.t.mu.Unlock()
	return v.left
}
