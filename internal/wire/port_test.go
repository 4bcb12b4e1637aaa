package wire_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// A port's record crosses the wire byte for byte, and one that no kernel says is refused.
func TestPortRecords(t *testing.T) {
	unix := wire.Port{Network: "unix", Address: wire.Bytes("/a\n\xff"), PID: 7, Name: wire.Bytes("x")}
	through := throughJSON(t, unix)
	got, err := through.Spec()
	if diff := cmp.Diff(spec.Port{Network: "unix", Address: "/a\n\xff", PID: 7, Name: "x"}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, p := range []wire.Port{
		{Network: "tcp4", Address: wire.Bytes("127.0.0.1:80")},
		{Network: "tcp6", Address: wire.Bytes("[::]:80")},
		{Network: "tcp6", Address: wire.Bytes("[::ffff:1.2.3.4]:80")},
		{Network: "unix", Address: wire.Bytes("@a\x00b")},
	} {
		if _, err := p.Spec(); err != nil {
			t.Errorf("%s %q: %v", p.Network, p.Address, err)
		}
	}
	for _, p := range []wire.Port{
		{},
		{Network: "tcp", Address: wire.Bytes("127.0.0.1:80")},
		{Network: "tcp4", Address: wire.Bytes("[::1]:80")},
		{Network: "tcp6", Address: wire.Bytes("127.0.0.1:80")},
		{Network: "tcp4", Address: wire.Bytes("localhost:80")},
		{Network: "tcp4", Address: wire.Bytes("127.0.0.1:80000")},
		{Network: "unix"},
		{Network: "unix", Address: wire.Bytes("/a\x00")},
		{Network: "unix", Address: make(wire.Bytes, 109)},
		{Network: "tcp6", Address: wire.Bytes("[fe80::1%" + strings.Repeat("x", 200) + "]:1")},
		{Network: "unix", Address: wire.Bytes("/a"), PID: -1},
		{Network: "unix", Address: wire.Bytes("/a"), Name: make(wire.Bytes, 257)},
	} {
		if got, err := p.Spec(); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%s %.40q is taken as %+v, %v", p.Network, p.Address, got, err)
		}
	}
}

// The ends of a connection are of the network that was asked for.
func TestConnRecords(t *testing.T) {
	for _, tt := range []struct {
		asked string
		conn  wire.Conn
		ok    bool
	}{
		{"tcp", wire.Conn{Network: "tcp4", Local: wire.Bytes("1.2.3.4:5"), Remote: wire.Bytes("1.2.3.4:6")}, true},
		{"tcp", wire.Conn{Network: "tcp6", Local: wire.Bytes("[::1]:5")}, true},
		{"tcp4", wire.Conn{Network: "tcp4"}, true},
		{"unix", wire.Conn{Network: "unix", Remote: wire.Bytes("/s")}, true},
		{"tcp4", wire.Conn{Network: "tcp6"}, false},
		{"tcp", wire.Conn{Network: "unix"}, false},
		{"tcp", wire.Conn{Network: "tcp"}, false},
		{"unix", wire.Conn{Network: "tcp4"}, false},
		{"tcp", wire.Conn{Network: "tcp4", Remote: wire.Bytes("host:1")}, false},
		{"unix", wire.Conn{Network: "unix", Local: make(wire.Bytes, 200)}, false},
	} {
		if err := tt.conn.Check(tt.asked); (err == nil) != tt.ok {
			t.Errorf("%s: %+v: %v", tt.asked, tt.conn, err)
		}
	}
}

// late gives one byte at a time, and a timeout before each.
type late struct {
	r    io.Reader
	next bool
}

func (l *late) Read(p []byte) (int, error) {
	if l.next = !l.next; l.next {
		return 0, os.ErrDeadlineExceeded
	}
	return l.r.Read(p[:min(len(p), 1)])
}

// Deadlines that are over while data is read cost none of it, wherever in a frame.
func TestDataReaderOverDeadlines(t *testing.T) {
	var sent bytes.Buffer
	for _, part := range []string{"one", "t", "wo and three"} {
		if _, err := wire.WriteData(&sent, []byte(part), 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := wire.WriteEnd(&sent); err != nil {
		t.Fatal(err)
	}
	d := wire.NewDataReader(&late{r: &sent})
	var got []byte
	buf := make([]byte, 8)
	for {
		n, err := d.Read(buf)
		got = append(got, buf[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if string(got) != "onetwo and three" {
		t.Errorf("%q", got)
	}
}

// What a connection was refused with inside is what callers ask for here.
func TestErrnoOfConnections(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ECONNREFUSED, syscall.ECONNRESET} {
		said := throughJSON(t, *wire.FromError(&spec.Error{Code: spec.CodeUnavailable, Err: errno}))
		if err := said.Spec(); !errors.Is(err, errno) || !errors.Is(err, spec.ErrUnavailable) {
			t.Errorf("%v has become %v", errno, err)
		}
	}
}
