package wire

// Ring keeps the last bytes of a stream, so that a sender can repeat what a lost
// connection swallowed. It is not safe for concurrent use. The zero value keeps
// nothing; NewRing sets the most that it keeps. Memory grows with what is written,
// up to that.
type Ring struct {
	limit int
	buf   []byte
	start int   // index of the oldest byte
	n     int   // bytes kept
	total int64 // bytes ever written
}

// NewRing returns a ring that keeps the last limit bytes.
func NewRing(limit int) *Ring { return &Ring{limit: limit} }

// Total is the number of bytes ever written: the offset of the next one.
func (r *Ring) Total() int64 { return r.total }

// First is the offset of the oldest byte that is kept.
func (r *Ring) First() int64 { return r.total - int64(r.n) }

// Write appends p and forgets the oldest bytes over the limit.
func (r *Ring) Write(p []byte) {
	r.total += int64(len(p))
	if len(p) >= r.limit {
		r.grow(r.limit)
		r.start, r.n = 0, copy(r.buf, p[len(p)-r.limit:])
		return
	}
	r.grow(min(r.limit, r.n+len(p)))
	if over := r.n + len(p) - len(r.buf); over > 0 {
		r.start, r.n = (r.start+over)%len(r.buf), r.n-over
	}
	end := (r.start + r.n) % max(len(r.buf), 1)
	k := copy(r.buf[end:], p)
	copy(r.buf, p[k:])
	r.n += len(p)
}

// Forget gives up all bytes that are kept, and their memory.
func (r *Ring) Forget() { r.buf, r.start, r.n = nil, 0, 0 }

// grow makes room for need bytes in all: doubling, up to the limit.
func (r *Ring) grow(need int) {
	if need <= len(r.buf) {
		return
	}
	size := min(max(need, 2*len(r.buf), 4<<10), r.limit)
	next := make([]byte, size)
	k := copy(next, r.buf[r.start:min(r.start+r.n, len(r.buf))])
	copy(next[k:], r.buf[:r.n-k])
	r.buf, r.start = next, 0
}

// From returns a copy of everything from offset on. ok is false if it is no longer
// kept, or was never written.
func (r *Ring) From(offset int64) (p []byte, ok bool) {
	if offset < r.First() || offset > r.total {
		return nil, false
	}
	skip := int(offset - r.First())
	p = make([]byte, 0, r.n-skip)
	for i := skip; i < r.n; {
		at := (r.start + i) % len(r.buf)
		k := min(r.n-i, len(r.buf)-at)
		p = append(p, r.buf[at:at+k]...)
		i += k
	}
	return p, true
}

// CopyAt copies what is kept from offset on into p and returns how much that was.
// ok is false as for From. It is From for a caller who has a buffer.
func (r *Ring) CopyAt(p []byte, offset int64) (n int, ok bool) {
	if offset < r.First() || offset > r.total {
		return 0, false
	}
	for i := int(offset - r.First()); i < r.n && n < len(p); {
		at := (r.start + i) % len(r.buf)
		k := copy(p[n:], r.buf[at:min(at+r.n-i, len(r.buf))])
		n += k
		i += k
	}
	return n, true
}
