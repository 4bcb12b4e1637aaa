package wire

import (
	"io"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// Profile is how the mux is set up for a kind of transport. Both sides use the
// host's. Zero fields take Local's values.
type Profile struct {
	// WindowBytes is the most that a stream has in flight: memory on the
	// receiver, and what a sender keeps for resuming. 256 KiB to 16 MiB.
	WindowBytes int `json:"window_bytes,omitempty"`
	// ChunkBytes is the largest data frame: how long one stream can hold up
	// another. 4 KiB to MaxDataBytes.
	ChunkBytes int `json:"chunk_bytes,omitempty"`
	// KeepAliveMS is the interval of keep-alive probes by the host, 0 for
	// none: a transport that reports its own end needs none, and a paused
	// container would be cut by one. A guest gives a connection up on which
	// nothing has come for four intervals.
	KeepAliveMS int `json:"keep_alive_ms,omitempty"`
	// WriteTimeoutMS gives a connection up when the transport takes nothing
	// for so long. 0: never.
	WriteTimeoutMS int `json:"write_timeout_ms,omitempty"`
}

// Local is for pipes, sockets and an engine's relayed streams on one machine.
func Local() Profile { return Profile{WindowBytes: 1 << 20, ChunkBytes: 64 << 10} }

// Network is for transports that cross a network: a window that fills 50 MB/s at
// 80 ms, small chunks, keep-alives.
func Network() Profile {
	return Profile{WindowBytes: 4 << 20, ChunkBytes: 32 << 10, KeepAliveMS: 15_000, WriteTimeoutMS: 60_000}
}

// WithDefaults returns p with zero fields filled and all others in range.
func (p Profile) WithDefaults() Profile {
	clamp := func(v, zero, low, high int) int {
		if v == 0 {
			v = zero
		}
		return min(max(v, low), high)
	}
	p.WindowBytes = clamp(p.WindowBytes, Local().WindowBytes, 256<<10, 16<<20)
	p.ChunkBytes = clamp(p.ChunkBytes, Local().ChunkBytes, 4<<10, MaxDataBytes)
	p.KeepAliveMS = clamp(p.KeepAliveMS, 0, 0, 3_600_000)
	p.WriteTimeoutMS = clamp(p.WriteTimeoutMS, 0, 0, 3_600_000)
	return p
}

// closeTimeout is how long a host remembers a stream that the guest does not close.
const closeTimeout = 30 * time.Second

// never is long enough to mean no limit where yamux insists on one.
const never = 365 * 24 * time.Hour

func (p Profile) config(host bool) *yamux.Config {
	c := yamux.DefaultConfig()
	c.LogOutput = io.Discard
	c.AcceptBacklog = 256
	c.EnableKeepAlive = host && p.KeepAliveMS > 0
	if c.EnableKeepAlive {
		c.KeepAliveInterval = time.Duration(p.KeepAliveMS) * time.Millisecond
	}
	c.ConnectionWriteTimeout = never
	if p.WriteTimeoutMS > 0 {
		c.ConnectionWriteTimeout = time.Duration(p.WriteTimeoutMS) * time.Millisecond
	}
	c.MaxStreamWindowSize = uint32(p.WindowBytes)
	c.StreamOpenTimeout = 0 // a guest answers streams when it can; ctx bounds each call
	// The opener closes first, so on the guest nothing waits half closed. On the
	// host this frees what a guest never closes.
	c.StreamCloseTimeout = 0
	if host {
		c.StreamCloseTimeout = closeTimeout
	}
	return c
}

// Mux is one connection after its hello.
type Mux struct {
	s     *yamux.Session
	guard *guard // the host's; nil on a guest
	// frames holds memory in which streams put frames together.
	frames sync.Pool
}

// HostMux runs the host's side on conn. It cuts off a guest that opens a stream
// or probes, which only the host may, and one that leaves thousands of streams open
// that the host has ended.
func HostMux(conn io.ReadWriteCloser, p Profile) (*Mux, error) {
	g := newGuard(conn)
	s, err := yamux.Client(newCoalescer(g), p.WithDefaults().config(true))
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Mux{s: s, guard: g}, nil
}

// GuestMux runs the guest's side on conn.
func GuestMux(conn io.ReadWriteCloser, p Profile) (*Mux, error) {
	p = p.WithDefaults()
	s, err := yamux.Server(newCoalescer(endSilence(conn, p)), p.config(false))
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Mux{s: s}, nil
}

// Open opens a stream and sends req on it. The caller closes the stream.
func (m *Mux) Open(req *Request) (*Stream, error) {
	st, err := m.s.OpenStream()
	if err != nil {
		return nil, err
	}
	s := &Stream{Stream: st, mux: m, finished: make(chan struct{})}
	if m.guard != nil {
		m.guard.watch(s)
	}
	if err := WriteMessage(s, req); err != nil {
		s.End()
		return nil, err
	}
	return s, nil
}

// Accept returns the next stream that the host opened.
func (m *Mux) Accept() (*Stream, error) {
	st, err := m.s.AcceptStream()
	if err != nil {
		return nil, err
	}
	return &Stream{Stream: st, mux: m}, nil
}

// Done is closed when the connection is gone.
func (m *Mux) Done() <-chan struct{} { return m.s.CloseChan() }

// Close ends the connection and every stream on it.
func (m *Mux) Close() error { return m.s.Close() }

// coalescer gathers the small writes that a mux makes - a header, a body, the next
// stream's header - into one write to the transport, without delaying any: whatever
// comes while one write is under way goes out with the next. It holds at most
// coalesceBytes.
type coalescer struct {
	conn io.ReadWriteCloser

	mu    sync.Mutex
	ready sync.Cond // the buffer has become non-empty, or closed
	room  sync.Cond // the buffer has become smaller, or closed
	buf   []byte
	err   error
	done  chan struct{}
}

const coalesceBytes = 256 << 10

func newCoalescer(conn io.ReadWriteCloser) *coalescer {
	c := &coalescer{conn: conn, done: make(chan struct{})}
	c.ready.L, c.room.L = &c.mu, &c.mu
	go c.flush()
	return c
}

func (c *coalescer) Read(p []byte) (int, error) { return c.conn.Read(p) }

func (c *coalescer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && len(c.buf) > 0 && len(c.buf)+len(p) > coalesceBytes {
		c.room.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	c.buf = append(c.buf, p...)
	c.ready.Signal()
	return len(p), nil
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
		c.room.Broadcast()
		c.mu.Unlock()
		if _, err := c.conn.Write(out); err != nil {
			c.fail(err)
			c.conn.Close() // so that the reader learns of it too
			return
		}
		if cap(out) > 2*coalesceBytes {
			out = nil
		}
	}
}

func (c *coalescer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.ready.Broadcast()
	c.room.Broadcast()
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
