//go:build linux

package terminal

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// typist is what is known of the typing of one viewer.
type typist struct {
	turn   chan struct{} // holds one token: taken by the request that is being served
	taken  int64         // how much it has typed in all; guarded by the terminal's lock
	latest *wire.Stream  // of the request that came last; guarded by the terminal's lock
}

func newTypist(taken int64) typist { return typist{turn: make(chan struct{}, 1), taken: taken} }

var (
	errStranger = spec.New(spec.CodeUnknownOutcome, "the viewer has been away for too long: what it has typed is not known any more")
	errCutOff   = errors.New("the typing was cut off")
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// typed serves one request to type: the bytes that follow it, from its offset on, but for
// those that the terminal has already. It answers once all have been taken.
func (t *Terminal) typed(s *wire.Stream, r *wire.TerminalRequest, allowed func() error) error {
	v := t.claim(s, r)
	if v == nil {
		return errStranger
	}
	v.turn <- struct{}{}
	defer func() { <-v.turn }()
	t.mu.Lock()
	at, taken := r.Offset, v.taken
	t.mu.Unlock()
	if at < 0 {
		return stream.Reply(s, &wire.Reply{Offset: taken})
	}
	if at > taken {
		return errStranger
	}
	chunks, stop := make(chan []byte), make(chan struct{})
	defer close(stop)
	failed := make(chan error, 1)
	go t.hear(s, chunks, stop, failed)
	for p := range chunks {
		if err := allowed(); err != nil {
			return err
		}
		skip := min(max(taken-at, 0), int64(len(p)))
		at += int64(len(p))
		if err := t.put(v, s, p[skip:]); err != nil {
			return stream.ErrGone
		}
	}
	if err := <-failed; err != io.EOF {
		return stream.ErrGone
	}
	return stream.Reply(s, &wire.Reply{Offset: at})
}

// claim makes s the latest request of its viewer. One that is still being served is cut
// off: its host asks again.
func (t *Terminal) claim(s *wire.Stream, r *wire.TerminalRequest) *viewer {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.viewers[r.Viewer]
	switch {
	case v == nil && t.ended:
		v = &viewer{typist: newTypist(max(r.Offset, 0))}
	case v == nil:
		return nil
	}
	if old := v.latest; old != nil && old != s {
		old.Interrupt() // it may wait for a host that is dead
	}
	v.latest = s
	t.interrupt()
	return v
}

// interrupt has whoever writes to the master look whether it was cut off. The caller holds
// the lock.
func (t *Terminal) interrupt() {
	if t.master != nil {
		_ = t.master.SetWriteDeadline(past)
	}
}

// hear reads what is typed on s to its end, says with what it ended, and cuts the typing
// off when its host goes away.
func (t *Terminal) hear(s *wire.Stream, chunks chan<- []byte, stop <-chan struct{}, failed chan<- error) {
	data := wire.NewDataReader(s)
	var err error
	for err == nil {
		buf := make([]byte, 4<<10) // what is typed is short, or long for once
		var n int
		if n, err = data.Read(buf); n > 0 {
			select {
			case chunks <- buf[:n]:
			case <-stop:
				return
			}
		}
	}
	failed <- err
	close(chunks)
	if err == io.EOF {
		stream.Discard(s)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.viewers {
		if v.latest == s {
			v.latest = nil
			t.interrupt()
		}
	}
}

// put types p, which the program, or the kernel's queue for it, has to take. What comes
// after the end is dropped.
func (t *Terminal) put(v *viewer, s *wire.Stream, p []byte) error {
	t.typing <- struct{}{}
	defer func() { <-t.typing }()
	for {
		t.mu.Lock()
		master, on := t.master, v.latest == s
		if on && master != nil {
			_ = master.SetWriteDeadline(time.Time{}) // under the lock: interrupt comes after, or is seen
		}
		t.mu.Unlock()
		if !on {
			return errCutOff
		}
		n := len(p)
		var err error
		if master != nil && n > 0 {
			n, err = master.Write(p)
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			n, err = len(p), nil // it was hung up
		}
		t.mu.Lock()
		v.taken += int64(n)
		t.mu.Unlock()
		if p = p[n:]; err == nil {
			return nil
		}
	}
}
