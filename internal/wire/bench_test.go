package wire_test

import (
	"io"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
)

// BenchmarkThroughput is one command's output: data frames on one stream over a
// Unix socket, the guest sending.
func BenchmarkThroughput(b *testing.B) {
	host, guest := socketPair(b)
	const piece = 64 << 10
	m := connect(b, host, guest, wire.Local(), func(_ *wire.Request, s *wire.Stream) {
		buf := make([]byte, piece)
		for {
			if _, err := wire.WriteData(s, buf, piece); err != nil {
				return
			}
		}
	})
	s, err := m.Open(&wire.Request{Op: wire.OpData})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	r := wire.NewDataReader(s)
	buf := make([]byte, piece)
	b.SetBytes(piece)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.ReadFull(r, buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRoundTrip is a request and its reply on a stream of its own.
func BenchmarkRoundTrip(b *testing.B) {
	host, guest := socketPair(b)
	m := connect(b, host, guest, wire.Local(), func(_ *wire.Request, s *wire.Stream) {
		_ = wire.WriteMessage(s, wire.Reply{Done: true})
		_, _ = io.Copy(io.Discard, s)
	})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := call(m, &wire.Request{Op: wire.OpPing}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRawSocket is what the transport itself does, for comparison.
func BenchmarkRawSocket(b *testing.B) {
	host, guest := socketPair(b)
	defer host.Close()
	const piece = 64 << 10
	go func() {
		defer guest.Close()
		for {
			if _, err := guest.Write(make([]byte, piece)); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, piece)
	b.SetBytes(piece)
	for b.Loop() {
		if _, err := io.ReadFull(host, buf); err != nil {
			b.Fatal(err)
		}
	}
}
