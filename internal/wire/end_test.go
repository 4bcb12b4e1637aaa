package wire_test

import (
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
)

// TestReadBesideRead defends: a stream can be read by several at a time, which is what ending
// one that somebody reads comes to, also when the connection has been lost with much of it not
// read yet; nobody waits for ever.
func TestReadBesideRead(t *testing.T) {
	const streams = 16
	host, guest := socketPair(t)
	data := make([]byte, 64<<10)
	m := connect(t, host, guest, wire.Local(), func(_ *wire.Request, s *wire.Stream) {
		for {
			if _, err := s.Write(data); err != nil {
				return
			}
		}
	})
	var readers sync.WaitGroup
	lost := make(chan struct{})
	for range streams {
		st, err := m.Open(&wire.Request{Op: wire.OpPing})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			readers.Go(func() {
				<-lost
				var b [16]byte
				for {
					if _, err := st.Read(b[:]); err != nil {
						return
					}
				}
			})
		}
	}
	time.Sleep(100 * time.Millisecond) // some windows fill; how many does not matter
	m.Close()
	close(lost)
	over := make(chan struct{})
	go func() { readers.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Fatal("a reader waits for ever")
	}
}
