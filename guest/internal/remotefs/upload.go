package remotefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// upload sends bytes to the guest while somebody else waits for its reply.
type upload struct {
	st   ask.Stream
	out  *frames
	send func(*frames) error // puts the bytes together; a *faultError is the caller's

	quit chan struct{} // closed when nobody waits for the rest
	done chan struct{} // closed when run has ended
	// Written by run before done is closed.
	all bool  // all of it was sent, and the end
	err error // the caller's fault
}

func newUpload(ctx context.Context, st ask.Stream, chunk int, send func(*frames) error) *upload {
	quit := make(chan struct{})
	return &upload{st: st, out: &frames{ctx: ctx, st: st, quit: quit, buf: make([]byte, 0, chunk)}, send: send, quit: quit, done: make(chan struct{})}
}

// stopGrace is how long an early end waits for a Read of the source.
const stopGrace = 100 * time.Millisecond

// stop ends the sending and waits a moment for a Read that is under way.
func (u *upload) stop() {
	close(u.quit)
	select {
	case <-u.done:
		return
	default:
	}
	_ = u.st.SetWriteDeadline(time.Unix(1, 0))
	select {
	case <-u.done:
	case <-time.After(stopGrace):
	}
}

// complete reports whether everything was sent.
func (u *upload) complete() bool {
	select {
	case <-u.done:
		return u.all
	default:
		return false
	}
}

// fault is what was wrong with the source, if the sending ended because of it.
func (u *upload) fault() error {
	select {
	case <-u.done:
		return u.err
	default:
		return nil
	}
}

// failed says why there is no reply: a guest that has not got everything when the
// connection breaks discards what it has, so that nothing has changed. A write of the end
// that failed may have gone out all the same.
func (u *upload) failed(err error) error { return u.st.Failed(u.out.ctx, err, u.out.ending.Load()) }

// abortTimeout is how long the guest has to clean up after an upload that the source
// has failed.
const abortTimeout = 5 * time.Second

func (u *upload) run() {
	defer close(u.done)
	err := u.send(u.out)
	if err == nil {
		err = u.out.finish()
	}
	u.all = err == nil
	var f *faultError
	if errors.As(err, &f) {
		u.err = f.err
		// The end of a stream without an end of data makes the guest discard
		// what it has; its reply says that it has done so.
		_ = u.st.SetReadDeadline(time.Now().Add(abortTimeout))
		u.st.Close()
	}
}

// faultError is an error that the caller's part of an upload has made.
type faultError struct{ err error }

func (f *faultError) Error() string { return f.err.Error() }
func (f *faultError) Unwrap() error { return f.err }

// errSource marks a source that is not as long as it was said to be, or failed.
var errSource = errors.New("the source")

// blame makes an error of the source the caller's fault, about name; others pass.
func blame(err error, name string) error {
	if !errors.Is(err, errSource) {
		return err
	}
	return &faultError{&spec.Error{Path: name, Code: spec.CodeInvalid, Err: err}}
}

// sourceOf is a source of size bytes that may be nil, which is an empty one. What cannot be
// as long as it is said to be is refused before anything is sent. A negative size is any.
func sourceOf(src io.Reader, size int64) (io.Reader, error) {
	switch {
	case src != nil:
		return src, nil
	case size > 0:
		return nil, spec.New(spec.CodeInvalid, "no source")
	}
	return bytes.NewReader(nil), nil
}

// frames gathers bytes into data frames as large as its buffer, whatever they belong
// to.
type frames struct {
	ctx  context.Context // the call's: what it has cancelled is never sent as whole
	st   ask.Stream
	quit chan struct{} // closed when nobody asks any more
	buf  []byte

	ending atomic.Bool // the end may have gone out
}

// errNobody ends what nobody waits for.
var errNobody = errors.New("nobody waits for the rest")

// wanted is nil as long as somebody waits for what is sent.
func (f *frames) wanted() error {
	select {
	case <-f.quit:
		return errNobody
	default:
		return f.ctx.Err()
	}
}

// grow makes sure that there is room for some bytes, as long as a frame is not full.
func (f *frames) grow(n int) error {
	if len(f.buf)+n <= cap(f.buf) {
		return nil
	}
	return f.flush()
}

func (f *frames) flush() error {
	if err := f.wanted(); err != nil {
		return err
	}
	_, err := wire.WriteData(f.st, f.buf, cap(f.buf))
	f.buf = f.buf[:0]
	return err
}

// copy adds the bytes of a source, which must be size; negative: any number. It is
// read to one byte past its size, so that a longer one is noticed before the end is
// sent.
func (f *frames) copy(src io.Reader, size int64) error {
	for total := int64(0); ; {
		if len(f.buf) == cap(f.buf) {
			if err := f.flush(); err != nil {
				return err
			}
		}
		free := f.buf[len(f.buf):cap(f.buf)]
		if size >= 0 {
			free = free[:min(int64(len(free)), size-total+1)]
		}
		n, err := io.ReadFull(src, free)
		total += int64(n)
		last := err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case err != nil && !last:
			return fmt.Errorf("%w failed: %w", errSource, err)
		case size >= 0 && total > size:
			return fmt.Errorf("%w has more than %d bytes", errSource, size)
		case last && size >= 0 && total < size:
			return fmt.Errorf("%w ended after %d bytes of %d", errSource, total, size)
		}
		if f.buf = f.buf[:len(f.buf)+n]; last {
			return nil
		}
	}
}

// finish sends what is left together with the end.
func (f *frames) finish() error {
	if err := f.wanted(); err != nil {
		return err
	}
	var last bytes.Buffer
	_, _ = wire.WriteData(&last, f.buf, cap(f.buf))
	_ = wire.WriteEnd(&last)
	f.ending.Store(true)
	_, err := f.st.Write(last.Bytes())
	return err
}
