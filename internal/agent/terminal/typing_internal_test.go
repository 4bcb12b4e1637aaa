//go:build linux

package terminal

import (
	"net"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// typists is a terminal whose requests to type are served; what it serves is what the host's
// mux opens.
func typists(t *testing.T, term *Terminal) *wire.Mux {
	t.Helper()
	near, far := net.Pipe()
	host, err := wire.HostMux(near, wire.Local())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	guest, err := wire.GuestMux(far, wire.Local())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guest.Close() })
	go func() {
		for {
			s, err := guest.Accept()
			if err != nil {
				return
			}
			go func() {
				defer s.Close()
				var req wire.Request
				if wire.ReadMessage(s, &req, 0) == nil {
					_ = term.typed(s, req.Terminal, func() error { return nil })
					stream.Discard(s)
				}
			}()
		}
	}()
	return host
}

// TestNewTypingCutsOffTheOld defends: a viewer that comes again is not held up by its earlier
// request, whose host is dead and says nothing more.
func TestNewTypingCutsOffTheOld(t *testing.T) {
	term := newTerminal(NewRegistry(nil, time.Minute, nil), "r", spec.TerminalSize{Cols: 80, Rows: 24}, 1<<10)
	term.mu.Lock()
	term.expect("v")
	term.mu.Unlock()
	open := func(offset int64) *wire.Stream {
		t.Helper()
		s, err := typists(t, term).Open(&wire.Request{Op: wire.OpTerminalType, Terminal: &wire.TerminalRequest{Viewer: "v", Offset: offset}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if _, err := open(0).SendData([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	taken := func() int64 {
		term.mu.Lock()
		defer term.mu.Unlock()
		return term.viewers["v"].taken
	}
	for end := time.Now().Add(10 * time.Second); taken() != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what was typed was not taken")
		}
	}
	again := open(-1)
	_ = again.SetReadDeadline(time.Now().Add(10 * time.Second))
	if said, err := wire.ReadReply(again); err != nil || said.Offset != 2 {
		t.Errorf("how much has been typed: %+v, %v; want 2 bytes", said, err)
	}
}
