package wire_test

import (
	"net"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
)

// A guest lets go of a host that has promised to probe and falls silent, and keeps
// one that probes.
func TestGuestEndsSilence(t *testing.T) {
	p := wire.Profile{KeepAliveMS: 500}
	connect := func() (host, guest net.Conn) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		host, err = net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		guest, err = l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { host.Close(); guest.Close() })
		return host, guest
	}
	_, silent := connect()
	left, err := wire.GuestMux(silent, p)
	if err != nil {
		t.Fatal(err)
	}
	near, far := connect()
	if _, err := wire.HostMux(near, p); err != nil {
		t.Fatal(err)
	}
	kept, err := wire.GuestMux(far, p)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-left.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the guest waits for a host that says nothing")
	}
	// Longer than silence may last, which is 2 s.
	select {
	case <-kept.Done():
		t.Error("the guest let go of a host that probes")
	case <-time.After(5 * time.Second):
	}
}
