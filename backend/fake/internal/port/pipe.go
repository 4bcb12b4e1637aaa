// Package port is the connections of a place in memory: listeners by their addresses, and
// pipes that keep half closes, resets and deadlines.
package port

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how much one direction of a connection holds.
const window = 256 << 10

// half is one direction of a connection.
type half struct {
	mu     sync.Mutex
	wake   chan struct{} // closed and replaced when something has changed
	buf    []byte
	ended  bool  // by who writes
	broken error // for both
}

func newHalf() *half { return &half{wake: make(chan struct{})} }

// changed wakes who waits. The caller holds the lock.
func (h *half) changed() {
	close(h.wake)
	h.wake = make(chan struct{})
}

// fail ends the direction for both sides, unless it has ended.
func (h *half) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken == nil {
		h.broken = err
		h.changed()
	}
}

// end says that no more comes.
func (h *half) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.changed()
}

// conn is one side of a connection.
type conn struct {
	owner         Owner
	in, out       *half
	local, remote net.Addr
	readBy        deadline
	writeBy       deadline

	mu     sync.Mutex
	closed bool
	reset  bool
}

// pipe returns the two sides of a connection from one address to another.
func pipe(from, to net.Addr) (dialled, accepted *conn) {
	there, back := newHalf(), newHalf()
	return &conn{in: back, out: there, local: from, remote: to}, &conn{in: there, out: back, local: to, remote: from}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// over reports whether this side is closed.
func (c *conn) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (n int, err error) {
	err = c.wait(c.in, &c.readBy, func() (bool, error) {
		switch {
		case len(c.in.buf) > 0:
			n = copy(p, c.in.buf)
			c.in.buf = c.in.buf[n:]
			c.in.changed()
		case c.in.broken != nil:
			return true, c.in.broken
		case c.in.ended:
			return true, io.EOF
		default:
			return len(p) == 0, nil
		}
		return true, nil
	})
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (n int, err error) {
	err = c.wait(c.out, &c.writeBy, func() (bool, error) {
		switch {
		case c.out.broken != nil:
			return true, c.out.broken
		case c.out.ended:
			return true, syscall.EPIPE
		}
		k := min(window-len(c.out.buf), len(p)-n)
		c.out.buf = append(c.out.buf, p[n:n+k]...)
		n += k
		c.out.changed()
		return n == len(p), nil
	})
	return n, err
}

// wait tries again and again, under the lock of a direction, until try is done.
func (c *conn) wait(h *half, by *deadline, try func() (bool, error)) error {
	for {
		over := by.channel()
		h.mu.Lock()
		wake := h.wake
		switch {
		case c.over():
			h.mu.Unlock()
			return net.ErrClosed
		case isClosed(over):
			h.mu.Unlock()
			return os.ErrDeadlineExceeded
		}
		done, err := try()
		if !done {
			wake = h.wake
		}
		h.mu.Unlock()
		if done {
			return err
		}
		select {
		case <-wake:
		case <-over:
		}
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// CloseWrite ends this side.
func (c *conn) CloseWrite() error {
	if c.over() {
		return net.ErrClosed
	}
	c.out.end()
	return nil
}

// SetLinger makes Close reset the connection if seconds is 0.
func (c *conn) SetLinger(seconds int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reset = seconds == 0
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	first, reset := !c.closed, c.reset
	c.closed = true
	c.mu.Unlock()
	switch {
	case !first:
		return nil
	case reset:
		c.out.fail(syscall.ECONNRESET)
	default:
		c.out.end()
	}
	c.in.fail(syscall.ECONNRESET) // what still comes is taken by nobody
	return nil
}

// fail breaks both directions.
func (c *conn) fail(err error) {
	c.in.fail(err)
	c.out.fail(err)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.readBy.set(t)
	c.writeBy.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { c.readBy.set(t); return nil }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { c.writeBy.set(t); return nil }

// deadline is a channel that is closed when its time has come. It is replaced only once
// it is closed, so that who waits on it heeds a new deadline.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	over  chan struct{}
}

func (d *deadline) channel() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over == nil {
		d.over = make(chan struct{})
	}
	return d.over
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.over == nil || isClosed(d.over) {
		d.over = make(chan struct{})
	}
	over := d.over
	switch wait := time.Until(t); {
	case t.IsZero():
	case wait <= 0:
		close(over)
	default:
		d.timer = time.AfterFunc(wait, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if !isClosed(over) {
				close(over)
			}
		})
	}
}
