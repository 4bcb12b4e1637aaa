package guest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// The frames of the mux, as they are on the wire.
const (
	muxData, muxWindow, muxPing, muxGoAway = 0, 1, 2, 3

	muxSYN, muxACK, muxFIN, muxRST = 1, 2, 4, 8
)

func muxFrame(kind byte, flags uint16, stream, length uint32) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, kind}, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return binary.BigEndian.AppendUint32(b, length)
}

// onOpen calls answer with the id of each stream that the host opens.
func onOpen(c *fakeConn, answer func(id uint32)) {
	for {
		var hdr [12]byte
		if _, err := io.ReadFull(c.raw, hdr[:]); err != nil {
			return
		}
		switch {
		case hdr[1] == muxData:
			_, _ = io.CopyN(io.Discard, c.raw, int64(binary.BigEndian.Uint32(hdr[8:])))
		case binary.BigEndian.Uint16(hdr[2:])&muxSYN != 0:
			go answer(binary.BigEndian.Uint32(hdr[4:]))
		}
	}
}

// A guest that breaks the rules of the mux itself costs the caller his call and the
// session its connection, and the host neither memory nor a goroutine.
func TestMuxViolations(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for bounds of 10 s and more: the full tier has it")
	}
	megabyte := make([]byte, 1<<20)
	for _, tt := range []struct {
		name   string
		answer func(c *fakeConn, id uint32)
		late   bool // nothing of it ends the call but its ctx
	}{
		{"more than the window", func(c *fakeConn, id uint32) {
			for range 4 {
				_, _ = c.raw.Write(append(muxFrame(muxData, 0, id, uint32(len(megabyte))), megabyte...))
			}
		}, false},
		{"4 GiB in one frame", func(c *fakeConn, id uint32) {
			_, _ = c.raw.Write(muxFrame(muxData, muxACK, id, 1<<32-1))
			for {
				if _, err := c.raw.Write(megabyte); err != nil {
					return
				}
			}
		}, false},
		{"half a frame", func(c *fakeConn, id uint32) {
			_, _ = c.raw.Write(append(muxFrame(muxData, muxACK, id, 1000), 'J', 0, 0))
		}, true},
		{"half a header", func(c *fakeConn, _ uint32) { _, _ = c.raw.Write(muxFrame(muxData, 0, 1, 5)[:7]) }, true},
		{"a stream of its own", func(c *fakeConn, _ uint32) { _, _ = c.raw.Write(muxFrame(muxWindow, muxSYN, 2, 0)) }, false},
		{"the host's stream again", func(c *fakeConn, id uint32) { _, _ = c.raw.Write(muxFrame(muxData, muxSYN, id, 0)) }, false},
		{"probes", func(c *fakeConn, _ uint32) {
			_, _ = c.raw.Write(bytes.Repeat(muxFrame(muxPing, muxSYN, 0, 1), 10_000))
		}, false},
		{"answers to no probe", func(c *fakeConn, _ uint32) {
			_, _ = c.raw.Write(bytes.Repeat(muxFrame(muxPing, muxACK, 0, 1), 10_000))
		}, true},
		{"streams that there are not", func(c *fakeConn, _ uint32) {
			for id := uint32(1 << 20); id < 1<<20+100; id++ {
				_, _ = c.raw.Write(append(muxFrame(muxData, 0, id, 1<<20), megabyte...))
			}
		}, true},
		{"a window of 2 GiB, again and again", func(c *fakeConn, id uint32) {
			_, _ = c.raw.Write(bytes.Repeat(muxFrame(muxWindow, muxACK, id, 1<<31), 1000))
		}, true},
		{"an end, twice", func(c *fakeConn, id uint32) {
			_, _ = c.raw.Write(bytes.Repeat(muxFrame(muxWindow, muxFIN, id, 0), 2))
		}, false},
		{"a reset", func(c *fakeConn, id uint32) { _, _ = c.raw.Write(muxFrame(muxWindow, muxRST, id, 0)) }, false},
		{"a farewell", func(c *fakeConn, _ uint32) { _, _ = c.raw.Write(muxFrame(muxGoAway, 0, 0, 0)) }, true},
		{"an angry farewell", func(c *fakeConn, _ uint32) { _, _ = c.raw.Write(muxFrame(muxGoAway, 0, 0, 2)) }, false},
		{"another version", func(c *fakeConn, _ uint32) { _, _ = c.raw.Write(bytes.Repeat([]byte{7}, 12)) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, nil)
			var once sync.Once
			f.bare = func(c *fakeConn) {
				onOpen(c, func(id uint32) { once.Do(func() { tt.answer(c, id) }) })
			}
			s := f.open(guest.OpenOptions{})
			grown := watchMemory(t)
			quickly(t, 8*time.Second, "a ping", func() {
				ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
				defer cancel()
				if tt.late {
					ctx, cancel = context.WithTimeout(context.Background(), 300*time.Millisecond)
					defer cancel()
				}
				err := s.Ping(ctx)
				if tt.late != errors.Is(err, context.DeadlineExceeded) || !tt.late && spec.CodeOf(err) == "" {
					t.Errorf("%v", err)
				}
			})
			if n := grown(); n > sessionBytes {
				t.Errorf("the host has used %d MiB more", n>>20)
			}
			quickly(t, 6*time.Second, "close", func() { s.Close(context.Background()) })
		})
	}
}

// Calls that were given up leave no memory behind, though the guest fills every stream
// and closes none.
func TestAbandonedCallsCostNothing(t *testing.T) {
	const calls = 150
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { flood(st) })
	s := f.open(guest.OpenOptions{})
	grown := watchMemory(t)
	for range calls {
		wantCode(t, s.Ping(context.Background()), spec.CodeInternal)
	}
	var m runtime.MemStats
	within(t, 10*time.Second, func() bool {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc < sessionBytes
	}, func() string { return "the calls are not forgotten" })
	t.Logf("at most %d KiB more", grown()>>10)
}

// However many callers give up on a transport that takes nothing, a bounded number of
// goroutines waits for it.
func TestManyCallsOnAStuckTransport(t *testing.T) {
	noLeaks(t)
	host, raw := net.Pipe()
	defer raw.Close()
	go func() {
		_, _ = wire.AcceptHello(raw, func(*wire.HostHello) (*wire.GuestHello, error) { return &wire.GuestHello{ID: "stuck"}, nil })
	}()
	s, err := guest.Open(context.Background(), host, guest.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	name := strings.Repeat("a", 4000)
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := s.Files().Stat(ctx, name, files.StatOptions{}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
			})
		}
		quickly(t, 5*time.Second, "a hundred calls", wg.Wait)
		cancel()
	}
	const most = 900 // those that wait, those that end them, and what was let through before
	within(t, 10*time.Second, func() bool { return runtime.NumGoroutine() < most }, func() string {
		return "too many goroutines wait:\n" + ours()[:20_000]
	})
}

// What a guest may say of itself is taken only as far as it can be true.
func TestHelloOfALiar(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for bounds of 10 s and more: the full tier has it")
	}
	hello := func(change func(*wire.GuestHello)) func(raw net.Conn) {
		return func(raw net.Conn) {
			_, _ = wire.AcceptHello(raw, func(*wire.HostHello) (*wire.GuestHello, error) {
				g := &wire.GuestHello{ID: "mine", OS: "linux", Arch: "amd64", KillTree: "confirmed", ResumeMS: 1000}
				change(g)
				return g, nil
			})
			_, _ = io.Copy(io.Discard, raw)
		}
	}
	say := func(b ...byte) func(raw net.Conn) {
		return func(raw net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, raw) }()
			_, _ = raw.Write(b)
		}
	}
	text := func(s string) func(raw net.Conn) {
		return say(append(binary.BigEndian.AppendUint32([]byte("BRTH"), uint32(len(s))), s...)...)
	}
	for _, tt := range []struct {
		name string
		tell func(raw net.Conn)
		code spec.Code // "": it is taken; "late": the context's error
		look func(caps spec.Caps) bool
	}{
		{"the truth", hello(func(*wire.GuestHello) {}), "", nil},
		{"a later minor version", text(`{"major":1,"minor":99,"id":"mine","os":"linux","arch":"amd64","verdict":[1]}`), "", nil},
		{"a later major version", text(`{"major":99,"minor":99,"id":"mine"}`), spec.CodeUnsupported, nil},
		{"a version of -1", text(`{"major":-1,"id":"mine"}`), spec.CodeUnsupported, nil},
		{"another sandbox", hello(func(g *wire.GuestHello) { g.ID = "another" }), spec.CodeUnavailable, nil},
		{"no sandbox", hello(func(g *wire.GuestHello) { g.ID = "" }), spec.CodeUnavailable, nil},
		{"a newer owner", text(`{"err":{"code":"stale_owner"}}`), spec.CodeStaleOwner, nil},
		{"an error of no code", text(`{"err":{"code":"ok"}}`), spec.CodeInternal, nil},
		{"the highest epoch", hello(func(g *wire.GuestHello) { g.Epoch = 1<<64 - 1 }), "", nil},
		{"a process of -1", hello(func(g *wire.GuestHello) { g.PID, g.UID = -1, -1 }), "", nil},
		{"a resume window of 300 years", hello(func(g *wire.GuestHello) { g.ResumeMS = 1<<63 - 1 }), "", nil},
		{"a resume window of -300 years", hello(func(g *wire.GuestHello) { g.ResumeMS = -1 << 63 }), "", func(c spec.Caps) bool { return !c.Resume }},
		{"a kill that is more than confirmed", hello(func(g *wire.GuestHello) { g.KillTree = "absolute" }), "", func(c spec.Caps) bool { return c.KillTree == "" }},
		{"a system with escapes", hello(func(g *wire.GuestHello) { g.OS = "\x1b[31mlinux" }), spec.CodeInternal, nil},
		{"a machine with escapes", hello(func(g *wire.GuestHello) { g.Arch = "a\n" }), spec.CodeInternal, nil},
		{"a long workdir", hello(func(g *wire.GuestHello) { g.Workdir = make([]byte, 5000) }), spec.CodeInternal, nil},
		{"a long version", hello(func(g *wire.GuestHello) { g.Version = strings.Repeat("v", 300) }), spec.CodeInternal, nil},
		{"brackets", text(strings.Repeat("[", 60_000)), spec.CodeUnavailable, nil},
		{"no object", text(`"hello"`), spec.CodeUnavailable, nil},
		{"4 GiB", say('B', 'R', 'T', 'H', 255, 255, 255, 255), spec.CodeUnavailable, nil},
		{"half of it", say('B', 'R', 'T', 'H', 0, 0, 1, 0, '{'), "late", nil},
		{"half of the magic", say('B', 'R'), "late", nil},
		{"a flood", func(raw net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, raw) }()
			for {
				if _, err := raw.Write([]byte(strings.Repeat("\x1b[2J", 10_000))); err != nil {
					return
				}
			}
		}, spec.CodeUnavailable, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			host, raw := net.Pipe()
			defer raw.Close()
			go tt.tell(raw)
			grown := watchMemory(t)
			quickly(t, 4*time.Second, "open", func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				s, err := guest.Open(ctx, host, guest.OpenOptions{ID: "mine", Authority: driver.Authority{Epoch: 3}, Redial: func(context.Context) (io.ReadWriteCloser, error) { return nil, errPlain }})
				switch {
				case tt.code == "late":
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v", err)
					}
				case tt.code != "":
					wantCode(t, err, tt.code)
					if strings.ContainsRune(err.Error(), '\x1b') {
						t.Errorf("the error %q has an escape", err)
					}
				case err != nil:
					t.Errorf("%v", err)
				}
				if err == nil {
					if tt.look != nil && !tt.look(s.Caps()) {
						t.Errorf("%+v", s.Caps())
					}
					s.Close(context.Background())
				}
			})
			if n := grown(); n > 4<<20 {
				t.Errorf("the host has used %d KiB more", n>>10)
			}
		})
	}
}
