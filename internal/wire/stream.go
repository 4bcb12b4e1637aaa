package wire

import (
	"context"
	"encoding/binary"
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

// Interrupt makes whatever waits on the stream fail, and every Read that follows: also
// that of a reader who never has to wait, because the peer sends faster than it reads,
// which a deadline does not end.
func (s *Stream) Interrupt() {
	s.interrupted.Store(true)
	_ = s.SetDeadline(time.Unix(1, 0))
}

// Bind makes the end of ctx interrupt the stream. The caller calls stop when the call
// is over, and asks ctx.Err() when one failed.
func (s *Stream) Bind(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, s.Interrupt)
}

// End closes the stream in both directions: what has come is dropped, and so is what
// still comes, until the peer closes it too. It waits for a transport that takes
// nothing. Close closes this side only.
func (s *Stream) End() {
	s.Interrupt()
	g := s.mux.guard
	if g != nil && !g.leave(s.StreamID()) {
		s.mux.Close()
		return
	}
	s.Stream.Close()
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
