// Package stream carries the output of a command of backend/fake from its pipe to those
// who read it.
package stream

import (
	"io"
	"sync"
	"time"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/spec"
)

const (
	// aheadBytes is how far a command is read ahead of the fastest reader.
	aheadBytes = 64 << 10
	// headBytes is how much of each stream of a command with a key is kept from
	// its beginning, for one who asks for the key again.
	headBytes = 1 << 20
	chunk     = 32 << 10
)

// Outlet carries one output stream of a command from its pipe to those who read it. A
// reader that does not read stops the command; so does nobody, unless the command has a
// key or was abandoned.
type Outlet struct {
	pipe  *kernel.Pipe
	keyed bool
	tee   func(p []byte) // gets everything; nil if nobody wants it
	taken bool           // somebody asked for the stream: its bytes are counted
	over  chan struct{}  // closed when the stream has ended for the command
	halt  chan struct{}  // closed when the leader has ended, to stop a read that waits

	mu        sync.Mutex
	changed   sync.Cond
	buf       []byte // from base on
	base      int64
	total     int64
	readers   map[*Reader]bool
	expected  bool // the first reader has yet to come
	abandoned bool
	exited    bool  // the leader has ended
	target    int64 // where the stream ends then
	ended     bool
}

// Reader is one client's copy of a stream.
type Reader struct {
	o    *Outlet
	at   int64
	done chan struct{}
	err  error // of its writer; valid once done is closed
}

// Done is closed once all has been written, or the writer has failed.
func (r *Reader) Done() <-chan struct{} { return r.done }

// Err is the error of the writer, or why there was nothing to read. It is valid once
// Done is closed.
func (r *Reader) Err() error { return r.err }

// New returns an Outlet of a pipe. keyed says that the command has a key, taken that
// somebody asked for the stream, and tee, unless it is nil, gets all that is written.
func New(pipe *kernel.Pipe, keyed, taken bool, tee func(p []byte)) *Outlet {
	o := &Outlet{pipe: pipe, keyed: keyed, tee: tee, taken: taken, expected: taken, over: make(chan struct{}), halt: make(chan struct{}), readers: map[*Reader]bool{}}
	o.abandoned = !taken
	o.changed.L = &o.mu
	return o
}

// Over is closed when the stream has ended for the command.
func (o *Outlet) Over() <-chan struct{} { return o.over }

// LastWrite is when a command that began at a time has written last to any of its outlets,
// of which some may be nil. One that waits for a reader writes now.
func LastWrite(began time.Time, outlets []*Outlet) time.Time {
	last := began
	for _, o := range outlets {
		if o == nil {
			continue
		}
		st := o.pipe.Stats()
		if st.Blocked > 0 {
			return time.Now()
		}
		if st.Last.After(last) {
			last = st.Last
		}
	}
	return last
}

// Pump reads the pipe until the command's output has ended, and lets what a background
// child writes later vanish.
func (o *Outlet) Pump() {
	buf := make([]byte, chunk)
	for o.room() {
		n, err := o.pipe.Read(buf, o.until())
		if n > 0 {
			o.take(buf[:n])
		}
		if err == kernel.EINTR && !o.spent() {
			continue
		}
		if err != nil {
			break
		}
	}
	o.pipe.Drop()
	o.mu.Lock()
	o.ended = true
	o.changed.Broadcast()
	o.mu.Unlock()
	close(o.over)
}

// until ends a read that waits once the leader has ended.
func (o *Outlet) until() kernel.Until { return kernel.Until(o.halt) }

// spent reports whether all that the leader wrote has been read.
func (o *Outlet) spent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.exited && o.total >= o.target
}

// room waits until more may be read, and reports false when there is no more.
func (o *Outlet) room() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		switch {
		case o.exited && o.total >= o.target:
			return false
		case o.abandoned, len(o.readers) == 0 && o.keyed && !o.expected, o.total-o.pace() < aheadBytes:
			return true
		}
		o.changed.Wait()
	}
}

// pace is where the fastest reader is.
func (o *Outlet) pace() int64 {
	at := o.base
	for r := range o.readers {
		at = max(at, r.at)
	}
	return at
}

func (o *Outlet) take(p []byte) {
	if o.tee != nil {
		o.tee(p)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.abandoned {
		o.buf = append(o.buf, p...)
	}
	o.total += int64(len(p))
	o.trim()
	o.changed.Broadcast()
}

// trim forgets what nobody will read: all readers are past it, and of a command with a
// key its beginning is longer than what is kept.
func (o *Outlet) trim() {
	if o.keyed && o.total <= headBytes || o.expected {
		return
	}
	slowest := o.total
	for r := range o.readers {
		slowest = min(slowest, r.at)
	}
	if drop := slowest - o.base; drop > 0 && drop <= int64(len(o.buf)) {
		o.buf = o.buf[drop:]
		o.base = slowest
	}
}

// LeaderEnded starts the end of the stream: it ends with what has been written by now.
func (o *Outlet) LeaderEnded() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.exited {
		o.exited, o.target = true, o.pipe.Stats().Bytes
		close(o.halt)
		o.changed.Broadcast()
	}
}

// Abandon makes the outlet count only.
func (o *Outlet) Abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abandoned, o.buf = true, nil
	o.changed.Broadcast()
}

// Untaken says that nobody has come for the stream of a fresh command.
func (o *Outlet) Untaken() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.expected = false; !o.keyed {
		o.abandoned, o.buf = true, nil
	}
	o.changed.Broadcast()
}

// Bytes is how much the command wrote to the stream, if anybody asked for it.
func (o *Outlet) Bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.taken {
		return 0
	}
	return o.total
}

// Read copies the stream from its beginning to w, in a goroutine. before is asked
// before each piece.
func (o *Outlet) Read(w io.Writer, before func() error) *Reader {
	r := &Reader{o: o, done: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.readers[r] = true
	o.expected = false
	switch {
	case !o.taken:
		r.err = spec.New(spec.CodeInvalid, "the command was started without this stream")
	case o.base > 0:
		r.err = spec.New(spec.CodeTooLarge, "the output of the command is no longer kept from its beginning")
	}
	go r.run(w, before)
	return r
}

func (r *Reader) run(w io.Writer, before func() error) {
	o := r.o
	defer close(r.done)
	for r.err == nil {
		piece := r.next()
		if len(piece) == 0 {
			break
		}
		if r.err = before(); r.err == nil {
			_, r.err = w.Write(piece)
		}
		o.mu.Lock()
		r.at += int64(len(piece))
		o.trim()
		o.changed.Broadcast()
		o.mu.Unlock()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.readers, r)
	if !o.keyed {
		o.abandoned, o.buf = true, nil // nobody else will come
	}
	o.changed.Broadcast()
}

// next waits for the next piece; nothing is the end.
func (r *Reader) next() []byte {
	o := r.o
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.ended && !o.abandoned && o.total == r.at {
		o.changed.Wait()
	}
	if o.abandoned || r.at == o.total {
		return nil
	}
	from := r.at - o.base
	piece := o.buf[from:min(from+chunk, int64(len(o.buf)))]
	return append([]byte(nil), piece...)
}
