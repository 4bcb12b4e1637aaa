package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
)

// transports are the ways in which two sides are connected, from kind to unkind.
var transports = []struct {
	name string
	dial func(t testing.TB) (host, guest io.ReadWriteCloser)
}{
	{"pipe", func(testing.TB) (io.ReadWriteCloser, io.ReadWriteCloser) { return net.Pipe() }},
	{"socket", socketPair},
	{"slow", func(testing.TB) (io.ReadWriteCloser, io.ReadWriteCloser) {
		a, b := net.Pipe()
		return &slow{ReadWriteCloser: a, rnd: rand.New(rand.NewPCG(1, 1))}, &slow{ReadWriteCloser: b, rnd: rand.New(rand.NewPCG(2, 2))}
	}},
}

// socketPair connects two sides by a Unix socket.
func socketPair(t testing.TB) (host, guest io.ReadWriteCloser) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// slow cuts reads into pieces of a few bytes now and then, and waits.
type slow struct {
	io.ReadWriteCloser
	rnd *rand.Rand // used by the one reader
}

func (s *slow) Read(p []byte) (int, error) {
	switch s.rnd.IntN(20) {
	case 0:
		time.Sleep(time.Duration(s.rnd.IntN(1000)) * time.Microsecond)
	case 1, 2, 3:
		p = p[:min(len(p), 1+s.rnd.IntN(20))]
	}
	return s.ReadWriteCloser.Read(p)
}

// connect joins two muxes over a transport. serve answers each stream on the guest.
// Both are closed, and every goroutine of theirs has ended, when the test ends.
func connect(t testing.TB, host, guest io.ReadWriteCloser, p wire.Profile, serve func(*wire.Request, *wire.Stream)) *wire.Mux {
	t.Helper()
	before := runtime.NumGoroutine()
	h, err := wire.HostMux(host, p)
	if err != nil {
		t.Fatal(err)
	}
	g, err := wire.GuestMux(guest, p)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			s, err := g.Accept()
			if err != nil {
				return
			}
			go func() {
				defer s.Close()
				var req wire.Request
				if err := wire.ReadMessage(s, &req, 0); err == nil {
					serve(&req, s)
				}
			}()
		}
	}()
	t.Cleanup(func() {
		h.Close()
		g.Close()
		<-h.Done()
		<-g.Done()
		goroutinesAtMost(t, before)
	})
	return h
}

// goroutinesAtMost waits until no more goroutines run than before.
func goroutinesAtMost(t testing.TB, before int) {
	t.Helper()
	for range 500 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buf := make([]byte, 1<<20)
	t.Errorf("%d goroutines run, %d did before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}

// call makes one request and returns its reply.
func call(m *wire.Mux, req *wire.Request) (*wire.Reply, error) {
	s, err := m.Open(req)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return wire.ReadReply(s)
}

// echo sends back all data of a stream.
func echo(_ *wire.Request, s *wire.Stream) {
	r := wire.NewDataReader(s)
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if _, werr := wire.WriteData(s, buf[:n], 0); werr != nil {
			return
		}
		if err == io.EOF {
			_ = wire.WriteEnd(s)
			return
		}
		if err != nil {
			return
		}
	}
}

// Many streams at once carry their bytes unharmed, whatever the transport does.
func TestMuxCarriesManyStreams(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			host, guest := tr.dial(t)
			m := connect(t, host, guest, wire.Profile{WindowBytes: 256 << 10, ChunkBytes: 4 << 10}, echo)
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					content := bytes.Repeat([]byte{byte(i)}, 1+i*30_000)
					s, err := m.Open(&wire.Request{Op: wire.OpPing})
					if err != nil {
						t.Errorf("stream %d: %v", i, err)
						return
					}
					defer s.Close()
					wg.Go(func() {
						if _, err := wire.WriteData(s, content, 4<<10); err != nil {
							t.Errorf("stream %d: write: %v", i, err)
						}
						if err := wire.WriteEnd(s); err != nil {
							t.Errorf("stream %d: end: %v", i, err)
						}
					})
					got, err := io.ReadAll(wire.NewDataReader(s))
					if err != nil || !bytes.Equal(got, content) {
						t.Errorf("stream %d: %d of %d bytes, %v", i, len(got), len(content), err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// A thousand requests one after the other leave nothing behind on either side.
func TestMuxRequestsLeaveNothing(t *testing.T) {
	host, guest := socketPair(t)
	m := connect(t, host, guest, wire.Local(), func(_ *wire.Request, s *wire.Stream) {
		_ = wire.WriteMessage(s, wire.Reply{Done: true})
		_, _ = io.Copy(io.Discard, s)
	})
	if _, err := call(m, &wire.Request{Op: wire.OpPing}); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for i := range 1000 {
		if r, err := call(m, &wire.Request{Op: wire.OpPing}); err != nil || !r.Done {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	goroutinesAtMost(t, before+2) // one of the guest may just be ending
}

// A reader that does not read stops its sender, costs at most a window, and holds
// up no other stream.
func TestMuxBackPressure(t *testing.T) {
	host, guest := net.Pipe()
	var mu sync.Mutex
	sent := map[string]int{}
	m := connect(t, host, guest, wire.Profile{WindowBytes: 256 << 10}, func(r *wire.Request, s *wire.Stream) {
		if r.Op == wire.OpPing {
			_ = wire.WriteMessage(s, wire.Reply{Done: true})
			return
		}
		buf := make([]byte, 16<<10)
		for {
			if _, err := wire.WriteData(s, buf, 0); err != nil {
				return
			}
			mu.Lock()
			sent[r.Data.ID] += len(buf)
			mu.Unlock()
		}
	})
	total := func() int {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, k := range sent {
			n += k
		}
		return n
	}
	const stalled = 5
	for i := range stalled {
		s, err := m.Open(&wire.Request{Op: wire.OpData, Data: &wire.DataRequest{ID: fmt.Sprint(i)}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	for last := -1; total() == 0 || total() != last; time.Sleep(100 * time.Millisecond) {
		last = total()
	}
	if n := total(); n == 0 || n > stalled*(256<<10) {
		t.Errorf("%d streams that nobody reads have taken %d bytes, at most a window of 256 KiB each was due", stalled, n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := m.Open(&wire.Request{Op: wire.OpPing})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer s.Bind(ctx)()
	if _, err := wire.ReadReply(s); err != nil {
		t.Errorf("another stream beside them: %v", err)
	}
}

// The end of a context fails whatever waits on a stream: a read, a write without
// window, and what comes afterwards.
func TestStreamBind(t *testing.T) {
	host, guest := net.Pipe()
	release := make(chan struct{})
	defer close(release)
	m := connect(t, host, guest, wire.Local(), func(*wire.Request, *wire.Stream) { <-release })
	for name, wait := range map[string]func(*wire.Stream) error{
		"read": func(s *wire.Stream) error { return wire.ReadMessage(s, new(wire.Reply), 0) },
		"write": func(s *wire.Stream) error {
			for {
				if _, err := wire.WriteData(s, make([]byte, 64<<10), 0); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := m.Open(&wire.Request{Op: wire.OpPing})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, cancel := context.WithCancel(t.Context())
			stop := s.Bind(ctx)
			defer stop()
			failed := make(chan error, 1)
			go func() { failed <- wait(s) }()
			select {
			case err := <-failed:
				t.Fatalf("it does not wait: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			cancel()
			select {
			case err := <-failed:
				if err == nil {
					t.Errorf("no error after the context's end")
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("it waits on after the context's end")
			}
			if err := wait(s); err == nil {
				t.Errorf("the next call does not fail")
			}
		})
	}
}

// A connection that breaks ends every stream with an error, and no read looks like
// an end of data.
func TestMuxBrokenConnection(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			host, guest := tr.dial(t)
			started := make(chan struct{}, 1)
			m := connect(t, host, guest, wire.Local(), func(_ *wire.Request, s *wire.Stream) {
				_, _ = wire.WriteData(s, []byte("some"), 0)
				started <- struct{}{}
				_, _ = io.Copy(io.Discard, s)
			})
			s, err := m.Open(&wire.Request{Op: wire.OpPing})
			if err != nil {
				t.Fatal(err)
			}
			<-started
			d := wire.NewDataReader(s)
			if _, err := io.ReadFull(d, make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
			guest.Close()
			if _, err := d.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Errorf("read on a broken connection: %v", err)
			}
			select {
			case <-m.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("the mux does not notice that its connection is gone")
			}
			if _, err := m.Open(&wire.Request{Op: wire.OpPing}); err == nil {
				t.Errorf("a stream opens on a broken connection")
			}
		})
	}
}

// Closing a mux lets what was written before go out.
func TestMuxCloseFlushes(t *testing.T) {
	host, guest := socketPair(t)
	defer guest.Close()
	h, err := wire.HostMux(host, wire.Local())
	if err != nil {
		t.Fatal(err)
	}
	s, err := h.Open(&wire.Request{Op: wire.OpBye})
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("last words "), 1000)
	if _, err := wire.WriteData(s, content, 0); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
	arrived, err := io.ReadAll(guest)
	if err != nil || !bytes.Contains(arrived, []byte(`"bye"`)) || !bytes.Contains(arrived, content) {
		t.Errorf("%d bytes arrived, the last ones are missing: %v", len(arrived), err)
	}
}

// A profile from a peer is brought into range, whatever it says.
func TestProfileInRange(t *testing.T) {
	for _, p := range []wire.Profile{
		{},
		wire.Local(), wire.Network(),
		{WindowBytes: -1, ChunkBytes: -1, KeepAliveMS: -1, WriteTimeoutMS: -1},
		{WindowBytes: 1 << 62, ChunkBytes: 1 << 62, KeepAliveMS: 1 << 62, WriteTimeoutMS: 1 << 62},
		{WindowBytes: 1, ChunkBytes: 1, KeepAliveMS: 1, WriteTimeoutMS: 1},
	} {
		q := p.WithDefaults()
		if q.WindowBytes < 256<<10 || q.WindowBytes > 16<<20 || q.ChunkBytes < 4<<10 || q.ChunkBytes > wire.MaxDataBytes ||
			q.KeepAliveMS < 0 || q.KeepAliveMS > 3_600_000 || q.WriteTimeoutMS < 0 || q.WriteTimeoutMS > 3_600_000 {
			t.Errorf("%+v becomes %+v", p, q)
		}
		if q != q.WithDefaults() {
			t.Errorf("%+v is not settled", q)
		}
		a, b := net.Pipe()
		m, err := wire.GuestMux(a, p)
		if err != nil {
			t.Errorf("a mux with %+v: %v", p, err)
			continue
		}
		m.Close()
		b.Close()
	}
}

// A transport that takes nothing more is given up after the profile's write
// timeout, and not before.
func TestMuxWriteTimeout(t *testing.T) {
	host, guest := net.Pipe() // nobody reads guest
	defer guest.Close()
	m, err := wire.HostMux(host, wire.Profile{WriteTimeoutMS: 200, KeepAliveMS: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	select {
	case <-m.Done():
	case <-time.After(20 * time.Second):
		t.Error("a host that gets no answer to its probes never gives up")
	}
	if _, err := m.Open(&wire.Request{Op: wire.OpPing}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a stream on it: %v", err)
	}
}
