package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// Stream is one stream of a Mux.
type Stream struct {
	*yamux.Stream
	mux         *Mux
	interrupted atomic.Bool
	finished    chan struct{}
	// reading is held by a Read: two at a time lock up in yamux once the connection is
	// lost, since it takes two locks of a stream in either order.
	reading sync.Mutex

	writing    sync.Mutex    // held by a Write, which may wait for room
	urgent     atomic.Bool   // what is small does not wait for it
	closed     atomic.Bool   // on this side
	writeUntil atomic.Int64  // the write deadline in ns since 1970; 0: none
	rearmed    chan struct{} // what a Write waits by has changed
}

// Finished is closed once the peer has closed this stream, which the host has opened;
// there may still be something to read. It is not closed by the loss of the connection.
func (s *Stream) Finished() <-chan struct{} { return s.finished }

// Read reads what has come. An interrupted stream gives nothing, although there may
// be something.
func (s *Stream) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.interrupted.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	return s.Stream.Read(p)
}

const (
	// urgentBytes is the most that is written urgently.
	urgentBytes = 4 << 10
	// pieceBytes is how much of a write goes on without looking for room again.
	pieceBytes = coalesceBytes / 2
)

// Write writes p. The write deadline, Interrupt and Close end it also while the transport
// takes nothing.
func (s *Stream) Write(p []byte) (n int, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for {
		if !s.urgent.Load() || len(p) > urgentBytes {
			if err := s.awaitRoom(); err != nil {
				return n, err
			}
		}
		m, err := s.Stream.Write(p[n:min(len(p), n+pieceBytes)])
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// awaitRoom waits until the transport has taken most of what was written before.
func (s *Stream) awaitRoom() error {
	for {
		room := s.mux.out.full()
		if room == nil {
			return nil
		}
		if s.closed.Load() {
			return yamux.ErrStreamClosed
		}
		var late <-chan time.Time
		if until := s.writeUntil.Load(); until != 0 {
			left := time.Until(time.Unix(0, until))
			if left <= 0 {
				return yamux.ErrTimeout
			}
			late = time.After(left)
		}
		select {
		case <-room:
		case <-s.rearmed:
		case <-late:
		case <-s.mux.Done():
			return yamux.ErrSessionShutdown
		}
	}
}

// wake has a Write that waits look again.
func (s *Stream) wake() {
	select {
	case s.rearmed <- struct{}{}:
	default:
	}
}

// Close closes this side.
func (s *Stream) Close() error {
	s.closed.Store(true)
	s.wake()
	return s.Stream.Close()
}

// SetDeadline sets both deadlines.
func (s *Stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline sets the time at which a Read that waits fails. After Interrupt it is of
// no effect.
func (s *Stream) SetReadDeadline(t time.Time) error {
	_ = s.Stream.SetReadDeadline(t) // it never fails
	if s.interrupted.Load() {       // maybe just now, and then either order ends well
		_ = s.Stream.SetReadDeadline(interruptedAt)
	}
	return nil
}

// SetWriteDeadline sets the time at which a Write that waits fails. After Interrupt it is of
// no effect.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.armWrite(t)
	if s.interrupted.Load() {
		s.armWrite(interruptedAt)
	}
	return nil
}

func (s *Stream) armWrite(t time.Time) {
	until := int64(0)
	if !t.IsZero() {
		until = max(t.UnixNano(), 1)
	}
	s.writeUntil.Store(until)
	_ = s.Stream.SetWriteDeadline(t) // it never fails
	s.wake()
}

// interruptedAt is the deadline of what was interrupted.
var interruptedAt = time.Unix(1, 0)

// Interrupt makes whatever waits on the stream fail, and every Read that follows: also
// that of a reader who never has to wait, because the peer sends faster than it reads,
// which a deadline does not end. What needs not wait is still written.
func (s *Stream) Interrupt() {
	s.interrupted.Store(true)
	_ = s.SetDeadline(interruptedAt)
}

// Bind makes the end of ctx interrupt the stream. The caller calls stop when the call
// is over, and asks ctx.Err() when one failed.
func (s *Stream) Bind(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, s.Interrupt)
}

// End closes the stream in both directions: what has come is dropped, and so is what
// still comes, until the peer closes it too. Close closes this side only.
func (s *Stream) End() {
	s.Interrupt()
	g := s.mux.guard
	if g != nil && !g.leave(s.StreamID()) {
		s.mux.Close()
		return
	}
	s.Close()
	if g != nil {
		s.empty()
	}
}

// empty drops what has come for a stream that was ended.
func (s *Stream) empty() {
	var scrap [4 << 10]byte
	s.reading.Lock() // soon: who reads was interrupted
	defer s.reading.Unlock()
	for {
		if _, err := s.Stream.Read(scrap[:]); err != nil {
			break
		}
	}
	s.Shrink()
}

// SendData writes p, of at most MaxDataBytes, as one data frame, or, where p is empty, an
// end. When a deadline is over within the frame, rest is what has to be written to the
// stream before anything else; without a rest nothing of it was sent.
func (s *Stream) SendData(p []byte) (rest []byte, err error) {
	kind := FrameData
	if len(p) == 0 {
		kind = FrameEnd
	}
	n, err := writePart(s, kind, p)
	if err == nil || n == 0 {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(p))), p...)[n:], err
}

func (s *Stream) borrow() *[]byte {
	if buf, ok := s.mux.frames.Get().(*[]byte); ok {
		return buf
	}
	return new([]byte)
}

// giveBack keeps what a data frame needs; a larger message was an exception.
func (s *Stream) giveBack(buf *[]byte) {
	if cap(*buf) <= 2*MaxDataBytes {
		s.mux.frames.Put(buf)
	}
}
