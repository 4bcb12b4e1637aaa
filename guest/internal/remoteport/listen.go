package remoteport

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

const (
	// acceptors is how many connections are asked for ahead of Accept.
	acceptors = 4
	// closeTime is how long Close waits for the guest to end the listening.
	closeTime = 5 * time.Second
)

// listener is a net.Listener in a place.
type listener struct {
	c       *Client
	st      ask.Stream
	addr    net.Addr
	network string
	name    string
	conns   chan *conn

	alive   context.Context // ends with the listening
	stop    context.CancelFunc
	release context.CancelFunc // of what the control stream is bound to
	over    chan struct{}      // closed when the control stream has said its last
	closing sync.Once

	mu  sync.Mutex
	err error // why there is no more
}

// Listen listens on an address inside; name is the host's for it, of its own. ctx bounds
// the call only.
func (c *Client) Listen(ctx context.Context, name, network, address string) (net.Listener, error) {
	if err := spec.ValidateAddress(network, address, true); err != nil {
		return nil, err
	}
	st, said, release, err := c.open(ctx, &wire.Request{Op: wire.OpListen, Port: &wire.PortRequest{
		Network: network, Address: wire.Bytes(address), Listener: name,
	}}, network)
	if err != nil {
		return nil, err
	}
	l := &listener{
		c: c, st: st, addr: addressOf(said.Network, said.Local), network: said.Network, name: name,
		conns: make(chan *conn), over: make(chan struct{}), release: release,
	}
	l.alive, l.stop = context.WithCancel(context.Background())
	go l.watch()
	for range acceptors {
		go l.gather()
	}
	return l, nil
}

// watch waits for the end of the control stream.
func (l *listener) watch() {
	defer close(l.over)
	_, err := wire.ReadReply(l.st)
	if err == nil {
		err = ask.Violation("a listening that ended by itself")
	}
	l.fail(l.st.Failed(context.Background(), err, ask.Reads))
}

// fail ends the listening for a reason, if there is none yet.
func (l *listener) fail(err error) {
	if spec.CodeOf(err) == spec.CodeNotFound {
		err = &spec.Error{Code: spec.CodeUnavailable, Err: err} // the place has ended
	}
	l.end(err)
}

// end ends the listening; the first reason counts.
func (l *listener) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.stop()
}

// gather asks for connections, one after the other.
func (l *listener) gather() {
	req := &wire.Request{Op: wire.OpAccept, Port: &wire.PortRequest{Listener: l.name}}
	for {
		conn, err := l.c.connect(l.alive, req, l.network)
		if err != nil {
			l.fail(err)
			return
		}
		select {
		case l.conns <- conn:
		case <-l.alive.Done():
			_ = conn.SetLinger(0)
			conn.Close()
			return
		}
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.alive.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, l.err
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

// Close implements net.Listener. It returns when the guest has ended the listening, and at
// the latest after five seconds.
func (l *listener) Close() error {
	first := false
	l.closing.Do(func() { first = true })
	if !first {
		return net.ErrClosed
	}
	l.end(net.ErrClosed) // nobody is accepted who comes now
	ended := make(chan struct{})
	go func() { // it ends with the stream, which waits for no transport
		defer close(ended)
		if _, err := l.st.SendData(nil); err == nil {
			<-l.over
		}
	}()
	select {
	case <-ended:
	case <-time.After(closeTime):
	}
	l.st.End()
	l.release()
	return nil
}
