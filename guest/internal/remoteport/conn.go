package remoteport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// lingerTime is how long a connection that was closed waits for a peer that does not take
// what was written to it.
const lingerTime = 10 * time.Second

// past is a deadline that is over.
var past = time.Unix(1, 0)

// conn is a net.Conn with CloseWrite, SetLinger and Finished.
type conn struct {
	st            ask.Stream
	release       context.CancelFunc // of what the stream is bound to
	chunk         int
	local, remote net.Addr

	reading sync.Mutex
	in      *wire.DataReader

	writing sync.Mutex
	owed    []byte // what comes before anything else that is written
	ended   bool   // an end was written, or is owed

	readUntil, writeUntil atomic.Int64 // deadlines in Unix nanoseconds; 0: none

	once   sync.Once
	closed chan struct{}
	reset  atomic.Bool // Close is to reset it
}

func newConn(st ask.Stream, said *wire.Conn, release context.CancelFunc, chunk int) *conn {
	c := &conn{
		st: st, release: release, chunk: chunk, in: wire.NewDataReader(st), closed: make(chan struct{}),
		local: addressOf(said.Network, said.Local), remote: addressOf(said.Network, said.Remote),
	}
	go func() {
		select {
		case <-st.Finished():
			_ = st.SetWriteDeadline(past) // whoever waits for room waits in vain
		case <-c.closed:
		}
	}()
	return c
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// Finished is closed when the peer takes nothing more: after a reset or a Write that it has
// refused, and once both sides have ended and it has been handed everything. The loss of
// the place does not close it.
func (c *conn) Finished() <-chan struct{} { return c.st.Finished() }

// isClosed reports whether a channel is closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Read implements net.Conn. Its io.EOF is the peer's.
func (c *conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if err := c.ready(&c.readUntil); err != nil {
		return 0, err
	}
	n, err := c.in.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, c.failed(err, &c.readUntil)
}

// Write implements net.Conn. Where a deadline is over within a frame, the rest of the frame
// counts as written and goes out with what follows.
func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.writable(); err != nil {
		return 0, err
	}
	if c.ended {
		return 0, syscall.EPIPE
	}
	done := 0
	err := c.flush()
	for err == nil && done < len(p) {
		part := p[done:min(done+c.chunk, len(p))]
		c.owed, err = c.st.SendData(part)
		if err == nil || len(c.owed) > 0 {
			done += len(part)
		}
	}
	if err != nil {
		return done, c.failed(err, &c.writeUntil)
	}
	return done, nil
}

// CloseWrite ends this side; the peer reads io.EOF after what was written.
func (c *conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.writable(); err != nil {
		return err
	}
	if err := c.end(); err != nil {
		return c.failed(err, &c.writeUntil)
	}
	return nil
}

// writable reports why nothing can be written. The caller holds writing.
func (c *conn) writable() error {
	if err := c.ready(&c.writeUntil); err != nil {
		return err
	}
	if !c.ended && isClosed(c.st.Finished()) {
		return errReset
	}
	return nil
}

// ready reports why nothing is to be tried.
func (c *conn) ready(until *atomic.Int64) error {
	if isClosed(c.closed) {
		return net.ErrClosed
	}
	if t := until.Load(); t != 0 && time.Now().UnixNano() >= t {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// end writes the end of this side. The caller holds writing.
func (c *conn) end() error {
	err := c.flush()
	if err == nil && !c.ended {
		c.owed, err = c.st.SendData(nil)
		c.ended = err == nil || len(c.owed) > 0
	}
	return err
}

// flush writes what is owed. The caller holds writing.
func (c *conn) flush() error {
	for len(c.owed) > 0 {
		n, err := c.st.Write(c.owed)
		c.owed = c.owed[n:]
		if err != nil {
			return err
		}
	}
	return nil
}

// errReset is what is known of a connection whose peer takes nothing more, or which it
// has left in the middle.
var errReset = &spec.Error{Code: spec.CodeUnavailable, Err: syscall.ECONNRESET}

// failed turns what the stream failed with into what a caller may rely on, who has set the
// deadline.
func (c *conn) failed(err error, until *atomic.Int64) error {
	late := wire.IsTimeout(err)
	_, said := errors.AsType[*spec.Error](err)
	ready := c.ready(until)
	switch {
	case late && ready != nil, isClosed(c.closed):
		return ready
	case said || errors.Is(err, wire.ErrProtocol):
		return c.st.Failed(context.Background(), err, ask.Reads)
	case isClosed(c.st.Finished()):
		return errReset
	case late:
		return os.ErrDeadlineExceeded
	}
	return c.st.Failed(context.Background(), err, ask.Reads)
}

// SetLinger makes Close reset the connection if seconds is 0, so that the peer knows that
// not all was sent, where its network has a way to say so. Other values mean nothing.
func (c *conn) SetLinger(seconds int) error {
	c.reset.Store(seconds == 0)
	return nil
}

// Close implements net.Conn. What was written still goes out, for as long as the peer takes
// it within ten seconds, and then io.EOF as with package net, whether or not CloseWrite was
// called; a Write that waits makes it a reset.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		_ = c.st.SetReadDeadline(past)
		if c.reset.Load() || !c.writing.TryLock() {
			c.leave()
			return
		}
		go func() {
			defer c.writing.Unlock()
			defer c.leave()
			_ = c.st.SetWriteDeadline(time.Now().Add(lingerTime))
			_ = c.end()
		}()
	})
	return nil
}

func (c *conn) leave() {
	c.st.End()
	c.release()
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(&c.readUntil, t, c.st.SetReadDeadline)
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	err := c.setDeadline(&c.writeUntil, t, c.st.SetWriteDeadline)
	if isClosed(c.st.Finished()) {
		_ = c.st.SetWriteDeadline(past)
	}
	return err
}

func (c *conn) setDeadline(until *atomic.Int64, t time.Time, set func(time.Time) error) error {
	if isClosed(c.closed) {
		return net.ErrClosed
	}
	nanos := int64(0)
	if !t.IsZero() {
		nanos = max(t.UnixNano(), 1)
	}
	until.Store(nanos)
	return set(t)
}
