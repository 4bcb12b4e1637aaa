package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Write implements files.FS. When it returns early - ctx has ended, or the guest
// refuses - and src is in a Read that blocks, that one Read is left to end by itself;
// src is not read again.
func (f fileSystem) Write(ctx context.Context, name string, src io.Reader, size int64, o files.WriteOptions) error {
	if err := spec.ValidatePath(name); err != nil {
		return at(err, name)
	}
	if size < 0 && !o.AnySize {
		return at(spec.New(spec.CodeInvalid, "the size is negative"), name)
	}
	return at(f.write(ctx, name, src, size, o), name)
}

func (f fileSystem) write(ctx context.Context, name string, src io.Reader, size int64, o files.WriteOptions) error {
	if o.AnySize {
		size = -1
	}
	st, err := f.s.open(ctx, nil, fileRequest(wire.OpWrite, wire.FileRequest{
		Name: wire.Bytes(name), Size: size, AnySize: o.AnySize, Mode: int64(o.Mode.Perm()), SetMode: o.SetMode,
		NoParents: o.NoParents, Exclusive: o.Exclusive, Sync: o.Sync,
	}))
	if err != nil {
		return f.s.failed(ctx, nil, err, changes)
	}
	defer st.end()
	u := &upload{st: st, src: src, size: size, chunk: f.s.o.Profile.ChunkBytes, done: make(chan struct{}), quit: make(chan struct{})}
	go u.run()

	_, err = wire.ReadReply(st)
	u.stop()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case u.fault() != nil:
		return u.fault()
	case err == nil && !u.complete():
		return violation("the guest took a file before all of it was sent")
	case err == nil:
		return nil
	}
	err = st.c.explain(err)
	if err == errLost { //nolint:errorlint // the bare sentinel
		if u.complete() {
			return &spec.Error{Code: spec.CodeUnknownOutcome, Err: errLost}
		}
		return &spec.Error{Code: spec.CodeUnavailable, Err: errLost} // the guest discards what it has
	}
	return err
}

// upload sends the bytes of one file.
type upload struct {
	st    *stream
	src   io.Reader
	size  int64 // -1: any
	chunk int

	quit chan struct{} // closed when nobody waits for the rest
	done chan struct{} // closed when run has ended
	// Written by run before done is closed.
	sent bool  // all of it, and the end
	err  error // the source's fault
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
		return u.sent
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

// abortTimeout is how long the guest has to clean up after a write that the source
// has failed.
const abortTimeout = 5 * time.Second

func (u *upload) run() {
	defer close(u.done)
	switch err := u.copy(); {
	case err == nil:
		u.sent = true
	case errors.Is(err, errSource):
		u.err = &spec.Error{Code: spec.CodeInvalid, Err: err}
		// The end of a stream without an end of data makes the guest discard
		// what it has; its reply says that it has done so.
		_ = u.st.SetReadDeadline(time.Now().Add(abortTimeout))
		u.st.Close()
	}
}

// errSource marks a source that is not as long as it was said to be, or failed.
var errSource = errors.New("the source")

// copy sends the source in frames, the last one together with the end. The source is
// read to one byte past its size, so that a longer one is noticed before the end is
// sent.
func (u *upload) copy() error {
	length := u.chunk
	if u.size >= 0 && u.size < int64(length) {
		length = int(u.size) + 1
	}
	buf := make([]byte, length)
	for total := int64(0); ; {
		n, err := io.ReadFull(u.src, buf)
		total += int64(n)
		select {
		case <-u.quit:
			return errLost // nobody asks
		default:
		}
		last := err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case err != nil && !last:
			return fmt.Errorf("%w failed: %w", errSource, err)
		case u.size >= 0 && total > u.size:
			return fmt.Errorf("%w has more than %d bytes", errSource, u.size)
		case last && u.size >= 0 && total < u.size:
			return fmt.Errorf("%w ended after %d bytes of %d", errSource, total, u.size)
		case last:
			return u.finish(buf[:n])
		}
		if _, err := wire.WriteData(u.st, buf[:n], u.chunk); err != nil {
			return err
		}
	}
}

func (u *upload) finish(rest []byte) error {
	var frames bytes.Buffer
	_, _ = wire.WriteData(&frames, rest, u.chunk)
	_ = wire.WriteEnd(&frames)
	_, err := u.st.Write(frames.Bytes())
	return err
}
