package engine

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The framing of an attached stream without a TTY: one byte of stream, three zeros,
// four bytes of big-endian length, then the bytes.
const (
	frameHeader = 8
	// maxFrame bounds one frame. Engines send what one read of a pipe gave, 32 KiB;
	// nothing is held, so the bound only tells a frame from noise.
	maxFrame = 16 << 20

	streamStdout = 1
	streamStderr = 2
	streamEngine = 3 // the engine itself reports an error

	// maxNotes is how much of the side streams is kept.
	maxNotes = 4 << 10
)

// errFraming is the cause of every refusal of a frame.
var errFraming = errors.New("the engine's stream is broken")

// demux reads the stdout part of an attached stream. What comes on the other
// streams is kept for the error that ends it, up to maxNotes, and never delivered.
// It trusts nothing: an unknown stream, dirty padding, an oversized or a cut frame
// is an error, and stays one.
type demux struct {
	r      *bufio.Reader
	stream byte
	left   uint32 // of the frame's bytes
	notes  []byte
	err    error
}

func newDemux(r io.Reader) *demux { return &demux{r: bufio.NewReaderSize(r, 64<<10)} }

// Read implements io.Reader. The end of the stream between two frames is io.EOF if
// nothing came on the side streams, else a *relayError with what came.
func (d *demux) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, d.err
	}
	for d.err == nil {
		if d.left == 0 {
			d.next()
			continue
		}
		if d.stream != streamStdout {
			d.note()
			continue
		}
		n, err := d.r.Read(p[:min(len(p), int(d.left))])
		d.left -= uint32(n)
		if n > 0 {
			return n, nil // an error comes again with the next read
		}
		if err != nil {
			d.fail(cut(err))
		}
	}
	return 0, d.err
}

// next reads a frame's header.
func (d *demux) next() {
	var h [frameHeader]byte
	if _, err := io.ReadFull(d.r, h[:]); err != nil {
		d.fail(err) // io.EOF between frames, io.ErrUnexpectedEOF within the header
		return
	}
	size := binary.BigEndian.Uint32(h[4:])
	switch {
	case h[0] < streamStdout || h[0] > streamEngine:
		d.fail(fmt.Errorf("%w: stream %d", errFraming, h[0]))
	case h[1]|h[2]|h[3] != 0:
		d.fail(fmt.Errorf("%w: header %x", errFraming, h))
	case size > maxFrame:
		d.fail(fmt.Errorf("%w: frame of %d bytes", errFraming, size))
	default:
		d.stream, d.left = h[0], size
	}
}

// note takes in a part of a side stream's frame.
func (d *demux) note() {
	var buf [512]byte
	n, err := d.r.Read(buf[:min(len(buf), int(d.left))])
	d.left -= uint32(n)
	d.notes = append(d.notes, buf[:min(n, maxNotes-len(d.notes))]...)
	if n == 0 && err != nil {
		d.fail(cut(err))
	}
}

func (d *demux) fail(err error) {
	if len(d.notes) > 0 {
		err = &relayError{text: strings.TrimSpace(string(d.notes)), err: err}
	}
	d.err = err
}

// cut is the error of a stream that ended inside a frame.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// relayError is the end of a relay that said why.
type relayError struct {
	text string
	err  error
}

func (e *relayError) Error() string { return "relay: " + strconv.QuoteToASCII(e.text) }
func (e *relayError) Unwrap() error { return e.err }
