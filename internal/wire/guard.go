package wire

import (
	"bufio"
	"encoding/binary"
	"io"
	"sync"
	"time"
)

// guard reads a guest's side of the mux as it passes, and lets through only what
// cannot hurt. yamux believes its peer where it should not: it answers each ping from
// a new goroutine; it takes any new stream; it holds the lock of a stream while the
// body of a frame is on its way, so that half a frame holds up a reader beyond its
// deadline; and it keeps what comes for a stream that is closed on this side. So the
// guard fails on a ping that asks for an answer and on a stream that the guest opens,
// passes a body in pieces of which it has every byte, and drops what comes for a
// stream that was left.
type guard struct {
	conn io.ReadWriteCloser
	in   *bufio.Reader

	// The reader's alone.
	due   []byte // what is to be passed of hdr
	hdr   [yamuxHeaderBytes]byte
	id    uint32  // the stream of the frame that is passing
	last  *Stream // of the last piece; nil: not known
	piece int     // announced bytes of the body, all of them in the buffer
	rest  uint32  // those that are not announced

	mu      sync.Mutex
	streams map[uint32]*Stream // that the guest has not closed
	left    map[uint32]time.Time
}

const (
	yamuxHeaderBytes = 12
	yamuxTypeData    = 0
	yamuxTypeWindow  = 1
	yamuxTypePing    = 2
	yamuxFlagSYN     = 1
	yamuxFlagFIN     = 4
	yamuxFlagRST     = 8

	// guardBuffer is the longest piece.
	guardBuffer = 64 << 10
	// maxLeft is how many streams may be left that the guest has not closed, and
	// whose time is not over: an honest guest closes them within a round trip.
	maxLeft = 4096
)

func newGuard(conn io.ReadWriteCloser) *guard {
	return &guard{
		conn: conn, in: bufio.NewReaderSize(conn, guardBuffer),
		streams: map[uint32]*Stream{}, left: map[uint32]time.Time{},
	}
}

func (g *guard) Write(p []byte) (int, error) { return g.conn.Write(p) }
func (g *guard) Close() error                { return g.conn.Close() }

func (g *guard) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		var err error
		switch {
		case len(g.due) > 0:
			n := copy(p, g.due)
			g.due = g.due[n:]
			return n, nil
		case g.piece > 0:
			n, err := g.in.Read(p[:min(len(p), g.piece)])
			g.piece -= n
			return n, err
		case g.rest > 0:
			err = g.announce()
		default:
			err = g.header()
		}
		if err != nil {
			return 0, err
		}
	}
}

// header reads the header of the next frame, and passes it unless there is a body.
func (g *guard) header() error {
	g.settle()
	if _, err := io.ReadFull(g.in, g.hdr[:]); err != nil {
		return err
	}
	kind, flags := g.hdr[1], binary.BigEndian.Uint16(g.hdr[2:])
	g.id = binary.BigEndian.Uint32(g.hdr[4:])
	stream := g.hdr[0] == 0 && (kind == yamuxTypeData || kind == yamuxTypeWindow)
	switch {
	case kind == yamuxTypePing && flags&yamuxFlagSYN != 0:
		return violation("the guest sent a probe")
	case stream && flags&yamuxFlagSYN != 0:
		return violation("the guest opened a stream")
	case stream && flags&(yamuxFlagFIN|yamuxFlagRST) != 0:
		g.forget(g.id)
	}
	if stream && kind == yamuxTypeData {
		g.rest = binary.BigEndian.Uint32(g.hdr[8:])
		if flags == 0 {
			return nil
		}
		binary.BigEndian.PutUint32(g.hdr[8:], 0) // the body follows without flags
	}
	g.due = g.hdr[:]
	return nil
}

// announce passes the header of a piece: as much of the body as is there.
func (g *guard) announce() error {
	g.settle()
	if _, err := g.in.Peek(1); err != nil {
		return err
	}
	n := int(min(int64(g.rest), int64(g.in.Buffered())))
	g.rest -= uint32(n)
	st, left := g.find(g.id)
	if left {
		_, err := g.in.Discard(n)
		return err
	}
	g.last, g.piece = st, n
	clear(g.hdr[:4]) // data, no flags
	binary.BigEndian.PutUint32(g.hdr[4:], g.id)
	binary.BigEndian.PutUint32(g.hdr[8:], uint32(n))
	g.due = g.hdr[:]
	return nil
}

// settle runs when yamux has taken all that was passed: a stream that was left while
// its last piece was under way is emptied of it.
func (g *guard) settle() {
	if g.last == nil {
		return
	}
	if _, left := g.find(g.last.StreamID()); left {
		go g.last.empty()
	}
	g.last = nil
}

// watch takes st in, which was opened just now.
func (g *guard) watch(st *Stream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.streams[st.StreamID()] = st
}

// forget drops a stream that the guest has closed.
func (g *guard) forget(id uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if st := g.streams[id]; st != nil {
		close(st.finished)
	}
	delete(g.streams, id)
	delete(g.left, id)
}

// find returns the stream with an id, if the guest has not closed it, and whether it
// was left.
func (g *guard) find(id uint32) (st *Stream, left bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, left = g.left[id]
	return g.streams[id], left
}

// leave says that nobody wants what still comes for a stream. It reports false if the
// guest has left too many of them open.
func (g *guard) leave(id uint32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, open := g.streams[id]; !open {
		return true
	}
	g.left[id] = time.Now()
	if len(g.left) <= maxLeft {
		return true
	}
	for id, since := range g.left {
		if time.Since(since) > closeTimeout { // yamux has dropped it by now
			delete(g.left, id)
			delete(g.streams, id)
		}
	}
	return len(g.left) <= maxLeft
}
