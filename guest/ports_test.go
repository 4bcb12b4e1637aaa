package guest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// connected is the answer of an honest guest to a dial.
func connected(st *wire.Stream) {
	_ = wire.WriteMessage(st, wire.Reply{Conn: &wire.Conn{Network: "tcp4", Local: wire.Bytes("127.0.0.1:9"), Remote: wire.Bytes("127.0.0.1:8")}})
}

func (f *fake) dialler(t *testing.T) *guest.Session {
	t.Helper()
	f.hello.Minor = wire.Minor
	return f.open(guest.OpenOptions{})
}

// Whatever a guest answers to a dial, a listening or a list is a connection that was asked
// for, or an error in bounded memory.
func TestPortsOfALiar(t *testing.T) {
	dial := func(ctx context.Context, s *guest.Session) error { _, err := s.Dial(ctx, "tcp", ":80"); return err }
	listen := func(ctx context.Context, s *guest.Session) error { _, err := s.Listen(ctx, "unix", "s"); return err }
	ports := func(ctx context.Context, s *guest.Session) error { _, err := s.Ports(ctx); return err }
	for _, tt := range []struct {
		name string
		tell func(st *wire.Stream)
		ask  func(ctx context.Context, s *guest.Session) error
	}{
		{"a connection without its ends", func(st *wire.Stream) { reply(st, wire.Reply{}) }, dial},
		{"another network", func(st *wire.Stream) { reply(st, wire.Reply{Conn: &wire.Conn{Network: "unix"}}) }, dial},
		{"an address that is none", func(st *wire.Stream) {
			reply(st, wire.Reply{Conn: &wire.Conn{Network: "tcp4", Remote: wire.Bytes("evil.example:80")}})
		}, dial},
		{"data in place of a reply", func(st *wire.Stream) { _, _ = wire.WriteData(st, make([]byte, 1<<20), 0) }, dial},
		{"a listening elsewhere", func(st *wire.Stream) {
			reply(st, wire.Reply{Conn: &wire.Conn{Network: "tcp4", Local: wire.Bytes("0.0.0.0:1")}})
		}, listen},
		{"a port that is none", func(st *wire.Stream) { reply(st, wire.Reply{Ports: []wire.Port{{Network: "tcp4"}}, Done: true}) }, ports},
		{"too many in one reply", func(st *wire.Stream) { reply(st, wire.Reply{Ports: make([]wire.Port, wire.PortBatch+1), Done: true}) }, ports},
		{"ports without an end", func(st *wire.Stream) {
			p := wire.Port{Network: "unix", Address: wire.Bytes(strings.Repeat("x", 100)), Name: make(wire.Bytes, 200)}
			for wire.WriteMessage(st, wire.Reply{Ports: []wire.Port{p}}) == nil {
			}
		}, ports},
		{"empty batches without an end", func(st *wire.Stream) {
			for wire.WriteMessage(st, wire.Reply{}) == nil {
			}
		}, ports},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { tt.tell(st) })
			s := f.dialler(t)
			quickly(t, 30*time.Second, "the call", func() { wantCode(t, tt.ask(context.Background(), s), spec.CodeInternal) })
		})
	}
}

// A connection ends with io.EOF where the guest has said so, and with an error wherever it
// has not: cut, reset, garbage, or lost.
func TestConnEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		tell func(c *fakeConn, st *wire.Stream)
		want error
	}{
		{"an end", func(_ *fakeConn, st *wire.Stream) { _ = wire.WriteEnd(st); _, _ = io.Copy(io.Discard, st) }, io.EOF},
		{"a cut", func(_ *fakeConn, st *wire.Stream) {}, syscall.ECONNRESET},
		{"a reset", func(_ *fakeConn, st *wire.Stream) {
			_ = wire.WriteMessage(st, wire.Reply{Err: wire.FromError(&spec.Error{Code: spec.CodeUnavailable, Err: syscall.ECONNRESET})})
		}, syscall.ECONNRESET},
		{"half a frame", func(_ *fakeConn, st *wire.Stream) { _, _ = st.Write([]byte{'D', 0, 0, 0, 9, 'x'}) }, syscall.ECONNRESET},
		{"garbage", func(_ *fakeConn, st *wire.Stream) { _, _ = st.Write([]byte("garbage")); _, _ = io.Copy(io.Discard, st) }, spec.ErrInternal},
		{"an empty frame", func(_ *fakeConn, st *wire.Stream) { _, _ = st.Write([]byte{'D', 0, 0, 0, 0}) }, spec.ErrInternal},
		{"a reply without an error", func(_ *fakeConn, st *wire.Stream) { reply(st, wire.Reply{Done: true}) }, spec.ErrInternal},
		{"a lost connection", func(c *fakeConn, st *wire.Stream) {
			_, _ = st.Read(make([]byte, 1))
			c.cut()
		}, spec.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(c *fakeConn, st *wire.Stream, _ *wire.Request) {
				connected(st)
				_, _ = wire.WriteData(st, []byte("first"), 0)
				tt.tell(c, st)
			})
			conn, err := f.dialler(t).Dial(context.Background(), "tcp", ":80")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			quickly(t, 20*time.Second, "reading", func() {
				buf := make([]byte, 64)
				n, err := io.ReadAtLeast(conn, buf, 5)
				_, _ = conn.Write([]byte("x"))
				for err == nil {
					var k int
					k, err = conn.Read(buf[n:])
					n += k
				}
				if string(buf[:5]) != "first" || !errors.Is(err, tt.want) {
					t.Errorf("%q, %v; want %v", buf[:n], err, tt.want)
				}
			})
		})
	}
}

// A guest that goes on after its end, or is never read, fills its window and no more; one
// that takes nothing more is an error for who writes.
func TestConnOfAFloodingGuest(t *testing.T) {
	taken := make(chan bool)
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
		connected(st)
		if <-taken {
			_ = wire.WriteEnd(st)
		}
		for {
			if _, err := wire.WriteData(st, make([]byte, 1<<16), 0); err != nil {
				return
			}
		}
	})
	s := f.dialler(t)
	for _, ended := range []bool{true, false} {
		grown := watchMemory(t)
		conn, err := s.Dial(context.Background(), "tcp", ":80")
		if err != nil {
			t.Fatal(err)
		}
		taken <- ended
		if ended {
			if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("%d, %v", n, err)
			}
		}
		time.Sleep(200 * time.Millisecond)
		if n := grown(); n > 2*sessionBytes {
			t.Errorf("the host has used %d MiB more", n>>20)
		}
		quickly(t, 5*time.Second, "closing", func() { conn.Close() })
	}
}

// Who writes learns that nothing more is taken, though nobody reads.
func TestConnThatIsNotRead(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
		connected(st)
		_, _ = wire.WriteData(st, []byte("unread"), 0)
		st.Close()
		_, _ = io.Copy(io.Discard, st)
	})
	conn, err := f.dialler(t).Dial(context.Background(), "tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	within(t, 10*time.Second, func() bool { _, err = conn.Write([]byte("x")); return err != nil }, func() string { return "a write still works" })
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
}

// A write whose deadline is over within a frame keeps what it has counted: nothing is lost
// or doubled, and the end comes after it.
func TestConnWriteOverDeadlines(t *testing.T) {
	got := make(chan []byte, 1)
	begin := make(chan struct{})
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
		connected(st)
		<-begin
		all, err := io.ReadAll(wire.NewDataReader(st))
		if err != nil {
			t.Errorf("the guest: %v", err)
		}
		got <- all
	})
	conn, err := f.dialler(t).Dial(context.Background(), "tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	written, timeouts := 0, 0
	for written < len(data) {
		_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Millisecond))
		n, err := conn.Write(data[written:min(written+100_000, len(data))])
		written += n
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if err != nil {
			if timeouts++; timeouts == 3 {
				close(begin)
			}
		}
	}
	_ = conn.SetWriteDeadline(time.Time{})
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if all := <-got; !bytes.Equal(all, data) {
		t.Errorf("%d bytes of %d, or others", len(all), len(data))
	}
}

// listening is the control stream of an honest guest's listening.
func listening(st *wire.Stream) {
	_ = wire.WriteMessage(st, wire.Reply{Conn: &wire.Conn{Network: "unix", Local: wire.Bytes("s")}})
	_, _ = io.Copy(io.Discard, wire.NewDataReader(st))
	reply(st, wire.Reply{Done: true})
}

// A listener hands out nothing of a guest that answers nonsense, ends with what it said,
// and leaves nothing behind.
func TestListenerOfALiar(t *testing.T) {
	for _, tt := range []struct {
		name   string
		accept func(st *wire.Stream)
		want   spec.Code
	}{
		{"a connection of another network", func(st *wire.Stream) { reply(st, wire.Reply{Conn: &wire.Conn{Network: "tcp6"}}) }, spec.CodeInternal},
		{"an unknown listening", func(st *wire.Stream) {
			reply(st, wire.Reply{Err: wire.FromError(spec.New(spec.CodeUnavailable, "nobody listens"))})
		}, spec.CodeUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
				if req.Op == wire.OpAccept {
					tt.accept(st)
					return
				}
				listening(st)
			})
			l, err := f.dialler(t).Listen(context.Background(), "unix", "s")
			if err != nil {
				t.Fatal(err)
			}
			quickly(t, 20*time.Second, "accepting", func() {
				_, err := l.Accept()
				wantCode(t, err, tt.want)
			})
			quickly(t, 20*time.Second, "closing", func() { l.Close() })
			if err := l.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("closed twice: %v", err)
			}
		})
	}
}

// A flood of connections waits in the guest: four are taken ahead of who accepts.
func TestListenerHoldsBack(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		if req.Op == wire.OpAccept {
			reply(st, wire.Reply{Conn: &wire.Conn{Network: "unix"}})
			return
		}
		listening(st)
	})
	l, err := f.dialler(t).Listen(context.Background(), "unix", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 10 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	time.Sleep(100 * time.Millisecond)
	if n := f.count(wire.OpAccept); n > 10+4 {
		t.Errorf("%d connections were asked for; want 14 at most", n)
	}
}
