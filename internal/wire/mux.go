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

func (p Profile) writeTimeout() time.Duration {
	if p.WriteTimeoutMS == 0 {
		return never
	}
	return time.Duration(p.WriteTimeoutMS) * time.Millisecond
}

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
	// It bounds the answer to a probe; no write waits for the transport.
	c.ConnectionWriteTimeout = p.writeTimeout()
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
	out   *coalescer
	guard *guard // the host's; nil on a guest
	// frames holds memory in which streams put frames together.
	frames sync.Pool
}

// HostMux runs the host's side on conn. It cuts off a guest that opens a stream
// or probes, which only the host may, and one that leaves thousands of streams open
// that the host has ended.
func HostMux(conn io.ReadWriteCloser, p Profile) (*Mux, error) {
	p = p.WithDefaults()
	g := newGuard(conn)
	out := newCoalescer(g, p.writeTimeout())
	s, err := yamux.Client(out, p.config(true))
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Mux{s: s, out: out, guard: g}, nil
}

// GuestMux runs the guest's side on conn.
func GuestMux(conn io.ReadWriteCloser, p Profile) (*Mux, error) {
	p = p.WithDefaults()
	out := newCoalescer(endSilence(conn, p), p.writeTimeout())
	s, err := yamux.Server(out, p.config(false))
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Mux{s: s, out: out}, nil
}

// Open opens a stream and sends req on it. The caller closes the stream.
func (m *Mux) Open(req *Request) (*Stream, error) {
	st, err := m.s.OpenStream()
	if err != nil {
		return nil, err
	}
	s := m.stream(st)
	s.finished = make(chan struct{})
	if m.guard != nil {
		m.guard.watch(s)
	}
	s.urgent.Store(true) // who opens may not wait, and what nobody takes is counted by the guard
	err = WriteMessage(s, req)
	s.urgent.Store(false)
	if err != nil {
		s.End()
		return nil, err
	}
	return s, nil
}

func (m *Mux) stream(st *yamux.Stream) *Stream {
	return &Stream{Stream: st, mux: m, rearmed: make(chan struct{}, 1)}
}

// Accept returns the next stream that the host opened.
func (m *Mux) Accept() (*Stream, error) {
	st, err := m.s.AcceptStream()
	if err != nil {
		return nil, err
	}
	return m.stream(st), nil
}

// Done is closed when the connection is gone.
func (m *Mux) Done() <-chan struct{} { return m.s.CloseChan() }

// Close ends the connection and every stream on it.
func (m *Mux) Close() error { return m.s.Close() }
