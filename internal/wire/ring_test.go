package wire_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
)

// compare checks a ring against everything that was ever written to it.
func compare(t *testing.T, r *wire.Ring, all []byte, limit int) {
	t.Helper()
	first := int64(max(0, len(all)-limit))
	if r.Total() != int64(len(all)) || r.First() != first {
		t.Fatalf("first %d, total %d; want %d, %d", r.First(), r.Total(), first, len(all))
	}
	for _, offset := range []int64{first, first + 1, (first + r.Total()) / 2, r.Total() - 1, r.Total()} {
		if offset < first || offset > r.Total() {
			continue
		}
		want := all[offset:]
		if got, ok := r.From(offset); !ok || !bytes.Equal(got, want) {
			t.Fatalf("from %d: %d bytes, %v; want %d", offset, len(got), ok, len(want))
		}
		for _, size := range []int{0, 1, len(want) / 2, len(want), len(want) + 7} {
			buf := make([]byte, size)
			n, ok := r.CopyAt(buf, offset)
			if !ok || n != min(size, len(want)) || !bytes.Equal(buf[:n], want[:n]) {
				t.Fatalf("copy of %d at %d: %d, %v", size, offset, n, ok)
			}
		}
	}
	for _, offset := range []int64{-1, first - 1, r.Total() + 1} {
		if offset == -1 || offset < first || offset > r.Total() {
			_, ok := r.From(offset)
			_, okCopy := r.CopyAt(make([]byte, 1), offset)
			if ok || okCopy {
				t.Fatalf("from %d is answered, kept is %d to %d", offset, first, r.Total())
			}
		}
	}
}

// A ring keeps exactly the last bytes up to its limit.
func TestRingAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []int{0, 1, 2, 3, 100, 4096, 5000, 20_000} {
		for range 10 {
			r, all := wire.NewRing(limit), []byte(nil)
			for range 60 {
				p := make([]byte, rnd.IntN(1+limit/2+rnd.IntN(2*limit+3)))
				for i := range p {
					p[i] = byte(rnd.Uint32())
				}
				r.Write(p)
				all = append(all, p...)
				compare(t, r, all, limit)
			}
		}
	}
	var zero wire.Ring
	zero.Write([]byte("abc"))
	compare(t, &zero, []byte("abc"), 0)
}

// What a ring gives out is a copy: later writes do not change it.
func TestRingGivesCopies(t *testing.T) {
	r := wire.NewRing(8)
	r.Write([]byte("12345678"))
	got, _ := r.From(0)
	r.Write([]byte("abcdefgh"))
	if string(got) != "12345678" {
		t.Errorf("the copy has become %q", got)
	}
}

func FuzzRing(f *testing.F) {
	f.Add(uint16(10), []byte{3, 5, 0, 20, 1})
	f.Add(uint16(5000), []byte{255, 255, 255, 1, 255})
	f.Fuzz(func(t *testing.T, limit uint16, writes []byte) {
		if len(writes) > 200 {
			return
		}
		r, all := wire.NewRing(int(limit)), []byte(nil)
		for i, n := range writes {
			p := bytes.Repeat([]byte{byte(i)}, int(n)*int(n)/16)
			r.Write(p)
			all = append(all, p...)
		}
		compare(t, r, all, int(limit))
	})
}
