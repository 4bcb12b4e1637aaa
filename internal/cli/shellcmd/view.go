package shellcmd

import (
	"context"
	"errors"
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

	scanner scanner
	parser  vt.Parser // of what was shown
	mute    vt.Mute
	live    bool
	column  bool // the last byte that was shown did not end a line
}

// clear empties the screen, so that what is shown again is all that there is.
const clear = "\x1b[H\x1b[2J"

// maxTyped bounds what was typed and waits for a program that reads nothing.
const maxTyped = 1 << 20

// show joins the two until the terminal has ended, or the detach keys were typed. It leaves
// ours as it was.
func (v *view) show(ctx context.Context) (detached bool, err error) {
	saved, err := term.MakeRaw(int(v.in.Fd()))
	if err != nil {
		return false, err
	}
	restore := sync.OnceFunc(func() {
		_, _ = v.out.Write(v.parser.Modes.Undo())
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
	k := &keyboard{view: v, leave: cancel, typed: make(chan []byte, 1)}
	go k.read(restore)
	go k.send(ctx)
	go v.resize(ctx)
	for {
		e, err := v.terminal.Next(ctx)
		switch {
		case err == io.EOF:
			return false, nil
		case k.left():
			return true, nil
		case err != nil:
			return false, err
		}
		if err := v.draw(ctx, e); err != nil {
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

// keyboard is what is typed on our terminal.
type keyboard struct {
	view  *view
	leave func()
	typed chan []byte // holds all that has not been sent

	mu       sync.Mutex
	detached bool
}

func (k *keyboard) left() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.detached
}

// read takes what is typed, also while nothing can be sent: the detach keys are always
// heard. It goes on until this program ends, for want of a way to end a read.
func (k *keyboard) read(restore func()) {
	defer func() {
		if p := recover(); p != nil {
			restore()
			panic(p)
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := k.view.in.Read(buf)
		typed, detach := k.view.scanner.scan(buf[:n])
		k.queue(typed)
		if detach || err != nil && !errors.Is(err, io.EOF) || n == 0 && err != nil {
			k.mu.Lock()
			k.detached = true
			k.mu.Unlock()
			k.leave()
			return
		}
	}
}

// queue keeps what is typed until it is sent. What is too much is dropped.
func (k *keyboard) queue(p []byte) {
	if len(p) == 0 {
		return
	}
	var waiting []byte
	select {
	case waiting = <-k.typed:
	default:
	}
	if len(waiting)+len(p) <= maxTyped {
		waiting = append(waiting, p...)
	}
	k.typed <- waiting // there is room: nobody else puts anything in
}

// send types what was typed.
func (k *keyboard) send(ctx context.Context) {
	for {
		select {
		case p := <-k.typed:
			_ = k.view.terminal.WriteContext(ctx, p) // that the place is lost is Next's to say
		case <-ctx.Done():
			return
		}
	}
}
