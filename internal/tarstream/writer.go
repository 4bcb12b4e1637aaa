package tarstream

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berth-dev/berth/spec"
)

// Writer writes an archive: ustar headers without owners, and a pax header where a
// name, a size or a time does not fit. It writes in small pieces; whoever made it
// gathers them. It is for one goroutine, and after an error it writes nothing.
type Writer struct {
	w    io.Writer
	gate *gate // nil: whoever writes has checked
	left int64
	pad  int64
	buf  []byte
	err  error
}

// NewWriter returns a Writer to w that refuses what a Reader with the same options
// would, but for names that stand twice. It writes no hard links.
func NewWriter(w io.Writer, o Options) *Writer {
	return &Writer{w: w, gate: newGate(o, false)}
}

// NewUncheckedWriter returns a Writer to w of entries that a Reader has read, or will.
func NewUncheckedWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Bytes of a file follow its header; when they are not all there the next call fails.
var errSize = errors.New("a file of an archive is not as long as it was said to be")

// WriteHeader begins the next entry.
func (w *Writer) WriteHeader(h *Header) error {
	if err := w.finish(); err != nil {
		return err
	}
	buf, err := appendHeader(w.buf[:0], h)
	if err == nil && w.gate != nil {
		w.gate.index++
		if h.Type == Hardlink {
			err = w.gate.refuse(UnsupportedType, h.Path, "a hard link")
		} else if err = w.gate.count(int64(len(buf)), h.Path); err == nil {
			err = w.gate.admit(h)
		}
	}
	if err != nil {
		w.err = err
		return err
	}
	if h.Type == File {
		w.left, w.pad = h.Size, padded(h.Size)-h.Size
	}
	w.buf = buf
	_, w.err = w.w.Write(buf)
	return w.err
}

// Write writes content of the file whose header was the last.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err == nil && int64(len(p)) > w.left {
		w.err = errSize
	}
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.w.Write(p)
	w.left -= int64(n)
	w.err = err
	return n, err
}

// finish ends an entry.
func (w *Writer) finish() error {
	if w.err == nil && w.left > 0 {
		w.err = errSize
	}
	if w.err == nil && w.pad > 0 {
		_, w.err = w.w.Write(zeroBlock[:w.pad])
		w.pad = 0
	}
	return w.err
}

// errClosed is what a Writer answers after Close.
var errClosed = errors.New("the archive is complete")

// Close writes the end marker, without which no archive is whole.
func (w *Writer) Close() error {
	if err := w.finish(); err != nil {
		return err
	}
	_, err := w.w.Write(make([]byte, 2*blockBytes))
	w.err = errClosed
	return err
}

// appendHeader appends the blocks of an entry's headers.
func appendHeader(buf []byte, h *Header) ([]byte, error) {
	var b block
	name, flag := h.Path, byte(flagFile)
	switch h.Type {
	case File:
	case Dir:
		name, flag = name+"/", flagDir
	case Symlink:
		flag = flagSymlink
	case Hardlink:
		flag = flagHardlink
	default:
		return buf, spec.New(spec.CodeInternal, fmt.Sprintf("an entry of type %d", h.Type))
	}
	var records []byte
	if prefix, rest, ok := split(name); ok {
		copy(b.of(fieldPrefix), prefix)
		copy(b.of(fieldName), rest)
	} else {
		records = appendPax(records, paxPath, name)
		copy(b.of(fieldName), name)
	}
	if len(h.Target) > fieldLink.size {
		records = appendPax(records, paxLink, h.Target)
	}
	copy(b.of(fieldLink), h.Target)
	if len(records) > 0 && !utf8.ValidString(name+h.Target) {
		records = appendPax(records, paxCharset, paxBinary)
	}
	size := int64(0)
	if h.Type == File {
		size = h.Size
	}
	if !putOctal(b.of(fieldSize), size) {
		records = appendPax(records, paxSize, strconv.FormatInt(size, 10))
	}
	if when := wholeSeconds(h.ModTime); !putOctal(b.of(fieldModTime), when) {
		records = appendPax(records, paxModTime, strconv.FormatInt(when, 10))
	}
	putOctal(b.of(fieldMode), ModeBits(h.Mode))
	b[fieldType.at] = flag
	if len(records) > 0 {
		var x block
		copy(x.of(fieldName), "pax")
		putOctal(x.of(fieldSize), int64(len(records)))
		putOctal(x.of(fieldMode), 0o644)
		x[fieldType.at] = flagPax
		buf = append(buf, x.seal()...)
		buf = append(append(buf, records...), zeroBlock[:padded(int64(len(records)))-int64(len(records))]...)
	}
	return append(buf, b.seal()...), nil
}

// seal puts in what every header has.
func (b *block) seal() []byte {
	copy(b.of(fieldMagic), magicUSTAR)
	for _, f := range []field{fieldUID, fieldGID, fieldMajor, fieldMinor} {
		putOctal(b.of(f), 0)
	}
	copy(b.of(fieldChecksum), fmt.Sprintf("%06o\x00 ", b.checksum()))
	return b[:]
}

// split distributes a name over the two fields that ustar has for it.
func split(name string) (prefix, rest string, ok bool) {
	if len(name) <= fieldName.size {
		return "", name, true
	}
	// The last slash that leaves a rest which is not empty and a prefix that fits.
	for i := min(len(name)-2, fieldPrefix.size); i > 0 && len(name)-i-1 <= fieldName.size; i-- {
		if name[i] == '/' {
			return name[:i], name[i+1:], true
		}
	}
	return "", "", false
}

// putOctal writes a number with leading zeros and a zero byte behind, if it fits.
func putOctal(b []byte, n int64) bool {
	digits := ""
	if n >= 0 {
		digits = strconv.FormatInt(n, 8)
	}
	fits := n >= 0 && len(digits) < len(b)
	if !fits {
		digits = "0"
	}
	copy(b, strings.Repeat("0", len(b)-1-len(digits))+digits)
	return fits
}

// wholeSeconds is a time as archives have it; that of a zero Time is 0.
func wholeSeconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// ModeBits converts a mode to the twelve bits that Unix has for it.
func ModeBits(m fs.FileMode) int64 {
	n := int64(m.Perm())
	for bit, special := range specialBits {
		if m&special != 0 {
			n |= bit
		}
	}
	return n
}
