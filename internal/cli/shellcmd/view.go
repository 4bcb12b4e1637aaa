package shellcmd

import (
	"context"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/vt"
)

// view is our terminal, joined to one of a sandbox.
type view struct {
	in, out  *os.File
	terminal *berth.Terminal
	attached bool               // it was there before: what is kept of it is shown first
	asked    berth.TerminalSize // that it was opened with

	keys   []byte    // that leave the other one running
	parser vt.Parser // of what was shown
	mute   vt.Mute
	live   bool
	column bool // the last byte that was shown did not end a line
	unsent int  // bytes that were typed before the detach keys and not taken
}

// clear empties the screen, so that what is shown again is all that there is.
const clear = "\x1b[H\x1b[2J"

// show joins the two until the terminal has ended, or the detach keys were typed. It leaves
// ours as it was.
func (v *view) show(ctx context.Context) (detached bool, err error) {
	saved, err := term.MakeRaw(int(v.in.Fd()))
	if err != nil {
		return false, err
	}
	restore := sync.OnceFunc(func() {
		_, _ = v.out.Write(v.parser.Undo())
		_ = term.Restore(int(v.in.Fd()), saved)
		if v.column {
			_, _ = io.WriteString(v.out, "\n")
		}
	})
	defer restore() // also when we panic, or are told to end
	if v.attached {
		_, _ = io.WriteString(v.out, clear)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := newKeyboard(v.in, v.keys, v.terminal.WriteContext, cancel)
	go k.read(restore)
	go k.send(ctx)
	go v.resize(ctx)
	for {
		e, err := v.terminal.Next(ctx)
		if err == nil {
			err = v.draw(ctx, e)
		}
		switch {
		case err == io.EOF:
			return false, nil
		case err != nil && ctx.Err() != nil && k.left():
			v.unsent = k.unsent()
			return true, nil
		case err != nil:
			return false, err
		}
	}
}

// draw shows what there is to show of an event.
func (v *view) draw(ctx context.Context, e berth.TerminalEvent) error {
	data := e.Data
	switch {
	case e.Live:
		v.live = true
		data = v.mute.Rest()
		if v.attached { // the program draws anew, at our size
			if err := v.terminal.Resize(ctx, v.size()); err != nil {
				return err
			}
		}
	case !v.live:
		data = v.mute.Filter(nil, data)
	default:
		data = v.mute.Skip(data)
	}
	if len(data) == 0 {
		return nil
	}
	v.parser.Feed(data)
	v.column = data[len(data)-1] != '\n'
	_, err := v.out.Write(data)
	return err
}

// resize gives the terminal the size of ours, whenever that changes.
func (v *view) resize(ctx context.Context) {
	changed, stop := sizes()
	defer stop()
	for size := v.asked; ; {
		if now := v.size(); now != size {
			size = now
			_ = v.terminal.Resize(ctx, now) // that the place is lost is Next's to say
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
