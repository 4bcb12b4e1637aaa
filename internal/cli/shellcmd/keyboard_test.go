package shellcmd

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"
)

// board is a keyboard, what is typed on it, and the end of its view.
type board struct {
	*keyboard
	keys *io.PipeWriter
	ctx  context.Context
}

func newBoard(t *testing.T, write func(context.Context, []byte) error) *board {
	in, keys := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	b := &board{keyboard: newKeyboard(in, []byte("\x10\x11"), write, cancel), keys: keys, ctx: ctx}
	done := make(chan struct{})
	go func() { defer close(done); b.read(func() {}) }()
	go b.send(ctx)
	t.Cleanup(func() {
		_ = keys.Close()
		<-done
		cancel()
		<-b.sent
	})
	return b
}

// typeKeys types parts, each with a write of its own.
func (b *board) typeKeys(t *testing.T, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if _, err := io.WriteString(b.keys, part); err != nil {
			t.Fatal(err)
		}
	}
}

// What is typed before the detach keys is typed, in one go with them or not, and a view that
// has nothing to wait for does not wait.
func TestDetachSendsWhatWasTyped(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 100<<10))
	for _, parts := range [][]string{
		{"echo important\r\x10\x11"},
		{"echo important\r", "\x10\x11"},
		{"echo ", "important\r\x10", "\x11"},
		{long, long, "\x10\x11"},
		{"\x10\x11"},
	} {
		var got bytes.Buffer
		b := newBoard(t, func(_ context.Context, p []byte) error {
			time.Sleep(time.Millisecond) // so that what follows is there before it is asked for
			got.Write(p)
			return nil
		})
		begun := time.Now()
		b.typeKeys(t, parts...)
		<-b.ctx.Done()
		lost := b.unsent()
		want := ""
		for _, part := range parts {
			want += part
		}
		if want = want[:len(want)-2]; got.String() != want || lost != 0 || !b.left() {
			t.Errorf("%.40q: %d bytes were typed of %d, %d lost", parts, got.Len(), len(want), lost)
		}
		if took := time.Since(begun); took >= detachTime {
			t.Errorf("%.40q: it took %v", parts, took)
		}
	}
}

// A program that takes nothing does not hold the view: the second press of the detach keys
// ends it at once, else a moment does, and what was not taken is told.
func TestDetachFromWhatReadsNothing(t *testing.T) {
	for _, again := range []bool{true, false} {
		asked := make(chan struct{}, 1)
		b := newBoard(t, func(ctx context.Context, _ []byte) error {
			asked <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		b.typeKeys(t, "first")
		<-asked
		b.typeKeys(t, "second\x10\x11")
		begun := time.Now()
		if b.ctx.Err() != nil {
			t.Error("it has not waited for what was typed")
		}
		if again {
			b.typeKeys(t, "not typed\x10", "\x11")
		}
		<-b.ctx.Done()
		if lost := b.unsent(); lost != len("firstsecond") || !b.left() {
			t.Errorf("again %v: %d bytes are told to be lost", again, lost)
		}
		if took := time.Since(begun); again != (took < detachTime) {
			t.Errorf("again %v: it took %v", again, took)
		}
	}
}

// What is typed when the view ends otherwise, and what is too much to be kept, is counted.
func TestUnsent(t *testing.T) {
	asked := make(chan struct{}, 1)
	b := newBoard(t, func(ctx context.Context, _ []byte) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	b.typeKeys(t, "a")
	<-asked
	part := string(bytes.Repeat([]byte("x"), 32<<10))
	for range maxTyped/len(part) + 1 {
		b.typeKeys(t, part)
	}
	b.typeKeys(t, "\x10") // the part before it has been kept, or dropped, by now
	b.leave()
	if lost, want := b.unsent(), 1+maxTyped+len(part); lost != want || b.left() {
		t.Errorf("%d bytes are told to be lost, want %d", lost, want)
	}
}
