package wire

import (
	"io"
	"sync"
	"time"
)

// coalescer gathers the small writes that a mux makes - a header, a body, the next
// stream's header - into one write to the transport, without delaying any: whatever
// comes while one write is under way goes out with the next.
//
// Its Write never waits: yamux waits for it in calls that heed no deadline, reads among
// them. It is the writer of a stream that waits for room, before it hands its bytes to
// yamux. So it holds coalesceBytes, a piece of each writer, and what yamux itself says.
type coalescer struct {
	conn io.ReadWriteCloser
	most time.Duration // the transport takes something within that, or is given up

	mu      sync.Mutex
	ready   sync.Cond // the buffer has become non-empty, or closed
	buf     []byte
	drained chan struct{} // closed when there is room, or never will be; nil: nobody waits
	err     error
	done    chan struct{}
}

const (
	coalesceBytes = 256 << 10
	// timedBytes is how much the transport is to take within the write timeout.
	timedBytes = 64 << 10
)

func newCoalescer(conn io.ReadWriteCloser, most time.Duration) *coalescer {
	c := &coalescer{conn: conn, most: most, done: make(chan struct{})}
	c.ready.L = &c.mu
	go c.flush()
	return c
}

func (c *coalescer) Read(p []byte) (int, error) { return c.conn.Read(p) }

func (c *coalescer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.buf = append(c.buf, p...)
	c.ready.Signal()
	return len(p), nil
}

// full returns what is closed when there may be room for a writer; nil: there is.
func (c *coalescer) full() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || len(c.buf) < coalesceBytes {
		return nil
	}
	if c.drained == nil {
		c.drained = make(chan struct{})
	}
	return c.drained
}

// wake lets all go on who wait for room; the lock is held.
func (c *coalescer) wake() {
	if c.drained != nil {
		close(c.drained)
		c.drained = nil
	}
}

func (c *coalescer) flush() {
	defer close(c.done)
	var out []byte
	for {
		c.mu.Lock()
		for len(c.buf) == 0 && c.err == nil {
			c.ready.Wait()
		}
		if len(c.buf) == 0 {
			c.mu.Unlock()
			return
		}
		out, c.buf = c.buf, out[:0]
		c.wake()
		c.mu.Unlock()
		if err := c.send(out); err != nil {
			c.fail(err)
			c.conn.Close() // so that the reader learns of it too
			return
		}
		if cap(out) > 2*coalesceBytes {
			out = nil
		}
	}
}

// send writes to the transport, which is closed when it takes nothing for too long.
func (c *coalescer) send(p []byte) error {
	if c.most >= never {
		_, err := c.conn.Write(p)
		return err
	}
	late := time.AfterFunc(c.most, func() { c.conn.Close() })
	defer late.Stop()
	for len(p) > 0 {
		piece := p[:min(len(p), timedBytes)]
		late.Reset(c.most)
		if _, err := c.conn.Write(piece); err != nil {
			return err
		}
		p = p[len(piece):]
	}
	return nil
}

func (c *coalescer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.ready.Broadcast()
	c.wake()
}

// Close lets what is buffered go out for a moment, then closes the transport.
func (c *coalescer) Close() error {
	c.fail(io.ErrClosedPipe)
	select {
	case <-c.done:
	case <-time.After(time.Second):
	}
	return c.conn.Close()
}
