package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
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

// said is what a stream of frames says, however it is cut: what each stream carries,
// and all other frames in their order.
type said struct {
	data   map[uint32]string
	others []string
	whole  bool // it ends with the end of a frame
}

// parse reads frames until they end, or until one that only a host may send.
func parse(r io.Reader) (s said, refused bool) {
	s.data = map[uint32]string{}
	for {
		var hdr [12]byte
		if n, err := io.ReadFull(r, hdr[:]); err != nil {
			s.whole = n == 0
			return s, false
		}
		kind, flags, id, length := hdr[1], binary.BigEndian.Uint16(hdr[2:]), binary.BigEndian.Uint32(hdr[4:]), binary.BigEndian.Uint32(hdr[8:])
		ours := hdr[0] == 0 && kind <= yamuxTypeWindow
		if flags&yamuxFlagSYN != 0 && (ours || kind == yamuxTypePing) {
			return s, true
		}
		if !ours || kind != yamuxTypeData {
			s.others = append(s.others, fmt.Sprint(hdr))
			continue
		}
		if flags != 0 {
			s.others = append(s.others, fmt.Sprint(id, flags))
		}
		body, _ := io.ReadAll(io.LimitReader(r, int64(length)))
		if len(body) > 0 {
			s.data[id] += string(body)
		}
		if uint32(len(body)) < length {
			return s, false
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

// throughGuard is what passes a guard of which the reads are cut anywhere.
func throughGuard(stream []byte, seed uint64) ([]byte, error) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	return io.ReadAll(pieces{newGuard(pieces{bytes.NewReader(stream), rnd}), rnd})
}

// FuzzGuard: what passes says the same as what came, up to the first frame that a
// guest may not send, which is refused; and a body is announced only as far as it is
// there.
func FuzzGuard(f *testing.F) {
	probe := yamuxFrame(yamuxTypePing, yamuxFlagSYN, 0, 7, "")
	f.Add(probe, uint64(1))
	f.Add(append(yamuxFrame(yamuxTypeData, 0, 1, 12, ""), probe...), uint64(2))
	f.Add(append(yamuxFrame(yamuxTypeData, 2, 1, 5, "hello"), yamuxFrame(yamuxTypeWindow, yamuxFlagFIN, 1, 0, "")...), uint64(3))
	f.Add(yamuxFrame(yamuxTypeWindow, yamuxFlagSYN, 2, 1<<31, ""), uint64(4))
	f.Add(yamuxFrame(yamuxTypeData, 0, 1, 1<<31, "half"), uint64(5))
	f.Add(append(yamuxFrame(3, 0, 0, 0, ""), yamuxFrame(yamuxTypePing, 2, 0, 7, "")...), uint64(6))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		want, refused := parse(bytes.NewReader(stream))
		passed, err := throughGuard(stream, seed)
		if errors.Is(err, ErrProtocol) != refused {
			t.Fatalf("the guard says %v, a frame that is refused is there: %v", err, refused)
		}
		got, _ := parse(bytes.NewReader(passed))
		if !got.whole {
			t.Error("half a frame has passed")
		}
		if fmt.Sprint(got.data) != fmt.Sprint(want.data) || fmt.Sprint(got.others) != fmt.Sprint(want.others) {
			t.Errorf("%v has passed\n%v came", got, want)
		}
	})
}

// A reader of a stream is never held up beyond its deadline by half a frame.
func TestHalfAFrame(t *testing.T) {
	host, guest := net.Pipe()
	defer guest.Close()
	m, err := HostMux(host, Local())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	go func() { _, _ = io.Copy(io.Discard, guest) }()
	st, err := m.Open(&Request{Op: OpPing})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = guest.Write(yamuxFrame(yamuxTypeData, 0, st.StreamID(), 1000, "half"))
	buf := make([]byte, 100)
	if n, err := st.Read(buf); err != nil || string(buf[:n]) != "half" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := st.Read(buf)
		read <- err
	}()
	st.Interrupt()
	select {
	case err := <-read:
		if err == nil {
			t.Error("an interrupted stream gives something")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a reader waits on")
	}
}

// A stream that was interrupted gives nothing more, though the guest never pauses.
func TestInterruptAmongAFlood(t *testing.T) {
	host, guest := net.Pipe()
	defer guest.Close()
	m, err := HostMux(host, Local())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	go func() { _, _ = io.Copy(io.Discard, guest) }()
	st, err := m.Open(&Request{Op: OpPing})
	if err != nil {
		t.Fatal(err)
	}
	body := string(make([]byte, 100<<10))
	if _, err := guest.Write(yamuxFrame(yamuxTypeData, 0, st.StreamID(), uint32(len(body)), body)); err != nil {
		t.Fatal(err)
	}
	if n, err := st.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	st.Interrupt()
	if n, err := st.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes after the interrupt", n)
	}
}

// What a guest sends on streams that the host has ended costs the host nothing: it is
// dropped, whenever it comes.
func TestEndedStreamsCostNothing(t *testing.T) {
	host, guest := net.Pipe()
	defer guest.Close()
	m, err := HostMux(host, Local())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	go func() { _, _ = io.Copy(io.Discard, guest) }()
	body := string(make([]byte, 200<<10))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const streams = 200
	var ids []uint32
	for range streams {
		st, err := m.Open(&Request{Op: OpPing})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, st.StreamID())
		sent := make(chan struct{})
		go func() { // while the stream ends
			defer close(sent)
			_, _ = guest.Write(yamuxFrame(yamuxTypeWindow, 2, st.StreamID(), 0, "")) // it is accepted
			_, _ = guest.Write(yamuxFrame(yamuxTypeData, 0, st.StreamID(), uint32(len(body)), body))
		}()
		if _, err := st.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		st.End()
		<-sent
	}
	for _, id := range ids { // and afterwards
		if _, err := guest.Write(yamuxFrame(yamuxTypeData, 0, id, uint32(len(body)), body)); err != nil {
			t.Fatal(err)
		}
	}
	const most = 8 << 20
	for i := 0; ; i++ {
		runtime.GC()
		runtime.ReadMemStats(&after)
		if after.HeapAlloc < before.HeapAlloc+most {
			break
		}
		if i == 100 {
			t.Fatalf("%d streams hold %d bytes", streams, after.HeapAlloc-before.HeapAlloc)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A guest that leaves thousands of ended streams open is cut off; one that closes
// them may go on for ever.
func TestStreamsThatAreNeverClosed(t *testing.T) {
	for name, tt := range map[string]struct {
		flags uint16
		cut   bool
	}{"never": {2, true}, "closed": {2 | yamuxFlagFIN, false}} {
		t.Run(name, func(t *testing.T) {
			host, guest := net.Pipe()
			defer guest.Close()
			m, err := HostMux(host, Local())
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			go func() {
				r := bufio.NewReader(guest)
				for {
					var hdr [12]byte
					if _, err := io.ReadFull(r, hdr[:]); err != nil {
						return
					}
					if hdr[1] == yamuxTypeData {
						_, _ = r.Discard(int(binary.BigEndian.Uint32(hdr[8:])))
						continue
					}
					if flags := binary.BigEndian.Uint16(hdr[2:]); flags&yamuxFlagSYN != 0 {
						_, _ = guest.Write(yamuxFrame(yamuxTypeWindow, tt.flags, binary.BigEndian.Uint32(hdr[4:]), 0, ""))
					}
				}
			}()
			for range maxLeft + 10 {
				st, err := m.Open(&Request{Op: OpPing})
				if err != nil {
					break
				}
				st.End()
			}
			select {
			case <-m.Done():
				if !tt.cut {
					t.Error("it is cut off")
				}
			default:
				if tt.cut {
					t.Error("it is not cut off")
				}
			}
		})
	}
}

// A guest that probes, or opens a stream, is cut off; it gets no answer for each
// probe, so a flood of them costs nothing.
func TestHostCutsOffAGuestThat(t *testing.T) {
	for name, sent := range map[string][]byte{
		"probes":                 bytes.Repeat(yamuxFrame(yamuxTypePing, yamuxFlagSYN, 0, 1, ""), 1000),
		"opens a stream":         yamuxFrame(yamuxTypeWindow, yamuxFlagSYN, 2, 0, ""),
		"opens many":             bytes.Repeat(yamuxFrame(yamuxTypeWindow, yamuxFlagSYN, 2, 0, ""), 1000),
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
