//go:build linux

package agent_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// dialled opens a connection into the place.
func (h *host) dialled(network, address string) (*wire.Stream, error) {
	h.t.Helper()
	st, err := h.mux.Open(&wire.Request{Op: wire.OpDial, Port: &wire.PortRequest{Network: network, Address: wire.Bytes(address)}})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := wire.ReadReply(st); err != nil {
		st.End()
		return nil, err
	}
	return st, nil
}

// The guest's own socket is not reached through it, by whatever name, and not listed.
func TestOwnSocketIsOutOfReach(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	link := filepath.Join(p.workdir, "link")
	if err := os.Symlink(p.socket, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{p.socket, link, "link"} {
		st, err := h.dialled("unix", name)
		if err == nil {
			st.End()
		}
		if !errors.Is(err, spec.ErrPermission) {
			t.Errorf("%s: %v; want permission", name, err)
		}
	}
	reply, err := h.call(&wire.Request{Op: wire.OpPorts})
	if err != nil || len(reply.Ports) != 0 || !reply.Done {
		t.Errorf("listed: %+v, %v", reply, err)
	}
}

// A thousand connections leave no descriptor behind, however they end: well, by a reset of
// either side, or with a host that is gone.
func TestThousandConnectionsLeaveNothing(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for i := 0; ; i++ {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if i%3 == 1 {
					_ = conn.(*net.TCPConn).SetLinger(0)
					return
				}
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	use := func(i int) {
		st, err := h.dialled("tcp", server.Addr().String())
		if err != nil {
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Fatalf("connection %d: %v", i, err)
			}
			return
		}
		_, _ = wire.WriteData(st, []byte("hello"), 0)
		if i%3 == 0 {
			_ = wire.WriteEnd(st)
			if got, err := io.ReadAll(wire.NewDataReader(st)); i%3 == 0 && err == nil && string(got) != "hello" {
				t.Errorf("connection %d: %q", i, got)
			}
		}
		st.End()
	}
	for i := range 20 {
		use(i)
	}
	before := p.steady() // the first ones are gone
	for i := range 1000 {
		use(i)
	}
	other := p.dial("b")
	for range 20 {
		if _, err := other.dialled("tcp", server.Addr().String()); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
	}
	other.mux.Close()
	eventually(t, "descriptors are back to what they were", func() bool { return p.footprint().fds <= before.fds })
}
