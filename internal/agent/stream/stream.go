//go:build linux

package stream

import (
	"errors"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// ChunkBytes is the size of a buffer: one read, one data frame.
const ChunkBytes = 64 << 10

// Buffers lends buffers. The zero value is ready.
type Buffers struct{ pool sync.Pool }

// Get lends a buffer with any content.
func (b *Buffers) Get() *[ChunkBytes]byte {
	if buf, ok := b.pool.Get().(*[ChunkBytes]byte); ok {
		return buf
	}
	return new([ChunkBytes]byte)
}

// Put takes a buffer back.
func (b *Buffers) Put(buf *[ChunkBytes]byte) { b.pool.Put(buf) }

// Peer is one connection to a host; its address tells it from others.
type Peer struct {
	Name  string          // of the host's session: a redial keeps it
	Chunk int             // the largest data frame that it wants
	Gone  <-chan struct{} // closed when the connection is gone
}

// Lost reports whether the connection is gone.
func (p *Peer) Lost() bool {
	select {
	case <-p.Gone:
		return true
	default:
		return false
	}
}

// ErrGone says that there is nobody left to tell an error.
var ErrGone = errors.New("the reader is gone")

// ErrIncomplete refuses a request without the part that belongs to its operation.
var ErrIncomplete = spec.New(spec.CodeInvalid, "the request is incomplete")

// Reply answers a request. Its error is ErrGone.
func Reply(s *wire.Stream, r *wire.Reply) error {
	if wire.WriteMessage(s, r) != nil {
		return ErrGone
	}
	return nil
}

// past is a deadline that has passed: setting it fails whatever waits.
var past = time.Unix(1, 0)

// Abort fails whatever is being written to s.
func Abort(s *wire.Stream) { _ = s.SetWriteDeadline(past) }

// Discard reads s to its end: a host that is still sending must not wait for a
// window that nobody opens.
func Discard(s *wire.Stream) {
	var buf [512]byte
	for {
		if _, err := s.Read(buf[:]); err != nil {
			return
		}
	}
}
