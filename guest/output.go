package guest

import (
	"errors"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// output is one stream of bytes that a command writes.
type output struct {
	fd       int
	w        io.Writer
	received atomic.Int64  // bytes, whether or not w took them
	most     atomic.Int64  // that may come; the exit says how many those are
	err      error         // w's; read after the output has ended
	patience time.Duration // how long may still be waited for output that is late; the pump's
	paused   bool          // late output did not come in time, and none has come since; the pump's

	turn   chan struct{} // holds one token: taken for each Write, and for good by shut
	closed chan struct{} // closed by shut
}

func newOutput(fd int, w io.Writer) *output {
	o := &output{fd: fd, w: w, patience: lateInAll, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	o.most.Store(math.MaxInt64)
	return o
}

// count is where an exit says how many bytes the stream had.
func (o *output) count(e *spec.Exit) *int64 {
	if o.fd == 1 {
		return &e.StdoutBytes
	}
	return &e.StderrBytes
}

// expect takes an exit's word for how many bytes the stream has in all. More than late
// of them cannot still be on their way.
func (o *output) expect(e *spec.Exit, late int64) error {
	want := *o.count(e)
	o.most.Store(want)
	if got := o.received.Load(); got > want || want-got > late {
		return o.differs(got, want)
	}
	return nil
}

func (o *output) differs(got, want int64) error {
	return violation("%d bytes came of the %d that the command wrote to stream %d", got, want, o.fd)
}

// shutGrace is how long shut waits for a Write that is under way.
const shutGrace = 100 * time.Millisecond

// shut ends the writing to w: when it returns none is under way and none follows,
// but for one that has been blocked for longer than shutGrace.
func (o *output) shut() {
	close(o.closed)
	select {
	case o.turn <- struct{}{}:
	default:
		select {
		case o.turn <- struct{}{}:
		case <-time.After(shutGrace):
		}
	}
}

// write hands b to the writer, unless it has failed or nobody waits for it any more.
func (o *output) write(b []byte) {
	if o.err != nil {
		return
	}
	select {
	case <-o.closed:
		return
	default:
	}
	select {
	case <-o.closed:
		return
	case o.turn <- struct{}{}:
	}
	n, err := o.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	o.err = err
	<-o.turn
}

// pump copies one output, over as many links as it takes. It reads on when the
// writer has failed: a command is never held up by a reader that has left.
func (p *process) pump(o *output, l *link) {
	for l != nil {
		err := p.receive(o, l)
		if err == nil {
			p.outputEnded()
			return
		}
		if errors.Is(err, errLost) {
			l.reportCut()
			l = l.follow()
			continue
		}
		p.outputFailed(err)
		return
	}
}

// outputFailed ends a command whose guest broke the protocol, or can no longer give
// what it owes. The streams of a command that did not start fail too, but then it is
// for the control stream to say why.
func (p *process) outputFailed(err error) {
	select {
	case <-p.started:
	case <-p.over:
	case <-time.After(lateOutput):
	}
	p.settle(spec.Exit{}, err)
	p.drop()
}

func (p *process) outputEnded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running--; p.running == 0 {
		close(p.drained)
	}
}

// The sizes of an output's buffer: it starts small, since most commands say little,
// and grows when it is filled.
const (
	firstBuffer = 4 << 10
	maxBuffer   = 64 << 10
)

// receive copies from l until the output ends. errLost: l broke first.
func (p *process) receive(o *output, l *link) error {
	st, err := p.openData(l, o.fd, o.received.Load())
	if err != nil {
		return err
	}
	r := wire.NewDataReader(st)
	buf := make([]byte, firstBuffer)
	for {
		late, began := l.await(st, o.patience), time.Now()
		n, err := r.Read(buf)
		if late {
			o.patience -= time.Since(began)
		}
		if n > 0 {
			o.paused = false
			if got := o.received.Add(int64(n)); got > o.most.Load() {
				return o.differs(got, o.most.Load())
			}
			o.write(buf[:n])
			if n == len(buf) && n < maxBuffer {
				buf = make([]byte, 4*n)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err == nil {
			continue
		}
		if !o.paused && p.s.o.Redial != nil && wire.IsTimeout(err) && l.owes() {
			// A machine that stood still meets its deadline before what has come by then,
			// and a disk that did holds up an honest guest. So another connection is asked
			// for the rest, once.
			o.paused = true
			l.c.drop()
			return errLost
		}
		return p.dataError(l, err)
	}
}

// openData opens a data stream of the command on l's connection.
func (p *process) openData(l *link, fd int, offset int64) (*wire.Stream, error) {
	req := &wire.Request{Op: wire.OpData, Data: &wire.DataRequest{ID: p.ID(), FD: fd, Offset: offset}}
	var st *wire.Stream
	err := p.s.dispatch(p.life, l.c, func(c *conn) (err error) {
		st, err = openNow(c, req)
		return err
	})
	if err != nil {
		return nil, p.dataError(l, err)
	}
	l.add(st)
	return st, nil
}

// dataError says why a data stream of l failed. A link that is given up, for
// whatever reason, is lost to its streams.
func (p *process) dataError(l *link, err error) error {
	select {
	case <-l.gone:
		return errLost
	case <-p.life.Done():
		return errLost
	default:
	}
	if errors.Is(err, errLost) {
		return errLost
	}
	return l.c.explain(err)
}
