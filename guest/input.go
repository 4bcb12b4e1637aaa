package guest

import (
	"io"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// input is the stream of bytes that a command reads.
type input struct {
	r     io.Reader
	chunk int
	// ring keeps what was sent last, for a connection that swallows it.
	ring *wire.Ring
	skip int64 // bytes at the beginning that the guest already has
	// full brings what was read, and is closed at the end of the input; free
	// takes the buffers back. There are two, so that one is read into while
	// the other is sent.
	full, free chan []byte

	stopped chan struct{} // closed when the command takes no more, or has ended

	mu      sync.Mutex
	isEnded bool         // stopped is closed
	reached int64        // the highest byte that the guest has asked for
	st      *wire.Stream // the current one
	err     error        // r's
}

func newInput(r io.Reader, p Profile) *input {
	in := &input{
		r: r, chunk: p.ChunkBytes,
		ring: wire.NewRing(p.WindowBytes + p.ChunkBytes),
		full: make(chan []byte), free: make(chan []byte, 2), stopped: make(chan struct{}),
	}
	in.free <- nil
	in.free <- nil
	return in
}

// stop ends the sending, also one that is blocked.
func (in *input) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.isEnded {
		return
	}
	in.isEnded = true
	close(in.stopped)
	if in.st != nil {
		_ = in.st.SetDeadline(past)
	}
}

// past is a deadline that is over: what waits fails, what need not wait goes on.
var past = time.Unix(1, 0)

// use makes st the stream that stop ends.
func (in *input) use(st *wire.Stream) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.st = st
	if in.isEnded {
		_ = st.SetDeadline(past)
	}
}

func (in *input) readError() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}

// read reads the caller's reader until it ends or the command takes no more. It is
// the one goroutine that a Read which blocks can hold.
func (in *input) read() {
	defer close(in.full)
	for {
		var buf []byte
		select {
		case buf = <-in.free:
		case <-in.stopped:
			return
		}
		if buf == nil {
			buf = make([]byte, in.chunk)
		}
		n, err := in.r.Read(buf)
		if n > 0 {
			select {
			case in.full <- buf[:n]:
			case <-in.stopped:
				return
			}
		} else {
			in.free <- buf
		}
		if err != nil {
			if err != io.EOF {
				in.mu.Lock()
				in.err = err
				in.mu.Unlock()
			}
			return
		}
	}
}

// supply sends the input, over as many links as it takes.
func (p *process) supply(l *link) {
	for l != nil {
		select {
		case <-p.in.stopped:
			return
		default:
		}
		if err := p.send(l); err != nil {
			p.settle(spec.Exit{}, err)
			p.drop()
			return
		}
		l = l.follow()
	}
}

// send sends on l from the byte that the guest wants next to the end of the input,
// and returns when there is no more to do on l. A broken link is no error: the
// supervisor learns of it by itself.
func (p *process) send(l *link) error {
	st, err := p.openData(l, 0, 0)
	if err != nil {
		return nil
	}
	p.in.use(st)
	reply, err := wire.ReadReply(st)
	if err != nil {
		if p.dataError(l, err) != errLost { //nolint:errorlint // the bare sentinel
			p.in.stop() // the guest takes none; the control stream says why
		}
		return nil
	}
	rest, err := p.in.from(reply.Offset, p.key != "")
	if err != nil {
		return err
	}
	go func() { // a second reply says that the command takes no more
		if _, err := wire.ReadReply(st); err == nil {
			p.in.stop()
		}
	}()
	if _, err := wire.WriteData(st, rest, p.in.chunk); err != nil {
		return nil
	}
	for {
		select {
		case buf, ok := <-p.in.full:
			if !ok {
				_ = wire.WriteEnd(st)
				return nil
			}
			_, err := wire.WriteData(st, p.in.keep(buf), p.in.chunk)
			p.in.free <- buf[:cap(buf)]
			if err != nil {
				return nil
			}
		case <-p.in.stopped:
			return nil
		case <-l.gone:
			return nil
		}
	}
}

// from returns what was sent before from offset on. Only a repeated key may ask for
// bytes that have not been read yet: its first caller sent those before.
func (in *input) from(offset int64, repeated bool) ([]byte, error) {
	in.mu.Lock()
	in.reached = max(in.reached, offset)
	in.mu.Unlock()
	if repeated && offset > in.ring.Total() && in.ring.Total() == 0 {
		in.skip = offset
		return nil, nil
	}
	rest, ok := in.ring.From(offset)
	if !ok {
		return nil, violation("the guest asks for input from byte %d on, of %d to %d", offset, in.ring.First(), in.ring.Total())
	}
	return rest, nil
}

// keep remembers buf as sent and returns the part of it that the guest wants.
func (in *input) keep(buf []byte) []byte {
	at := in.ring.Total()
	in.ring.Write(buf)
	if at >= in.skip {
		return buf
	}
	return buf[min(int64(len(buf)), in.skip-at):]
}
