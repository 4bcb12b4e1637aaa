package wire

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"time"
)

// gate is a transport whose writes wait until they are let through.
type gate struct {
	mu     sync.Mutex
	open   sync.Cond
	free   bool
	err    error
	closed bool
	writes [][]byte
}

func newGate(free bool) *gate {
	g := &gate{free: free}
	g.open.L = &g.mu
	return g
}

func (g *gate) Read([]byte) (int, error) { return 0, io.EOF }

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.free && !g.closed {
		g.open.Wait()
	}
	if g.err != nil {
		return 0, g.err
	}
	if g.closed {
		return 0, io.ErrClosedPipe
	}
	g.writes = append(g.writes, bytes.Clone(p))
	return len(p), nil
}

func (g *gate) Close() error { return g.set(func() { g.closed = true }) }

func (g *gate) set(change func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	g.open.Broadcast()
	return nil
}

func (g *gate) all() (joined []byte, writes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return bytes.Join(g.writes, nil), len(g.writes)
}

// What many write keeps its order, arrives whole, and in fewer writes than were
// made while the transport was busy.
func TestCoalescerGathers(t *testing.T) {
	g := newGate(false)
	c := newCoalescer(g, never)
	var want []byte
	for i := range 1000 {
		p := bytes.Repeat([]byte{byte(i)}, i%50)
		want = append(want, p...)
		if n, err := c.Write(p); n != len(p) || err != nil {
			t.Fatalf("write %d: %d, %v", i, n, err)
		}
	}
	_ = g.set(func() { g.free = true })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	got, writes := g.all()
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived, %d were written", len(got), len(want))
	}
	if writes > 3 {
		t.Errorf("1000 writes to a busy transport became %d", writes)
	}
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("a write after Close is accepted")
	}
}

// An error of the transport reaches the writers that come after it, and closes the
// transport so that the reader learns of it.
func TestCoalescerReportsErrors(t *testing.T) {
	g := newGate(true)
	broken := errors.New("broken")
	_ = g.set(func() { g.err = broken })
	c := newCoalescer(g, never)
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		_, err = c.Write([]byte("x"))
		time.Sleep(time.Millisecond)
	}
	if !errors.Is(err, broken) {
		t.Errorf("writers get %v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		t.Error("the transport is still open")
	}
}

// Write does not keep what it was given: yamux uses its buffers again.
func TestCoalescerCopies(t *testing.T) {
	g := newGate(false)
	c := newCoalescer(g, never)
	p := []byte("first")
	_, _ = c.Write(p)
	copy(p, "XXXXX")
	_, _ = c.Write([]byte(" second"))
	_ = g.set(func() { g.free = true })
	_ = c.Close()
	if got, _ := g.all(); string(got) != "first second" {
		t.Errorf("%q arrived", got)
	}
}
