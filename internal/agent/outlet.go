//go:build linux

package agent

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

const (
	// chunkBytes is the size of the pooled buffers: one read, one data frame.
	chunkBytes = 64 << 10
	// aheadBytes is how far a command is read ahead of what has been sent.
	aheadBytes = 256 << 10
	// headBytes is how much of each stream of a command with a key is kept from
	// its beginning, for one who asks for the same key again.
	headBytes = 1 << 20
	// quiet is for how long a pipe gives nothing before the end of a command
	// that left it open to a background child is reported.
	quiet = 50 * time.Millisecond
)

// past is a deadline that has passed: setting it fails whatever waits.
var past = time.Unix(1, 0)

// outlet carries one output stream of a command from its pipe to whoever reads it.
// It belongs to the command, not to a connection: a reader that is lost leaves its
// place, and the next one goes on where the host says.
//
// A reader that does not read stops the command. So does nobody, for a command
// without a key, until it is abandoned; one with a key runs on.
type outlet struct {
	pipe    *os.File
	raw     syscall.RawConn
	buffers *sync.Pool // of *[chunkBytes]byte
	keyed   bool
	done    chan struct{} // closed when the stream has ended for the command

	mu        sync.Mutex
	changed   sync.Cond // anything below has
	ring      *wire.Ring
	head      []byte // keyed: the first headBytes
	total     int64
	sent      int64 // how far the last reader that was lost had got
	readers   map[*reader]bool
	abandoned bool // nobody will read: count only
	settled   bool // the command is over: a reader that leaves does not come back
	exited    bool // the leader has ended
	budget    int  // what may still be read after that
	ended     bool
}

// reader is one data stream that an outlet is sent to. Its fields are guarded by
// the outlet's lock.
type reader struct {
	client *client
	stream *wire.Stream
	sent   int64
	gone   bool
}

// newOutlet takes over the read end of a pipe, which must be non-blocking, and
// reads it from now on. window is what may be on its way to a host.
func newOutlet(pipe *os.File, window int, keyed bool, buffers *sync.Pool) (*outlet, error) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := &outlet{
		pipe: pipe, raw: raw, buffers: buffers, keyed: keyed, done: make(chan struct{}),
		ring:    wire.NewRing(window + aheadBytes + chunkBytes),
		readers: map[*reader]bool{},
	}
	o.changed.L = &o.mu
	return o, nil
}

// pump reads the pipe to its end, or to what counts as the end of the command's
// output; then, for as long as a background child holds the pipe, to nowhere.
func (o *outlet) pump() {
	defer o.pipe.Close()
	open := true
	for open && o.room() {
		open = o.fill()
	}
	o.mu.Lock()
	o.ended = true
	o.changed.Broadcast()
	o.mu.Unlock()
	close(o.done)
	if open {
		o.drain()
	}
}

// room waits until more may be read, and reports false once the command's output
// has ended although the pipe is open.
func (o *outlet) room() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if o.exited && o.budget <= 0 {
			return false
		}
		if o.abandoned || o.keyed && len(o.readers) == 0 || o.total-o.pace() < aheadBytes {
			return true
		}
		o.changed.Wait()
	}
}

// pace is the offset that reading may not run away from: that of the fastest
// reader, so that of several none can stop the command for the others.
func (o *outlet) pace() int64 {
	if len(o.readers) == 0 {
		return o.sent
	}
	fastest := int64(0)
	for r := range o.readers {
		fastest = max(fastest, r.sent)
	}
	return fastest
}

// fill reads once, waiting for as long as it takes, or after the leader's end until
// the pipe has been quiet. It reports whether there may be more.
func (o *outlet) fill() bool {
	o.mu.Lock()
	exited := o.exited
	o.mu.Unlock()
	if exited {
		_ = o.pipe.SetReadDeadline(time.Now().Add(quiet))
	}
	var n int
	var err error
	waitErr := o.raw.Read(func(fd uintptr) bool {
		n, err = o.readOnce(int(fd))
		return err != unix.EAGAIN
	})
	switch {
	case errors.Is(waitErr, os.ErrDeadlineExceeded) && exited:
		// The machine may have been too busy to look in time: what the
		// leader wrote is in the pipe, and quiet means that nothing is.
		_ = o.raw.Control(func(fd uintptr) { n, err = o.readOnce(int(fd)) })
		if err == unix.EAGAIN {
			o.mu.Lock()
			o.budget = 0
			o.mu.Unlock()
			return true
		}
		return err == nil && n > 0
	case errors.Is(waitErr, os.ErrDeadlineExceeded):
		return true // the leader has ended meanwhile
	default:
		return waitErr == nil && err == nil && n > 0
	}
}

// readOnce reads what is there. A buffer is taken only while there is something to
// read: an idle command holds none.
func (o *outlet) readOnce(fd int) (int, error) {
	buf := o.buffers.Get().(*[chunkBytes]byte)
	defer o.buffers.Put(buf)
	p := buf[:]
	o.mu.Lock()
	exited := o.exited
	if exited && o.budget < len(p) {
		p = p[:o.budget]
	}
	o.mu.Unlock()
	n, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, p) })
	if n <= 0 {
		return 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if exited {
		o.budget -= n
	}
	if o.keyed && len(o.head) < headBytes {
		o.head = append(o.head, p[:min(n, headBytes-len(o.head))]...)
	}
	if !o.abandoned {
		o.ring.Write(p[:n])
	}
	o.total += int64(n)
	o.changed.Broadcast()
	return n, nil
}

// drain reads to nowhere until the last holder of the pipe has closed it.
func (o *outlet) drain() {
	_ = o.pipe.SetReadDeadline(time.Time{})
	for {
		var n int
		var err error
		waitErr := o.raw.Read(func(fd uintptr) bool {
			buf := o.buffers.Get().(*[chunkBytes]byte)
			defer o.buffers.Put(buf)
			n, err = ignoringEINTR(func() (int, error) { return unix.Read(int(fd), buf[:]) })
			return err != unix.EAGAIN
		})
		if waitErr != nil || err != nil || n <= 0 {
			return
		}
	}
}

// leaderEnded starts the end of the stream. All that the leader wrote is in the
// pipe now, so at most the pipe's capacity has still to be read; a background child
// that writes on and on cannot hold up the result.
func (o *outlet) leaderEnded() {
	select {
	case <-o.done:
		return
	default:
	}
	capacity := chunkBytes
	_ = o.raw.Control(func(fd uintptr) {
		if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil {
			capacity = n
		}
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exited, o.budget = true, capacity
	o.changed.Broadcast()
	// A read that began before is made to look again. Under the lock: the pump
	// sets its own deadline only after it has seen that the leader has ended.
	_ = o.pipe.SetReadDeadline(past)
}

// abandon makes the outlet count only: nobody will read it any more.
func (o *outlet) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abandonLocked()
}

func (o *outlet) abandonLocked() {
	o.abandoned = true
	o.ring = wire.NewRing(0)
	o.changed.Broadcast()
}

// settle is called when a command with a key is over. It frees what only a live
// reader can use, and returns how many bytes stay.
func (o *outlet) settle() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.head = append([]byte(nil), o.head...)
	o.settled = true
	o.shrink()
	return int64(len(o.head))
}

// shrink frees what nobody will ask for again. The caller holds the lock.
func (o *outlet) shrink() {
	if o.settled && len(o.readers) == 0 {
		o.abandonLocked()
	}
}

// forgetHead frees the kept beginning.
func (o *outlet) forgetHead() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.head = nil
}

// send sends the stream from offset on to s, and its end. It returns when that is
// done, the reader has been replaced or lost, or the error that it was told.
func (o *outlet) send(cl *client, s *wire.Stream, offset int64) error {
	r := &reader{client: cl, stream: s, sent: offset}
	if err := o.join(r); err != nil {
		return err
	}
	go o.watch(r)
	defer o.leave(r)
	for {
		buf, n, err := o.next(r)
		if err != nil {
			return err
		}
		if n == 0 {
			return ended(r, s)
		}
		_, err = wire.WriteData(s, buf[:n], cl.profile.ChunkBytes)
		o.buffers.Put(buf)
		if err != nil {
			return errReaderGone
		}
		o.mu.Lock()
		r.sent += int64(n)
		o.changed.Broadcast()
		o.mu.Unlock()
	}
}

// errReaderGone says that there is nobody to tell an error.
var errReaderGone = errors.New("the reader is gone")

func ended(r *reader, s *wire.Stream) error {
	if wire.WriteEnd(s) != nil {
		return errReaderGone
	}
	return nil
}

// join makes r a reader of the outlet. Any other reader of a command without a key
// is one from before the connection was lost, as is one of the same client on
// another connection: r takes its place.
func (o *outlet) join(r *reader) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.sent < 0 || r.sent > o.total {
		return &spec.Error{Code: spec.CodeInvalid, Err: errors.New("the offset has not been reached")}
	}
	if !o.keyed && r.sent < o.ring.First() {
		return errNotKept
	}
	for other := range o.readers {
		if !o.keyed || other.client.name == r.client.name && other.client != r.client {
			o.drop(other)
		}
	}
	o.readers[r] = true
	o.changed.Broadcast()
	return nil
}

var errNotKept = spec.New(spec.CodeUnknownOutcome, "the output from this offset on is no longer kept")

// drop ends r as a reader, wherever it is waiting. The caller holds the lock.
func (o *outlet) drop(r *reader) {
	r.gone = true
	delete(o.readers, r)
	_ = r.stream.SetWriteDeadline(past)
	o.changed.Broadcast()
}

// watch ends r when its stream does: a host sends nothing on it. One that closes it
// on a living connection wants no more of the output; a lost one may come back.
func (o *outlet) watch(r *reader) {
	discard(r.stream)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.readers[r] {
		return
	}
	o.sent = max(o.sent, r.sent)
	o.drop(r)
	if !r.client.lost() && !o.keyed {
		o.abandonLocked()
	}
	o.shrink()
}

// leave takes r out when it has been served.
func (o *outlet) leave(r *reader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.readers[r] {
		o.sent = max(o.sent, r.sent)
		delete(o.readers, r)
		o.changed.Broadcast()
		o.shrink()
	}
}

// next waits for what is to be sent to r and returns it in a pooled buffer; nothing
// means that the stream has ended.
func (o *outlet) next(r *reader) (*[chunkBytes]byte, int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for r.sent == o.total && !o.ended && !r.gone {
		o.changed.Wait()
	}
	switch {
	case r.gone:
		return nil, 0, errReaderGone
	case r.sent == o.total:
		return nil, 0, nil
	}
	buf := o.buffers.Get().(*[chunkBytes]byte)
	if r.sent < int64(len(o.head)) {
		return buf, copy(buf[:], o.head[r.sent:]), nil
	}
	n, ok := o.ring.CopyAt(buf[:], r.sent)
	if ok && n > 0 {
		return buf, n, nil
	}
	o.buffers.Put(buf)
	if o.keyed && r.sent == headBytes {
		return nil, 0, nil // what follows the kept beginning is gone: the totals tell
	}
	return nil, 0, errNotKept
}

// flushed waits until what cl has asked for has been sent to it.
func (o *outlet) flushed(cl *client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		open := false
		for r := range o.readers {
			open = open || r.client == cl
		}
		if !open {
			return
		}
		o.changed.Wait()
	}
}

// bytes is the total of what the command wrote.
func (o *outlet) bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}
