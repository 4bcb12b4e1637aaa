// Package scrollback keeps the end of a terminal's output, with what it takes to begin a
// replay in its middle. It knows no terminal and no viewer.
package scrollback

import (
	"github.com/berth-dev/berth/internal/vt"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// The bounds of what is kept.
const (
	// WindowBytes is how far a viewer may be behind what it was sent, and the fastest one
	// behind the program.
	WindowBytes = 512 << 10
	// spareBytes are kept beyond that, so that a viewer whose connection was lost finds
	// what it had not received.
	spareBytes = 128 << 10
	// maxSizes is how many changes of the size are remembered.
	maxSizes = 1024
)

// Buffer is the end of one terminal's output. It is not safe for concurrent use.
type Buffer struct {
	keep  int64 // how much is replayed
	limit int   // how much the ring holds
	ring  *wire.Ring
	// start is the parser of the program's output up to the oldest byte of the ring.
	start vt.Parser
	sizes []boundary // the first one is that of the oldest byte
}

// boundary is the size from an offset on.
type boundary struct {
	at   int64
	size spec.TerminalSize
}

// New returns a Buffer that replays at most the last keep bytes of a terminal that begins
// with a size.
func New(keep int, size spec.TerminalSize) *Buffer {
	limit := max(keep, WindowBytes+spareBytes)
	return &Buffer{keep: int64(keep), limit: limit, ring: wire.NewRing(limit), sizes: []boundary{{size: size}}}
}

// Write takes output, at most WindowBytes of it at a time.
func (s *Buffer) Write(p []byte) {
	if over := s.ring.Total() - s.ring.First() + int64(len(p)) - int64(s.limit); over > 0 {
		s.scan(&s.start, s.ring.First(), s.ring.First()+over, nil)
	}
	s.ring.Write(p)
	for len(s.sizes) > 1 && s.sizes[1].at <= s.ring.First() {
		s.sizes = s.sizes[1:]
	}
}

// Drop forgets all of the output.
func (s *Buffer) Drop() {
	total := s.ring.Total()
	s.scan(&s.start, s.ring.First(), total, nil)
	s.sizes = s.sizes[len(s.sizes)-1:]
	s.ring.Forget()
}

// Total is how much was ever written: the offset of the next byte.
func (s *Buffer) Total() int64 { return s.ring.Total() }

// First is the offset of the oldest byte that is there, for one who has seen what comes
// before it.
func (s *Buffer) First() int64 { return s.ring.First() }

// CopyAt copies what is there from an offset on into p and returns how much that was: none
// if the offset is not there any more.
func (s *Buffer) CopyAt(p []byte, offset int64) int {
	n, _ := s.ring.CopyAt(p, offset)
	return n
}

// Resize makes the size that of what is written from now on.
func (s *Buffer) Resize(size spec.TerminalSize) {
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

// SizeAt is the size at an offset, and where the next one begins: -1 for nowhere.
func (s *Buffer) SizeAt(offset int64) (size spec.TerminalSize, next int64) {
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
func (s *Buffer) scan(p *vt.Parser, from, to int64, stop func(at int64) bool) int64 {
	var buf [4 << 10]byte
	for from < to {
		n := s.CopyAt(buf[:min(int64(len(buf)), to-from)], from)
		if n == 0 {
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

// Begin returns where to begin, no earlier than at an offset, and the modes there: the
// first byte of all, or one after the end of a line or of a sequence where one is near,
// else after a whole sequence and character.
func (s *Buffer) Begin(offset int64) (at int64, modes vt.Modes) {
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

// Replay is Begin for one who has seen nothing: as early as is replayed.
func (s *Buffer) Replay() (at int64, modes vt.Modes) { return s.Begin(s.ring.Total() - s.keep) }

// Kept is how much can be replayed.
func (s *Buffer) Kept() int64 { return min(s.ring.Total()-s.ring.First(), s.keep) }
