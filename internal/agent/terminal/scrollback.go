//go:build linux

package terminal

import (
	"github.com/berth-dev/berth/internal/vt"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// The bounds of what is kept.
const (
	// windowBytes is how far a viewer may be behind what it was sent, and the fastest one
	// behind the program.
	windowBytes = 512 << 10
	// spareBytes are kept beyond that, so that a viewer whose connection was lost finds
	// what it had not received.
	spareBytes = 128 << 10
	// maxSizes is how many changes of the size are remembered.
	maxSizes = 1024
)

// scrollback is the end of a terminal's output, with what it takes to begin in its
// middle. It is not safe for concurrent use.
type scrollback struct {
	keep int64 // how much is replayed
	ring *wire.Ring
	// start is the parser of the program's output up to the oldest byte of the ring.
	start vt.Parser
	sizes []boundary // the first one is that of the oldest byte
}

// boundary is the size from an offset on.
type boundary struct {
	at   int64
	size spec.TerminalSize
}

func newScrollback(keep int, size spec.TerminalSize) *scrollback {
	return &scrollback{
		keep: int64(keep), ring: wire.NewRing(max(keep, windowBytes+spareBytes)),
		sizes: []boundary{{size: size}},
	}
}

// write takes output, at most as much as the ring holds.
func (s *scrollback) write(p []byte, limit int) {
	if over := s.ring.Total() - s.ring.First() + int64(len(p)) - int64(limit); over > 0 {
		s.scan(&s.start, s.ring.First(), s.ring.First()+over, nil)
	}
	s.ring.Write(p)
	for len(s.sizes) > 1 && s.sizes[1].at <= s.ring.First() {
		s.sizes = s.sizes[1:]
	}
}

// drop forgets all of the output.
func (s *scrollback) drop() {
	total := s.ring.Total()
	s.scan(&s.start, s.ring.First(), total, nil)
	s.sizes = s.sizes[len(s.sizes)-1:]
	s.ring.Forget()
}

// limit is how much the ring holds.
func (s *scrollback) limit() int { return max(int(s.keep), windowBytes+spareBytes) }

// resize makes the size that of what is written from now on.
func (s *scrollback) resize(size spec.TerminalSize) {
	total := s.ring.Total()
	if last := &s.sizes[len(s.sizes)-1]; last.at == total {
		last.size = size
		return
	}
	if len(s.sizes) == maxSizes {
		s.sizes = append(s.sizes[:1], s.sizes[2:]...)
	}
	s.sizes = append(s.sizes, boundary{total, size})
}

// sizeAt is the size at an offset, and where the next one begins: -1 for nowhere.
func (s *scrollback) sizeAt(offset int64) (size spec.TerminalSize, next int64) {
	next = -1
	for i := len(s.sizes) - 1; i >= 0; i-- {
		if s.sizes[i].at <= offset {
			return s.sizes[i].size, next
		}
		next = s.sizes[i].at
	}
	return s.sizes[0].size, next
}

// scan has the parser read from one offset to another, or until stop says so, and returns
// how far it got.
func (s *scrollback) scan(p *vt.Parser, from, to int64, stop func(at int64) bool) int64 {
	var buf [4 << 10]byte
	for from < to {
		n, ok := s.ring.CopyAt(buf[:min(int64(len(buf)), to-from)], from)
		if !ok || n == 0 {
			return from
		}
		for _, c := range buf[:n] {
			p.Next(c)
			from++
			if stop != nil && stop(from) {
				return from
			}
		}
	}
	return from
}

// How far a good beginning is looked for: the end of a line or sequence, else at least
// no middle of one.
const lookAhead = 4 << 10

// begin returns where to begin, no earlier than at an offset, and the modes there: the
// first byte of all, or one after the end of a line or of a sequence where one is near,
// else after a whole sequence and character.
func (s *scrollback) begin(offset int64) (at int64, modes vt.Modes) {
	first, total := s.ring.First(), s.ring.Total()
	offset = max(offset, first)
	p := s.start
	s.scan(&p, first, offset, nil)
	if offset == 0 || p.Break() {
		return offset, p.Modes
	}
	second, secondAt := p, int64(-1)
	if p.Clean() {
		secondAt = offset
	}
	at = s.scan(&p, offset, total, func(at int64) bool {
		if secondAt < 0 && p.Clean() {
			second, secondAt = p, at
		}
		return p.Break() || secondAt >= 0 && at-secondAt > lookAhead
	})
	if !p.Break() && secondAt >= 0 {
		return secondAt, second.Modes
	}
	return at, p.Modes
}

// kept is how much can be replayed.
func (s *scrollback) kept() int64 { return min(s.ring.Total()-s.ring.First(), s.keep) }
