package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The kinds of a frame.
const (
	FrameJSON byte = 'J'
	FrameData byte = 'D'
	FrameEnd  byte = 'E'
)

// The caps on one frame's payload.
const (
	// MaxMessageBytes bounds a JSON message. The largest is an exec request:
	// spec.MaxArgvBytes of arguments and environment in base64, and room.
	MaxMessageBytes = 2 << 20
	// MaxDataBytes bounds one data frame.
	MaxDataBytes = 256 << 10

	frameHeaderBytes = 5
)

// ErrProtocol is the cause of every refusal of what a peer sent.
var ErrProtocol = errors.New("protocol violation")

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// WriteMessage writes v as one JSON frame, in one Write.
func WriteMessage(w io.Writer, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(payload) > MaxMessageBytes {
		return violation("message of %d bytes", len(payload))
	}
	return writeFrame(w, FrameJSON, payload)
}

// WriteData writes p as data frames of at most chunk bytes (0: MaxDataBytes) and
// returns how many bytes of p were written in whole frames.
func WriteData(w io.Writer, p []byte, chunk int) (int, error) {
	if chunk <= 0 || chunk > MaxDataBytes {
		chunk = MaxDataBytes
	}
	done := 0
	for done < len(p) {
		n := min(chunk, len(p)-done)
		if err := writeFrame(w, FrameData, p[done:done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// WriteEnd writes the frame that says the data is complete.
func WriteEnd(w io.Writer) error { return writeFrame(w, FrameEnd, nil) }

// framer is a stream that lends the memory in which a frame is put together.
type framer interface {
	borrow() *[]byte
	giveBack(*[]byte)
}

// writeFrame writes one frame in one Write, so that frames of concurrent writers
// never mix.
func writeFrame(w io.Writer, kind byte, payload []byte) error {
	_, err := writePart(w, kind, payload)
	return err
}

// writePart is writeFrame, and returns how many bytes of the frame were written.
func writePart(w io.Writer, kind byte, payload []byte) (int, error) {
	var buf []byte
	if f, ok := w.(framer); ok {
		lent := f.borrow()
		defer func() {
			*lent = buf[:0]
			f.giveBack(lent)
		}()
		buf = *lent
	}
	buf = slices.Grow(buf, frameHeaderBytes+len(payload))
	buf = binary.BigEndian.AppendUint32(append(buf, kind), uint32(len(payload)))
	buf = append(buf, payload...)
	return w.Write(buf)
}

func readHeader(r io.Reader) (kind byte, size int, err error) {
	var hdr [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, hdr[:]); err != nil {
		return 0, 0, err // io.EOF between frames, io.ErrUnexpectedEOF within one
	}
	return parseHeader(hdr)
}

func parseHeader(hdr [frameHeaderBytes]byte) (kind byte, size int, err error) {
	kind, n := hdr[0], binary.BigEndian.Uint32(hdr[1:])
	limit := uint32(0)
	switch kind {
	case FrameJSON:
		limit = MaxMessageBytes
	case FrameData:
		limit = MaxDataBytes
	case FrameEnd:
	default:
		return 0, 0, violation("frame kind %#x", kind)
	}
	if n > limit || kind == FrameData && n == 0 {
		return 0, 0, violation("frame %q of %d bytes, at most %d", kind, n, limit)
	}
	return kind, int(n), nil
}

// ReadMessage reads one JSON frame into v. limit bounds the payload, and with it the
// memory that v takes: a message with a limit is refused if it lists more than any such
// message does. 0 is for the requests of a host, which is trusted: MaxMessageBytes. It
// returns io.EOF if the stream ended cleanly before the frame.
func ReadMessage(r io.Reader, v any, limit int) error {
	kind, n, err := readHeader(r)
	if err != nil {
		return err
	}
	if kind != FrameJSON {
		return violation("frame %q where a message was due", kind)
	}
	return readJSON(r, v, n, limit)
}

func readJSON(r io.Reader, v any, n, limit int) error {
	if limit > 0 && n > limit {
		return violation("message of %d bytes, at most %d", n, limit)
	}
	// The buffer grows with what arrives, so that a length without bytes costs
	// nothing.
	payload, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return err
	}
	if len(payload) < n {
		return io.ErrUnexpectedEOF
	}
	if limit > 0 {
		if err := checkShape(payload); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(payload, v); err != nil {
		return violation("message: %v", err)
	}
	return nil
}

// DataReader reads data frames as a byte stream. It returns io.EOF only after a
// FrameEnd: a stream that is merely cut gives io.ErrUnexpectedEOF. A JSON frame
// among the data is decoded into an *Error and returned as the error. A Read whose
// deadline was over loses nothing, unless it was about to read an *Error.
type DataReader struct {
	r    io.Reader
	hdr  [frameHeaderBytes]byte
	have int // of hdr
	left int
	err  error
}

// NewDataReader returns a DataReader on r.
func NewDataReader(r io.Reader) *DataReader { return &DataReader{r: r} }

// Read implements io.Reader.
func (d *DataReader) Read(p []byte) (int, error) {
	for d.left == 0 {
		if d.err != nil {
			return 0, d.err
		}
		if err := d.header(); err != nil {
			return 0, err
		}
		kind, n, err := parseHeader(d.hdr)
		switch {
		case err != nil:
			d.err = err
		case kind == FrameEnd:
			d.err = io.EOF
		case kind == FrameJSON:
			var reply Reply
			if err := readJSON(d.r, &reply, n, maxReplyBytes); err != nil {
				d.err = err
			} else if reply.Err == nil {
				d.err = violation("a message without an error among the data")
			} else {
				d.err = reply.Err.Spec()
			}
		default:
			d.left = n
		}
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := d.r.Read(p[:min(len(p), d.left)])
	d.left -= n
	if err == io.EOF {
		if n > 0 {
			return n, nil
		}
		d.left, d.err = 0, io.ErrUnexpectedEOF
		return 0, d.err
	}
	return n, err
}

// header reads the rest of the next header.
func (d *DataReader) header() error {
	for d.have < len(d.hdr) {
		n, err := d.r.Read(d.hdr[d.have:])
		d.have += n
		switch {
		case d.have == len(d.hdr):
		case err == io.EOF:
			d.err = io.ErrUnexpectedEOF
			return d.err
		case err != nil && !IsTimeout(err):
			d.err = err
			return err
		case err != nil:
			return err
		}
	}
	d.have = 0
	return nil
}

// IsTimeout reports whether err, which may be nil, says that a deadline was over.
func IsTimeout(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}
