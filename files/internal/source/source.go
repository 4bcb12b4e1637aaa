// Package source copies what a caller hands to a Write: exactly as many bytes as
// it announced, and never longer than its context.
package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/berth-dev/berth/spec"
)

// bufferBytes is the size of each of the two buffers of a large copy.
const bufferBytes = 128 << 10

// maxEmptyReads is how often in a row a source may deliver nothing and no error.
const maxEmptyReads = 100

// Copy copies src to dst and returns how many bytes it wrote. src must deliver
// size bytes and then end; a negative size takes it to its end. A nil src is empty.
//
// A source that delivers fewer or more bytes, or fails, is an *spec.Error with
// CodeInvalid; one that fails with a *spec.Error of its own is answered with that.
// An error of dst is returned as it is. When ctx ends, Copy returns its error at
// once, even while a Read of src blocks; that Read is then left to itself and what
// it delivers is thrown away.
func Copy(ctx context.Context, dst io.Writer, src io.Reader, size int64) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if src == nil {
		src = bytes.NewReader(nil)
	}
	full, stop := read(src, size)
	defer stop()
	var done int64
	for {
		var c chunk
		select {
		case <-ctx.Done():
			return done, ctx.Err()
		case c = <-full:
		}
		if size >= 0 && done+int64(len(c.data)) > size {
			return done, spec.New(spec.CodeInvalid, fmt.Sprintf("the source delivers more than the %d bytes announced", size))
		}
		n, err := dst.Write(c.data)
		done += int64(n)
		if err != nil {
			return done, err
		}
		switch {
		case c.err == nil:
			c.free()
		case c.err != io.EOF:
			return done, failed(ctx, c.err)
		case done < size:
			return done, spec.New(spec.CodeInvalid, fmt.Sprintf("the source ends after %d of the %d bytes announced", done, size))
		default:
			return done, nil
		}
	}
}

// failed says what an error of a source means for the write.
func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var known *spec.Error
	if errors.As(err, &known) {
		return known
	}
	return &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("the source fails: %w", err)}
}

// chunk is the outcome of one Read.
type chunk struct {
	data []byte
	err  error
	free func() // gives the buffer back
}

// read reads src from a goroutine, two buffers ahead at most. It ends with the
// first chunk that has an error, or with the Read that is under way at stop.
func read(src io.Reader, size int64) (full <-chan chunk, stop func()) {
	buffers, bytes := 2, int64(bufferBytes)
	if size >= 0 && size < bytes {
		bytes = size + 1 // one byte more shows a source that is too long
	}
	out := make(chan chunk, buffers)
	empty := make(chan []byte, buffers)
	for range buffers {
		empty <- make([]byte, bytes)
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case buf := <-empty:
				n, err := readSome(src, buf)
				out <- chunk{buf[:n], err, func() { empty <- buf }}
				if err != nil {
					return
				}
			}
		}
	}()
	return out, func() { close(done) }
}

// readSome reads at least one byte, or says why there is none.
func readSome(src io.Reader, buf []byte) (int, error) {
	for range maxEmptyReads {
		n, err := src.Read(buf)
		if n < 0 || n > len(buf) {
			return 0, errors.New("a read returns an impossible count")
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}
