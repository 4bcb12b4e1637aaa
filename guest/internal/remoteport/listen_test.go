package remoteport_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/guest/internal/remoteport"
	"github.com/berth-dev/berth/internal/wire"
)

// mute is a session with a guest that begins a listening and says nothing more.
type mute struct {
	ask.Session
	st *muteStream
}

func (m mute) Open(ctx context.Context, req *wire.Request, _ bool) (ask.Stream, error) {
	if req.Op == wire.OpAccept {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m.st, nil
}

// muteStream is its control stream.
type muteStream struct {
	ask.Stream
	net.Conn
	full        bool // the transport takes nothing
	once        sync.Once
	interrupted chan struct{}
}

func newMuteStream(full bool) *muteStream {
	near, far := net.Pipe()
	go func() {
		_ = wire.WriteMessage(far, wire.Reply{Conn: &wire.Conn{Network: "unix", Local: wire.Bytes("s")}})
	}()
	return &muteStream{Conn: near, full: full, interrupted: make(chan struct{})}
}

func (s *muteStream) Read(p []byte) (int, error)         { return s.Conn.Read(p) }
func (s *muteStream) Write(p []byte) (int, error)        { return s.Conn.Write(p) }
func (s *muteStream) Close() error                       { return s.Conn.Close() }
func (s *muteStream) SetReadDeadline(t time.Time) error  { return s.Conn.SetReadDeadline(t) }
func (s *muteStream) SetWriteDeadline(t time.Time) error { return s.Conn.SetWriteDeadline(t) }

func (s *muteStream) End() {
	s.once.Do(func() { close(s.interrupted) })
	s.Conn.Close()
}

func (s *muteStream) SendData([]byte) ([]byte, error) {
	if s.full {
		<-s.interrupted
		return nil, net.ErrClosed
	}
	return nil, nil
}

// Failed takes the time in which a lost connection shows itself.
func (s *muteStream) Failed(_ context.Context, err error, _ bool) error {
	time.Sleep(2 * time.Second)
	return err
}

// TestCloseOfAListenerIsBounded defends: Close of a listener takes five seconds at most,
// whether its guest says nothing or the transport takes nothing, and leaves nothing running.
func TestCloseOfAListenerIsBounded(t *testing.T) {
	for name, full := range map[string]bool{"a guest that says nothing": false, "a transport that takes nothing": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newMuteStream(full)
				l, err := remoteport.New(mute{st: st}).Listen(t.Context(), "unix-of-a-test", "unix", "s")
				if err != nil {
					t.Fatal(err)
				}
				closed := make(chan error, 1)
				go func() { closed <- l.Close() }()
				time.Sleep(5*time.Second + time.Millisecond)
				select {
				case err := <-closed:
					if err != nil {
						t.Error(err)
					}
				default:
					t.Errorf("close takes more than five seconds")
				}
				st.End()
				time.Sleep(3 * time.Second) // whoever is left goes when the stream has ended, or the test fails
			})
		})
	}
}
