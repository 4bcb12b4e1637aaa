//go:build linux

package stream

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

const (
	// aheadBytes is how far a command is read ahead of what has been sent.
	aheadBytes = 256 << 10
	// headBytes is how much of each stream of a command with a key is kept from
	// its beginning, for one who asks for the same key again.
	headBytes = 1 << 20
	// quiet is for how long a pipe gives nothing before the end of a command
	// that left it open to a background child is reported.
	quiet = 50 * time.Millisecond
)

// Outlet carries one output stream of a command from its pipe to whoever reads it.
// It belongs to the command, not to a connection: a reader that is lost leaves its
// place, and the next one goes on where the host says.
//
// A reader that does not read stops the command. So does nobody, for a command
// without a key, until it is abandoned. One with a key runs on, but not before the first
// reader, and one that was lost, have had the resume window to come.
type Outlet struct {
	pipe    *os.File
	raw     syscall.RawConn
	buffers *Buffers
	keyed   bool
	tee     io.Writer // takes all that is read; nil: nobody does
	done    chan struct{}
	flow    flow // the pump's

	mu        sync.Mutex
	changed   sync.Cond // anything below has
	ring      *wire.Ring
	head      []byte     // keyed: the first headBytes
	tail      *wire.Ring // the last bytes, whoever reads; nil: not kept
	total     int64
	last      time.Time // when the last byte was read
	sent      int64     // how far the last reader that was lost had got
	readers   map[*reader]bool
	resume    time.Duration
	awaited   map[string]*time.Timer // keyed: clients that may come yet or again; "": any
	abandoned bool                   // nobody will read: count only
	settled   bool                   // the command is over: a reader that leaves does not come back
	forgotten bool                   // head was given up
	exited    bool                   // the leader has ended
	budget    int                    // what may still be read after that
	ended     bool
}

// reader is one data stream that an outlet is sent to. Its fields are guarded by
// the outlet's lock.
type reader struct {
	peer   *Peer
	stream *wire.Stream
	sent   int64
	gone   bool
	leaves bool // its client has said goodbye
}

// NewOutlet takes over the read end of a pipe, which must be non-blocking. window is
// what may be on its way to a host; keyed says that the command has a key.
func NewOutlet(pipe *os.File, window int, keyed bool, buffers *Buffers) (*Outlet, error) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := &Outlet{
		pipe: pipe, raw: raw, buffers: buffers, keyed: keyed, done: make(chan struct{}),
		ring:    wire.NewRing(window + aheadBytes + ChunkBytes),
		readers: map[*reader]bool{}, awaited: map[string]*time.Timer{},
	}
	o.changed.L = &o.mu
	return o, nil
}

// Await has a command with a key wait, once it would run away from them, for its first
// reader and for one that was lost, each for as long as resume. It is called before Pump.
func (o *Outlet) Await(resume time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.resume = resume; o.keyed {
		o.await("")
	}
}

// await waits for a client from now on. The caller holds the lock.
func (o *Outlet) await(client string) {
	if old := o.awaited[client]; old != nil {
		old.Stop()
	}
	var t *time.Timer
	t = time.AfterFunc(o.resume, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.awaited[client] == t {
			o.unawait(client)
			o.shrink()
		}
	})
	o.awaited[client] = t
}

// unawait waits for a client no longer. The caller holds the lock.
func (o *Outlet) unawait(client string) {
	if t := o.awaited[client]; t != nil {
		t.Stop()
		delete(o.awaited, client)
		o.changed.Broadcast()
	}
}

// Bye notes that a client has said goodbye: its readers are about to leave, and are not
// waited for.
func (o *Outlet) Bye(client string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unawait(client)
	for r := range o.readers {
		r.leaves = r.leaves || r.peer.Name == client
	}
	o.shrink()
}

// Collected notes that a client has all that it has asked for.
func (o *Outlet) Collected(client string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unawait(client)
	o.shrink()
}

// Tee has w take all that is read, in the order in which it is. It is called before
// Pump. What w returns is not heeded.
func (o *Outlet) Tee(w io.Writer) { o.tee = w }

// KeepTail keeps the last n bytes for Tail. It is called before Pump.
func (o *Outlet) KeepTail(n int) { o.tail = wire.NewRing(n) }

// Tail returns the last bytes that were read, as far as KeepTail said, and frees them.
func (o *Outlet) Tail() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tail == nil {
		return nil
	}
	p, _ := o.tail.From(o.tail.First())
	o.tail = nil
	return p
}

// Done is closed when the stream has ended for the command, although a background
// child may hold the pipe.
func (o *Outlet) Done() <-chan struct{} { return o.done }

// Pump reads the pipe to its end, or to what counts as the end of the command's
// output; then, for as long as a background child holds the pipe, to nowhere.
func (o *Outlet) Pump() {
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
func (o *Outlet) room() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if o.exited && o.budget <= 0 {
			return false
		}
		if o.abandoned || o.keyed && len(o.readers) == 0 && len(o.awaited) == 0 || o.total-o.pace() < aheadBytes {
			return true
		}
		o.changed.Wait()
	}
}

// pace is the offset that reading may not run away from: that of the fastest
// reader, so that of several none can stop the command for the others.
func (o *Outlet) pace() int64 {
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
func (o *Outlet) fill() bool {
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
	}
	if waitErr == nil && err == nil && n > 0 && !exited {
		o.flow.ease(o.raw, n)
	}
	return waitErr == nil && err == nil && n > 0
}

// readOnce reads what is there. A buffer is taken only while there is something to
// read: an idle command holds none.
func (o *Outlet) readOnce(fd int) (int, error) {
	buf := o.buffers.Get()
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
	if o.tee != nil {
		_, _ = o.tee.Write(p[:n])
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
	if o.tail != nil {
		o.tail.Write(p[:n])
	}
	o.total += int64(n)
	o.last = time.Now()
	o.changed.Broadcast()
	return n, nil
}

// LastOutput is when the command wrote last; now, while there is something that has
// not been read yet: then it is the reader who is slow. Zero: it never wrote.
func (o *Outlet) LastOutput() time.Time {
	unread := 0
	_ = o.raw.Control(func(fd uintptr) { unread, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	if unread > 0 {
		return time.Now()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// drain reads to nowhere until the last holder of the pipe has closed it.
func (o *Outlet) drain() {
	_ = o.pipe.SetReadDeadline(time.Time{})
	for {
		var n int
		var err error
		waitErr := o.raw.Read(func(fd uintptr) bool {
			buf := o.buffers.Get()
			defer o.buffers.Put(buf)
			n, err = ignoringEINTR(func() (int, error) { return unix.Read(int(fd), buf[:]) })
			return err != unix.EAGAIN
		})
		if waitErr != nil || err != nil || n <= 0 {
			return
		}
	}
}

// LeaderEnded starts the end of the stream. All that the leader wrote is in the
// pipe now, so at most the pipe's capacity has still to be read; a background child
// that writes on and on cannot hold up the result.
func (o *Outlet) LeaderEnded() {
	select {
	case <-o.done:
		return
	default:
	}
	capacity := ChunkBytes
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

// Abandon makes the outlet count only: nobody will read it any more.
func (o *Outlet) Abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abandonLocked()
}

func (o *Outlet) abandonLocked() {
	o.abandoned = true
	o.ring = wire.NewRing(0)
	o.changed.Broadcast()
}

// Settle is called when a command with a key is over. It frees what only a live
// reader can use, and returns how many bytes stay.
func (o *Outlet) Settle() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.head, o.tail = append([]byte(nil), o.head...), nil
	o.settled = true
	o.shrink()
	return int64(len(o.head))
}

// shrink frees what nobody will ask for again. The caller holds the lock.
func (o *Outlet) shrink() {
	if o.settled && len(o.readers) == 0 && len(o.awaited) == 0 {
		o.abandonLocked()
	}
}

// ForgetHead frees the kept beginning.
func (o *Outlet) ForgetHead() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.head, o.forgotten = nil, true
}

// Send sends the stream from offset on to s, a data stream of peer, and its end. It
// returns nil when that is done, ErrGone when nobody reads s any more, and otherwise
// what the host is to be told in place of the end.
func (o *Outlet) Send(peer *Peer, s *wire.Stream, offset int64) error {
	r := &reader{peer: peer, stream: s, sent: offset}
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
			if wire.WriteEnd(s) != nil {
				return o.broke(r)
			}
			return nil
		}
		_, err = wire.WriteData(s, buf[:n], peer.Chunk)
		o.buffers.Put(buf)
		if err != nil {
			return o.broke(r)
		}
		o.mu.Lock()
		r.sent += int64(n)
		o.changed.Broadcast()
		o.mu.Unlock()
	}
}

// join makes r a reader of the outlet. Any other reader of a command without a key
// is one from before the connection was lost, as is one of the same client on
// another connection: r takes its place.
func (o *Outlet) join(r *reader) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.sent < 0 || r.sent > o.total {
		return &spec.Error{Code: spec.CodeInvalid, Err: errors.New("the offset has not been reached")}
	}
	if !o.keyed && r.sent < o.ring.First() {
		return errNotKept
	}
	for other := range o.readers {
		if !o.keyed || other.peer.Name == r.peer.Name && other.peer != r.peer {
			o.drop(other)
		}
	}
	o.readers[r] = true
	o.unawait("")
	o.unawait(r.peer.Name)
	o.changed.Broadcast()
	return nil
}

var errNotKept = spec.New(spec.CodeUnknownOutcome, "the output from this offset on is no longer kept")

// drop ends r as a reader, wherever it is waiting. The caller holds the lock.
func (o *Outlet) drop(r *reader) {
	r.gone = true
	delete(o.readers, r)
	_ = r.stream.SetWriteDeadline(past)
	o.changed.Broadcast()
}

// watch ends r when its stream does: a host sends nothing on it. One that closes it
// on a living connection wants no more of the output; a lost one may come back.
func (o *Outlet) watch(r *reader) {
	Discard(r.stream)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.readers[r] {
		return
	}
	if r.peer.Lost() {
		o.lose(r)
		return
	}
	o.sent = max(o.sent, r.sent)
	o.drop(r)
	if !o.keyed {
		o.abandonLocked()
	}
	o.shrink()
}

// lose drops a reader whose connection is gone. The caller holds the lock.
func (o *Outlet) lose(r *reader) {
	if !o.readers[r] {
		return
	}
	o.drop(r)
	if o.keyed && len(o.awaited) == 0 { // nobody but r is waited for
		o.sent = 0
	}
	o.sent = max(o.sent, r.sent)
	if o.keyed && !r.leaves {
		o.await(r.peer.Name)
	}
	o.shrink()
}

// broke is lose for a write that failed, which may be known before the connection is.
func (o *Outlet) broke(r *reader) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lose(r)
	return ErrGone
}

// leave takes r out when it has been served.
func (o *Outlet) leave(r *reader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.readers[r] {
		o.sent = max(o.sent, r.sent)
		delete(o.readers, r)
		o.changed.Broadcast()
		if o.keyed && o.ended && !r.leaves {
			o.await(r.peer.Name) // what was sent may not come: see Collected
		}
		o.shrink()
	}
}

// next waits for what is to be sent to r and returns it in a pooled buffer; nothing
// means that the stream has ended.
func (o *Outlet) next(r *reader) (*[ChunkBytes]byte, int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for r.sent == o.total && !o.ended && !r.gone {
		o.changed.Wait()
	}
	switch {
	case r.gone:
		return nil, 0, ErrGone
	case r.sent == o.total:
		return nil, 0, nil
	}
	buf := o.buffers.Get()
	if r.sent < int64(len(o.head)) {
		return buf, copy(buf[:], o.head[r.sent:]), nil
	}
	n, ok := o.ring.CopyAt(buf[:], r.sent)
	if ok && n > 0 {
		return buf, n, nil
	}
	o.buffers.Put(buf)
	if o.keyed && r.sent == headBytes || o.forgotten && r.sent == 0 {
		return nil, 0, nil // what is kept has been sent: the totals tell that there was more
	}
	return nil, 0, errNotKept
}

// Flushed waits until what peer has asked for has been sent to it.
func (o *Outlet) Flushed(peer *Peer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		open := false
		for r := range o.readers {
			open = open || r.peer == peer
		}
		if !open {
			return
		}
		o.changed.Wait()
	}
}

// Bytes is the total of what the command wrote.
func (o *Outlet) Bytes() int64 {
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
