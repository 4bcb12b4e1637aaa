package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
)

// yamuxFrame is a header of the mux, with a body.
func yamuxFrame(kind byte, flags uint16, stream, length uint32, body string) []byte {
	b := []byte{0, kind}
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	b = binary.BigEndian.AppendUint32(b, length)
	return append(b, body...)
}

// A probe by the guest is found wherever the reads cut the stream, and nothing
// else is taken for one: not an answer to a probe, and not bytes of data that look
// like one.
func TestPingGuard(t *testing.T) {
	probe := yamuxFrame(yamuxTypePing, yamuxFlagSYN, 0, 7, "")
	harmless := [][]byte{
		yamuxFrame(yamuxTypePing, 2, 0, 7, ""), // an answer
		yamuxFrame(yamuxTypeData, yamuxFlagSYN, 1, uint32(3*len(probe)), string(bytes.Repeat(probe, 3))),
		yamuxFrame(yamuxTypeData, 0, 1, 0, ""),
		yamuxFrame(1, yamuxFlagSYN, 1, 1<<31, ""), // a window update has no body
		yamuxFrame(3, yamuxFlagSYN, 0, 1<<20, ""), // neither has a farewell
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for round := range 300 {
		var clean []byte
		for range 1 + rnd.IntN(10) {
			clean = append(clean, harmless[rnd.IntN(len(harmless))]...)
		}
		var stream []byte
		stream = append(append(stream, clean...), probe...)
		stream = append(stream, clean...)
		g := &pingGuard{conn: pieces{bytes.NewReader(stream), rnd}}
		got, err := io.ReadAll(g)
		if !errors.Is(err, ErrProtocol) {
			t.Fatalf("round %d: a probe after %d bytes is not found: %v", round, len(clean), err)
		}
		if whole := len(clean) + len(probe); len(got) >= whole || !bytes.HasPrefix(stream, got) {
			t.Fatalf("round %d: %d bytes passed, the probe is whole with %d", round, len(got), whole)
		}
		g = &pingGuard{conn: pieces{bytes.NewReader(clean), rnd}}
		if got, err := io.ReadAll(g); err != nil || !bytes.Equal(got, clean) {
			t.Fatalf("round %d: a stream without a probe: %d of %d bytes, %v", round, len(got), len(clean), err)
		}
	}
}

// pieces reads a few bytes at a time.
type pieces struct {
	r   io.Reader
	rnd *rand.Rand
}

func (p pieces) Read(b []byte) (int, error)  { return p.r.Read(b[:min(len(b), 1+p.rnd.IntN(40))]) }
func (p pieces) Write(b []byte) (int, error) { return len(b), nil }
func (p pieces) Close() error                { return nil }

// FuzzPingGuard compares the guard with a parser that sees the stream whole.
func FuzzPingGuard(f *testing.F) {
	f.Add(yamuxFrame(yamuxTypePing, yamuxFlagSYN, 0, 0, ""), uint64(1))
	f.Add(append(yamuxFrame(yamuxTypeData, 0, 1, 12, ""), yamuxFrame(yamuxTypePing, yamuxFlagSYN, 0, 0, "")...), uint64(2))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		want := false
		for rest := stream; len(rest) >= 12 && !want; {
			kind, flags, length := rest[1], binary.BigEndian.Uint16(rest[2:]), int(binary.BigEndian.Uint32(rest[8:]))
			rest = rest[12:]
			want = kind == yamuxTypePing && flags&yamuxFlagSYN != 0
			if kind == yamuxTypeData {
				rest = rest[min(length, len(rest)):]
			}
		}
		g := &pingGuard{conn: pieces{bytes.NewReader(stream), rand.New(rand.NewPCG(seed, 0))}}
		if _, err := io.ReadAll(g); errors.Is(err, ErrProtocol) != want {
			t.Errorf("the guard says %v, a probe is there: %v", err, want)
		}
	})
}

// A guest that probes, or opens a stream, is cut off; it gets no answer for each
// probe, so a flood of them costs nothing.
func TestHostCutsOffAGuestThat(t *testing.T) {
	for name, sent := range map[string][]byte{
		"probes":                 bytes.Repeat(yamuxFrame(yamuxTypePing, yamuxFlagSYN, 0, 1, ""), 1000),
		"opens a stream":         yamuxFrame(1, yamuxFlagSYN, 2, 0, ""),
		"opens many":             bytes.Repeat(yamuxFrame(1, yamuxFlagSYN, 2, 0, ""), 1000),
		"speaks another version": {9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"says an unknown thing":  yamuxFrame(9, 0, 0, 0, ""),
		"says goodbye in anger":  yamuxFrame(3, 0, 0, 1, ""),
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			host, guest := net.Pipe()
			m, err := HostMux(host, Local())
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, guest) }()
			go func() { _, _ = guest.Write(sent) }()
			select {
			case <-m.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("it is not cut off")
			}
			m.Close()
			guest.Close()
			for i := 0; runtime.NumGoroutine() > before; i++ {
				if i == 500 {
					t.Fatalf("%d goroutines run, %d did before", runtime.NumGoroutine(), before)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

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
	c := newCoalescer(g)
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

// A writer waits when the transport takes nothing: the buffer is bounded.
func TestCoalescerIsBounded(t *testing.T) {
	g := newGate(false)
	c := newCoalescer(g)
	accepted := make(chan int, 1000)
	failed := make(chan error, 1)
	go func() {
		for {
			n, err := c.Write(make([]byte, 10_000))
			if err != nil {
				failed <- err
				return
			}
			accepted <- n
		}
	}()
	total := 0
	for waiting := false; !waiting; {
		select {
		case n := <-accepted:
			total += n
		case <-time.After(200 * time.Millisecond):
			waiting = true
		}
	}
	// One buffer is being written, another is filled.
	if total > 2*coalesceBytes {
		t.Errorf("%d bytes were accepted, at most %d may be held", total, 2*coalesceBytes)
	}
	began := time.Now()
	_ = c.Close()
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("closing on a transport that takes nothing took %v", d)
	}
	select {
	case err := <-failed:
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the writer that waited gets %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("a writer waits on after Close")
	}
}

// An error of the transport reaches the writers that come after it, and closes the
// transport so that the reader learns of it.
func TestCoalescerReportsErrors(t *testing.T) {
	g := newGate(true)
	broken := errors.New("broken")
	_ = g.set(func() { g.err = broken })
	c := newCoalescer(g)
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
	c := newCoalescer(g)
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
