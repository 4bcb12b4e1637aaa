package scrollback

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/berth-dev/berth/internal/vt"
	"github.com/berth-dev/berth/spec"
)

var size = spec.TerminalSize{Cols: 80, Rows: 24}

// all reads what is kept from an offset on.
func all(s *Buffer, from int64) []byte {
	p, _ := s.ring.From(from)
	return p
}

// Wherever a replay begins, it is at a clean point, and the modes that it says are those
// which a parser of all output has there.
func TestBeginIsClean(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	parts := []string{"word ", "€", "ünï", "\x1b[31m", "\x1b[?25l", "\x1b[?25h", "\x1b[?2004h", "\x1b]0;title\x07", "\x1b(0", "\x1b(B", "line\r\n", "𝄞"}
	s := New(20_000, size)
	var whole []byte
	for len(whole) < 3*s.limit {
		var p []byte
		for len(p) < 1+rng.IntN(5000) {
			p = append(p, parts[rng.IntN(len(parts))]...)
		}
		for len(p) > 0 { // cut anywhere
			n := min(len(p), 1+rng.IntN(1500))
			s.Write(p[:n])
			whole = append(whole, p[:n]...)
			p = p[n:]
		}
	}
	total := int64(len(whole))
	if !bytes.Equal(all(s, s.ring.First()), whole[s.ring.First():]) {
		t.Fatal("what is kept is not the end of what was written")
	}
	for range 30 {
		asked := s.ring.First() + rng.Int64N(total-s.ring.First()-lookAhead)
		at, modes := s.Begin(asked)
		var p vt.Parser
		p.Feed(whole[:at])
		if at < asked || at > asked+lookAhead || !p.Clean() || p.Modes != modes {
			t.Errorf("asked for %d: %d, clean %v, modes %q, want %q", asked, at, p.Clean(), modes.Restore(), p.Modes.Restore())
		}
		if rest := whole[at:]; !utf8.RuneStart(rest[0]) {
			t.Errorf("it begins within a character: %q", rest[:8])
		}
	}
	if at, _ := s.Replay(); total-at > s.keep || total-at < s.keep-lookAhead {
		t.Errorf("%d bytes are replayed of %d", total-at, s.keep)
	}
}

// What is short is replayed from its first byte.
func TestBeginOfAll(t *testing.T) {
	s := New(100, size)
	s.Write([]byte("\x82\xac no beginning"))
	if at, modes := s.Replay(); at != 0 || modes != (vt.Modes{}) {
		t.Errorf("at %d", at)
	}
}

// The sizes that are remembered are those of what is kept, however often they change.
func TestSizes(t *testing.T) {
	s := New(1, size)
	for i := range 3 * maxSizes {
		s.Write([]byte("x"))
		s.Resize(spec.TerminalSize{Cols: 1 + i%100, Rows: 5})
		s.Resize(spec.TerminalSize{Cols: 1 + i%100, Rows: 6})
	}
	if len(s.sizes) > maxSizes {
		t.Errorf("%d sizes", len(s.sizes))
	}
	if got, next := s.SizeAt(s.ring.Total()); got.Rows != 6 || next != -1 {
		t.Errorf("%v, %d", got, next)
	}
	if got, next := s.SizeAt(s.ring.Total() - 1); got.Rows != 6 || next != s.ring.Total() {
		t.Errorf("%v, %d", got, next)
	}
	for range 3 {
		s.Write(make([]byte, s.limit/2))
	}
	if fmt.Sprint(len(s.sizes)) != "1" {
		t.Errorf("%d sizes of what is not kept", len(s.sizes))
	}
	s.Drop()
	if s.Kept() != 0 || s.ring.First() != s.ring.Total() {
		t.Errorf("%d bytes are kept", s.Kept())
	}
}
