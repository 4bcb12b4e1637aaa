package wire_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// greet runs a host's hello against peer and returns the host's answer. Both ends
// are closed and peer has returned when greet returns.
func greet(t *testing.T, ctx context.Context, h wire.HostHello, peer func(conn net.Conn)) (*wire.GuestHello, error) {
	t.Helper()
	host, guest := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer guest.Close()
		peer(guest)
	}()
	g, err := wire.SendHello(ctx, host, h)
	host.Close()
	<-done
	return g, err
}

// Both sides learn what the other says.
func TestHelloRoundTrip(t *testing.T) {
	sent := wire.HostHello{Version: "v1.2.3", ID: "sb_1", Epoch: 7, Client: "c", Profile: wire.Network()}
	var seen *wire.HostHello
	g, err := greet(t, t.Context(), sent, func(conn net.Conn) {
		h, err := wire.AcceptHello(conn, func(h *wire.HostHello) (*wire.GuestHello, error) {
			return &wire.GuestHello{ID: h.ID, Epoch: 9, OS: "linux", Arch: "amd64", PID: 1, Workdir: wire.Bytes("/w\xff")}, nil
		})
		if err != nil {
			t.Errorf("accept: %v", err)
		}
		seen = h
	})
	if err != nil {
		t.Fatal(err)
	}
	if g.ID != "sb_1" || g.Epoch != 9 || g.PID != 1 || string(g.Workdir) != "/w\xff" || g.Major != wire.Major || g.Minor != wire.Minor {
		t.Errorf("the guest said %+v", g)
	}
	sent.Major, sent.Minor = wire.Major, wire.Minor
	if *seen != sent {
		t.Errorf("the host said %+v, want %+v", *seen, sent)
	}
}

// A refusal reaches the host with its code, and the guest's caller too.
func TestHelloRefusal(t *testing.T) {
	refusal := &spec.Error{Code: spec.CodeStaleOwner, Err: errors.New("epoch 3 is in charge"), Hint: "take over first"}
	_, err := greet(t, t.Context(), wire.HostHello{Epoch: 2}, func(conn net.Conn) {
		if _, err := wire.AcceptHello(conn, func(*wire.HostHello) (*wire.GuestHello, error) { return nil, refusal }); !errors.Is(err, refusal) {
			t.Errorf("the guest's caller gets %v", err)
		}
	})
	if !errors.Is(err, spec.ErrStaleOwner) || spec.HintOf(err) != "take over first" || !strings.Contains(err.Error(), "epoch 3") {
		t.Errorf("the host gets %v (hint %q)", err, spec.HintOf(err))
	}
}

// Another major version is refused by whoever sees it, in words that help.
func TestHelloVersionMismatch(t *testing.T) {
	_, err := greet(t, t.Context(), wire.HostHello{}, func(conn net.Conn) {
		_ = readHelloFrame(conn)
		_, _ = conn.Write(helloFrame(`{"major":9,"minor":0}`))
	})
	if !errors.Is(err, spec.ErrUnsupported) || !strings.Contains(err.Error(), "protocol 9") || spec.HintOf(err) == "" {
		t.Errorf("a newer guest: %v", err)
	}

	host, guest := net.Pipe()
	defer host.Close()
	go func() { _, _ = host.Write(helloFrame(`{"major":9}`)) }()
	answered := make(chan error, 1)
	go func() {
		defer guest.Close()
		_, err := wire.AcceptHello(guest, func(*wire.HostHello) (*wire.GuestHello, error) {
			return nil, errors.New("must not be asked")
		})
		answered <- err
	}()
	reply := readHelloFrame(host)
	if err := <-answered; !errors.Is(err, spec.ErrUnsupported) || !strings.Contains(reply, `"unsupported"`) {
		t.Errorf("a newer host: %v, answered %q", err, reply)
	}
}

// What is no hello is quoted: it is a shell's or an engine's reason.
func TestHelloQuotesWhatIsNoGuest(t *testing.T) {
	tests := []struct{ name, output, want string }{
		{"a shell's message", "sh: 1: berth-guest: not found\n", "sh: 1: berth-guest: not found"},
		{"a short one", "no", `"no"`},
		{"a terminal's escape", "\x1b[31mred\x00\xff", `\x1b[31mred\x00\xff`},
		{"a banner that goes on", strings.Repeat("welcome ", 1000), "welcome welcome"},
		{"nothing", "", "before it said anything"},
		{"a hello's beginning", "BRT", `"BRT"`},
		{"a cut hello", "BRTH\x00\x00", "unexpected EOF"},
		{"a cut payload", "BRTH\x00\x00\x00\x09{", "unexpected EOF"},
		{"a hostile length", "BRTH\xff\xff\xff\xff", "hello of 4294967295 bytes"},
		{"no JSON", "BRTH\x00\x00\x00\x01x", "protocol violation"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := greet(t, t.Context(), wire.HostHello{}, func(conn net.Conn) {
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				_, _ = conn.Write([]byte(tt.output))
			})
			if !errors.Is(err, spec.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want it to say %q", err, tt.want)
			}
			if len(err.Error()) > 4096 || strings.ContainsAny(err.Error(), "\x1b\n\x00") {
				t.Errorf("the error is not fit to print: %.200q", err.Error())
			}
		})
	}
}

// A guest's hello that is out of range is refused: it lives among untrusted code.
func TestHelloOutOfRange(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, field := range []string{"id", "os", "arch", "version", "workdir", "incarnation"} {
		_, err := greet(t, t.Context(), wire.HostHello{}, func(conn net.Conn) {
			_ = readHelloFrame(conn)
			value := long
			if field == "workdir" {
				value = strings.Repeat("xxxx", 2000)
			}
			_, _ = conn.Write(helloFrame(`{"major":1,"` + field + `":"` + value + `"}`))
		})
		if !errors.Is(err, spec.ErrInternal) {
			t.Errorf("a %s of 5000 bytes: %v", field, err)
		}
	}
}

// A peer that says nothing, or stops in the middle, costs no longer than the
// caller's context.
func TestHelloIsBoundedByContext(t *testing.T) {
	for name, said := range map[string]string{"silent": "", "stops in the magic": "BR", "stops in the payload": "BRTH\x00\x00\x10\x00{"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err := greet(t, ctx, wire.HostHello{}, func(conn net.Conn) {
				go func() { _, _ = conn.Write([]byte(said)) }()
				_, _ = io.Copy(io.Discard, conn) // until the host hangs up
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want the context's error", err)
			}
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// helloFrame is a hello as bytes.
func helloFrame(payload string) []byte {
	b := binary.BigEndian.AppendUint32([]byte("BRTH"), uint32(len(payload)))
	return append(b, payload...)
}

// readHelloFrame reads a hello and returns its payload, "" if there is none.
func readHelloFrame(r io.Reader) string {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:4]) != "BRTH" {
		return ""
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[4:]))
	_, _ = io.ReadFull(r, payload)
	return string(payload)
}
