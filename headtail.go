package berth

import (
	"fmt"
	"slices"
)

// headTail is a writer that keeps the first and the last bytes of a stream and
// counts those between. It takes everything: a full one never holds its writer up.
// Memory grows with what is written, up to the cap. It is not safe for concurrent
// use.
type headTail struct {
	headCap, tailCap int64

	head  []byte
	tail  []byte // a ring once it has tailCap bytes
	next  int    // where the ring's oldest byte is
	total int64
}

// newHeadTail returns a headTail that keeps limit bytes in all: the first half,
// the longer one if limit is odd, and the last.
func newHeadTail(limit int64) *headTail {
	return &headTail{headCap: limit - limit/2, tailCap: limit / 2}
}

// Write implements io.Writer; it never fails.
func (h *headTail) Write(p []byte) (int, error) {
	n := len(p)
	h.total += int64(n)
	k := min(h.headCap-int64(len(h.head)), int64(len(p)))
	h.head = append(h.head, p[:k]...)
	p = p[k:]
	k = min(h.tailCap-int64(len(h.tail)), int64(len(p)))
	h.tail = append(h.tail, p[:k]...)
	p = p[k:]
	if over := int64(len(p)) - h.tailCap; over > 0 {
		p = p[over:]
	}
	for len(p) > 0 {
		k := copy(h.tail[h.next:], p)
		h.next = (h.next + k) % len(h.tail)
		p = p[k:]
	}
	return n, nil
}

// Omitted is the number of bytes that were dropped.
func (h *headTail) Omitted() int64 {
	return h.total - int64(len(h.head)) - int64(len(h.tail))
}

// Bytes returns what is kept. It may share memory with h.
func (h *headTail) Bytes() []byte {
	if len(h.tail) == 0 {
		return h.head
	}
	out := make([]byte, 0, len(h.head)+len(h.tail))
	out = append(out, h.head...)
	out = append(out, h.tail[h.next:]...)
	return append(out, h.tail[:h.next]...)
}

// Text returns what is kept, with a line in place of what was dropped.
func (h *headTail) Text() []byte {
	if h.Omitted() == 0 {
		return h.Bytes()
	}
	out := h.Bytes()
	text := fmt.Appendf(nil, "\n... omitting %d bytes ...\n", h.Omitted())
	return slices.Insert(out, len(h.head), text...)
}
