//go:build linux

package port

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
)

// A peer that takes nothing more is listened to for as long as the host stays; once it has
// left nothing is kept of the connection, though the peer says nothing and does not end it.
// What the host still sends meanwhile does not wait.
func TestDeafPeer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, here := net.Pipe()
	host, err := wire.HostMux(here, wire.Local())
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	guest, err := wire.GuestMux(there, wire.Local())
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	v := New(t.TempDir(), OfProcesses, nil, &stream.Buffers{})
	served := make(chan error, 1)
	go func() {
		s, err := guest.Accept()
		if err == nil {
			var req wire.Request
			if err = wire.ReadMessage(s, &req, 0); err == nil {
				err = v.Serve(s, &req, 64<<10, func(wire.PlaceEvent) {})
			}
		}
		served <- err
	}()
	s, err := host.Open(&wire.Request{Op: wire.OpDial, Port: &wire.PortRequest{Network: "unix", Address: wire.Bytes(path)}})
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if _, err := wire.ReadReply(s); err != nil {
		t.Fatal(err)
	}
	if err := peer.(*net.UnixConn).CloseRead(); err != nil {
		t.Fatal(err)
	}
	_ = s.SetWriteDeadline(time.Now().Add(20 * time.Second))
	if _, err := wire.WriteData(s, make([]byte, 8<<20), 64<<10); err != nil {
		t.Errorf("write to a peer that takes nothing: %v", err)
	}
	if _, err := io.WriteString(peer, "last words"); err != nil {
		t.Error(err)
	}
	got := make([]byte, 10)
	if _, err := io.ReadFull(wire.NewDataReader(s), got); err != nil || string(got) != "last words" {
		t.Errorf("%q, %v; want the peer's last words", got, err)
	}
	s.End()
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the connection is served though the host has left")
	}
}
