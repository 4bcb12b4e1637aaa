//go:build linux

package terminal

import (
	"time"

	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/scrollback"
	"github.com/berth-dev/berth/internal/vt"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// viewer is one who looks at a terminal, known by the name that its host has chosen, on
// whatever connection. Its fields are guarded by the terminal's lock.
type viewer struct {
	name   string
	peer   *stream.Peer // of its latest stream
	stream *wire.Stream // nil: its connection was lost
	lapse  *time.Timer  // runs out when it has not come back

	seen  int64             // how far its host has taken the output
	sent  int64             // how far it was sent
	leapt int64             // where it was sent on to after what was skipped last
	told  spec.TerminalSize // zero: nothing yet on this stream
	live  bool              // it knows that the replay is over
	until int64             // where the replay ends

	typist // what it types
}

func (v *viewer) attached() bool { return v.stream != nil }

// view serves the output to one viewer, until it leaves or all has been told.
func (t *Terminal) view(s *wire.Stream, peer *stream.Peer, r *wire.TerminalRequest, allowed func() error, resume time.Duration) error {
	v, first, err := t.attach(s, peer, r)
	if err != nil {
		return err
	}
	go t.listen(v, s, allowed, resume)
	defer t.detach(v, s, resume)
	for e := first; ; {
		if e != nil {
			err = wire.WriteMessage(s, e)
		} else {
			err = t.send(v, s)
		}
		if err != nil {
			return stream.ErrGone
		}
		var over bool
		if e, over = t.next(v, s); over {
			if t.current(v, s) {
				_ = wire.WriteEnd(s)
			}
			return stream.ErrGone
		}
	}
}

// attach makes s the stream of a viewer, and returns what it is told first.
func (t *Terminal) attach(s *wire.Stream, peer *stream.Peer, r *wire.TerminalRequest) (*viewer, *wire.TerminalEvent, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	total := t.back.Total()
	if !viewerName(r.Viewer) || r.Offset < 0 || r.Offset > total {
		return nil, nil, errRange
	}
	v, known := t.viewers[r.Viewer]
	if !known {
		v = t.expect(r.Viewer)
		v.until = total
	}
	if v.stream != nil {
		stream.Abort(v.stream)
	}
	if v.lapse != nil {
		v.lapse.Stop()
		v.lapse = nil
	}
	v.peer, v.stream = peer, s
	e := &wire.TerminalEvent{At: r.Offset}
	switch {
	case !r.Resume:
		begin := t.back.Replay
		if known { // what it was sent has been lost: from its beginning
			begin = func() (int64, vt.Modes) { return t.back.Begin(v.seen) }
		}
		var modes vt.Modes
		if e.At, modes = begin(); e.At > 0 {
			e.Restore = modes.Restore()
		}
	case r.Offset < t.back.First():
		e = t.skip(r.Offset)
	}
	v.live = v.live || r.Live
	v.seen, v.sent, v.leapt = e.At, e.At, e.At
	size, _ := t.back.SizeAt(e.At)
	e.Size, v.told = &size, size
	t.changed.Broadcast()
	return v, e, nil
}

// expect makes a viewer who is to come. The caller holds the lock.
func (t *Terminal) expect(name string) *viewer {
	v := &viewer{name: name, typist: newTypist(0)}
	t.viewers[name] = v
	return v
}

// skip is what a viewer is told who wanted what is not kept any more. The caller holds the
// lock.
func (t *Terminal) skip(from int64) *wire.TerminalEvent {
	at, modes := t.back.Begin(t.back.First())
	return &wire.TerminalEvent{At: at, Skipped: at - from, Restore: append(vt.Reset(), modes.Restore()...)}
}

// maxAckBytes bounds one acknowledgement.
const maxAckBytes = 1 << 10

// listen hears how far the viewer has got, until its stream ends.
func (t *Terminal) listen(v *viewer, s *wire.Stream, allowed func() error, resume time.Duration) {
	for {
		var ack wire.TerminalAck
		if wire.ReadMessage(s, &ack, maxAckBytes) != nil {
			t.detach(v, s, resume)
			stream.Abort(s)
			return
		}
		if err := allowed(); err != nil {
			_ = wire.WriteMessage(s, &wire.TerminalEvent{Err: wire.FromError(err)})
			t.detach(v, s, 0)
			return
		}
		t.mu.Lock()
		if v.stream == s && ack.Seen > v.seen && ack.Seen <= v.sent {
			v.seen = ack.Seen
			t.changed.Broadcast()
		}
		t.mu.Unlock()
	}
}

// detach takes s from its viewer, unless that has another one by now. A host that ends it
// on a living connection does not come back; one whose connection was lost may.
func (t *Terminal) detach(v *viewer, s *wire.Stream, resume time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.stream != s {
		return
	}
	v.stream = nil
	t.changed.Broadcast()
	if resume == 0 || !v.peer.Lost() {
		t.forget(v)
		return
	}
	t.await(v, resume)
}

// await gives a viewer so long to come, or to come back. The caller holds the lock.
func (t *Terminal) await(v *viewer, within time.Duration) {
	v.lapse = time.AfterFunc(within, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if v.stream == nil {
			t.forget(v)
		}
	})
}

// forget makes a viewer unknown. The caller holds the lock.
func (t *Terminal) forget(v *viewer) {
	if t.viewers[v.name] == v {
		delete(t.viewers, v.name)
	}
	t.changed.Broadcast()
}

// current reports whether s is still the viewer's stream.
func (t *Terminal) current(v *viewer, s *wire.Stream) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return v.stream == s
}

// next waits until there is something to tell: an event, or nil for output. over: there is
// no more, or nobody to tell.
func (t *Terminal) next(v *viewer, s *wire.Stream) (e *wire.TerminalEvent, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		total := t.back.Total()
		if v.stream != s {
			return nil, true
		}
		if v.sent < t.back.First() {
			if v.seen < v.leapt { // of more that is skipped it is told when it has come so far
				t.changed.Wait()
				continue
			}
			e := t.skip(v.sent)
			v.sent, v.leapt = e.At, e.At
			return e, false
		}
		if size, _ := t.back.SizeAt(v.sent); size != v.told {
			v.told = size
			return &wire.TerminalEvent{At: v.sent, Size: &size}, false
		}
		if !v.live && v.sent >= v.until {
			v.live = true
			return &wire.TerminalEvent{At: v.sent, Live: true}, false
		}
		if t.due(v) > v.sent {
			return nil, false
		}
		if t.ended && v.sent == total {
			return nil, true
		}
		t.changed.Wait()
	}
}

// due is up to where the viewer may be sent output before it is told something else or
// has seen more. The caller holds the lock.
func (t *Terminal) due(v *viewer) int64 {
	most := min(t.back.Total(), v.seen+scrollback.WindowBytes)
	if _, next := t.back.SizeAt(v.sent); next >= 0 {
		most = min(most, next)
	}
	if !v.live {
		most = min(most, v.until)
	}
	return most
}

// send sends the output that is due.
func (t *Terminal) send(v *viewer, s *wire.Stream) error {
	buf := t.registry.buffers.Get()
	defer t.registry.buffers.Put(buf)
	t.mu.Lock()
	n := 0
	if most := t.due(v) - v.sent; most > 0 {
		n = t.back.CopyAt(buf[:min(most, int64(len(buf)), int64(v.peer.Chunk))], v.sent)
	}
	v.sent += int64(n)
	t.mu.Unlock()
	if n == 0 { // it has been cut off meanwhile: next says so
		return nil
	}
	_, err := wire.WriteData(s, buf[:n], v.peer.Chunk)
	return err
}
