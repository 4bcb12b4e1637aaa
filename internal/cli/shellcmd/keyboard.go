package shellcmd

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// maxTyped bounds what was typed and waits for a program that reads nothing.
	maxTyped = 1 << 20
	// typedAtOnce is how much is typed in one step: as much may be taken without our
	// knowing it.
	typedAtOnce = 4 << 10
	// detachTime is how long the detach keys wait for what was typed before them.
	detachTime = 2 * time.Second
	// againTime is how long nothing is read after the detach keys: what is typed once the
	// view has ended is not for us, and a read that has begun would take it.
	againTime = detachTime / 4
)

// keyboard is what is typed on our terminal.
type keyboard struct {
	in      io.Reader
	scanner scanner
	write   func(ctx context.Context, p []byte) error // types on the other terminal
	leave   func()                                    // ends the view, and send

	typed  chan []byte   // holds all that has not been sent
	closed chan struct{} // nothing more is typed
	sent   chan struct{} // nothing more is sent

	mu       sync.Mutex
	detached bool
	lost     int // bytes that were typed and not sent
}

func newKeyboard(in io.Reader, keys []byte, write func(context.Context, []byte) error, leave func()) *keyboard {
	return &keyboard{
		in: in, scanner: scanner{keys: keys}, write: write, leave: leave,
		typed: make(chan []byte, 1), closed: make(chan struct{}), sent: make(chan struct{}),
	}
}

// left reports whether the detach keys were typed.
func (k *keyboard) left() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.detached
}

// unsent waits until nothing more is sent, and returns how many bytes were typed and not
// known to be taken.
func (k *keyboard) unsent() int {
	<-k.sent
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost
}

func (k *keyboard) lose(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost += n
}

// read takes what is typed, also while nothing can be sent: the detach keys are always
// heard. What was typed before them is sent first, unless that takes too long or they come
// again. It goes on until this program ends, for want of a way to end a read.
func (k *keyboard) read(restore func()) {
	defer func() {
		if p := recover(); p != nil {
			restore()
			panic(p)
		}
	}()
	buf := make([]byte, 32<<10)
	for leaving := false; ; {
		n, err := k.in.Read(buf)
		typed, detach := k.scanner.scan(buf[:n])
		gone := err != nil && !errors.Is(err, io.EOF) || n == 0 && err != nil
		switch {
		case leaving && detach:
			k.leave()
			return
		case !leaving:
			k.queue(typed)
			if leaving = detach || gone; leaving {
				k.close()
			}
		}
		if gone || leaving && k.idle() {
			return
		}
	}
}

// close says that nothing more is typed.
func (k *keyboard) close() {
	k.scanner.held = nil
	k.mu.Lock()
	k.detached = true
	k.mu.Unlock()
	close(k.closed)
	time.AfterFunc(detachTime, k.leave)
}

// idle waits a while and reports whether nothing more is sent.
func (k *keyboard) idle() bool {
	select {
	case <-k.sent:
		return true
	case <-time.After(againTime):
		return false
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
	} else {
		k.lose(len(p))
	}
	k.typed <- waiting // there is room: nobody else puts anything in
}

// send types what was typed, until the view ends or nothing more will be.
func (k *keyboard) send(ctx context.Context) {
	defer close(k.sent)
	for ctx.Err() == nil {
		select {
		case p := <-k.typed:
			k.pass(ctx, p)
			continue
		case <-ctx.Done():
		case <-k.closed:
		}
		break
	}
	select {
	case p := <-k.typed:
		k.pass(ctx, p)
	default:
	}
	k.leave()
}

// pass types p, as much of it as is taken: that the place is lost is Next's to say.
func (k *keyboard) pass(ctx context.Context, p []byte) {
	for len(p) > 0 {
		n := min(len(p), typedAtOnce)
		if ctx.Err() != nil || k.write(ctx, p[:n]) != nil {
			k.lose(len(p))
			return
		}
		p = p[n:]
	}
}
