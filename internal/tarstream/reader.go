package tarstream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

const (
	// readBuffer is how much a Reader takes from its source at a time.
	readBuffer = 64 << 10
	// maxTrailer bounds the zeros after the end marker: writers fill up a record.
	maxTrailer = 1 << 20
)

// Reader reads one archive to its end. It is for one goroutine.
type Reader struct {
	src  *bufio.Reader
	gate *gate
	name string // of the entry that is read, for errors
	left int64  // of its content
	pad  int64  // after it
	err  error

	skipped int
}

// NewReader returns a Reader of the archive in src, which it reads to its end, and in
// which nothing else may be.
func NewReader(src io.Reader, o Options) *Reader {
	return &Reader{src: bufio.NewReaderSize(src, readBuffer), gate: newGate(o, true)}
}

// Next goes on to the next entry; what is left of the one before is passed over. io.EOF
// says that the archive is whole and that nothing follows it. An error that is not
// src's own is a *spec.Error with a *RefusedError. Every error is the last.
func (r *Reader) Next() (*Header, error) {
	if r.err != nil {
		return nil, r.err
	}
	h, err := r.next()
	for err == nil && h == nil {
		h, err = r.next()
	}
	r.err = err
	return h, err
}

// Skipped is how many entries have been passed over.
func (r *Reader) Skipped() int { return r.skipped }

// Read reads the content of the entry.
func (r *Reader) Read(p []byte) (int, error) {
	switch {
	case r.err != nil && r.err != io.EOF:
		return 0, r.err
	case r.left == 0:
		return 0, io.EOF
	}
	n, err := r.src.Read(p[:min(int64(len(p)), r.left)])
	if r.left -= int64(n); n > 0 {
		return n, nil // an error comes again with the next read
	}
	if err != nil {
		r.err = r.ended(err, "within a file")
	}
	return 0, r.err
}

// Refuse makes an error that refuses the entry that was read last.
func (r *Reader) Refuse(reason Reason, format string, args ...any) error {
	return r.refuse(reason, format, args...)
}

func (r *Reader) refuse(reason Reason, format string, args ...any) error {
	return r.gate.refuse(reason, r.name, format, args...)
}

// ended makes the end of the source what it is where more was due.
func (r *Reader) ended(err error, where string) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return r.refuse(Truncated, "the archive ends %s", where)
	}
	return err
}

// skip passes over what is left of an entry.
func (r *Reader) skip() error {
	for n := r.left + r.pad; n > 0; {
		step := min(n, 1<<30) // what an int holds everywhere
		if _, err := r.src.Discard(int(step)); err != nil {
			return r.ended(err, "within a file")
		}
		n -= step
	}
	r.left, r.pad = 0, 0
	return nil
}

// next reads the headers of one entry; nil: it was the top.
func (r *Reader) next() (*Header, error) {
	if err := r.skip(); err != nil {
		return nil, err
	}
	r.name = ""
	r.gate.index++
	var more extended
	for {
		var b block
		if _, err := io.ReadFull(r.src, b[:]); err != nil {
			return nil, r.ended(err, "without an end marker")
		}
		if b == zeroBlock {
			if more.any() {
				return nil, r.refuse(BadHeader, "an extended header without an entry")
			}
			return nil, r.end()
		}
		raw, wrong := b.parse()
		if wrong != "" {
			return nil, r.refuse(BadHeader, "%s", wrong)
		}
		r.name = raw.name
		if err := r.gate.count(blockBytes, r.name); err != nil {
			return nil, err
		}
		known, err := r.extend(&more, &raw)
		if err != nil {
			return nil, err
		}
		if !known {
			return r.entry(&raw, &more)
		}
	}
}

// extend takes in a header that says more of the entry to come, if raw is one.
func (r *Reader) extend(more *extended, raw *rawHeader) (known bool, err error) {
	switch raw.flag {
	case flagPax, flagGlobal, flagLongName, flagLongLink:
	default:
		return false, nil
	}
	if raw.size > r.gate.o.Limits.HeaderBytes {
		return true, r.refuse(ArchiveTooLarge, "an extended header of %d bytes, at most %d are allowed", raw.size, r.gate.o.Limits.HeaderBytes)
	}
	if err := r.gate.count(padded(raw.size), r.name); err != nil {
		return true, err
	}
	// It grows with what arrives, so that a size without bytes costs nothing.
	var data bytes.Buffer
	n, err := io.Copy(&data, io.LimitReader(r.src, padded(raw.size)))
	if err == nil && n < padded(raw.size) {
		err = io.EOF
	}
	if err != nil {
		return true, r.ended(err, "within an extended header")
	}
	content := data.Bytes()[:raw.size]
	wrong := ""
	switch {
	case raw.flag == flagGlobal:
		wrong = paxRecords(content, globalRecord)
	case raw.flag == flagPax && !more.any():
		more.pax = true
		wrong = paxRecords(content, more.record)
	case raw.flag == flagLongName && !more.pax && more.path == nil:
		more.path, wrong = longName(content)
	case raw.flag == flagLongLink && !more.pax && more.link == nil:
		more.link, wrong = longName(content)
	default:
		wrong = "two extended headers that speak of one thing"
	}
	switch {
	case wrong == wrongSparse:
		return true, r.refuse(UnsupportedType, "%s", wrong)
	case wrong != "":
		return true, r.refuse(BadHeader, "%s", wrong)
	}
	return true, nil
}

// longName reads a name as GNU tar has it.
func longName(content []byte) (*string, string) {
	name, ok := cString(content)
	if !ok || name == "" {
		return nil, "a long name that is not what it should be"
	}
	return &name, ""
}

// entry checks an entry and returns its header; nil: it is the top itself.
func (r *Reader) entry(raw *rawHeader, more *extended) (*Header, error) {
	h := &Header{Path: raw.name, Mode: mode(raw.mode), Size: raw.size, ModTime: time.Unix(raw.modTime, 0), Target: raw.link}
	if more.path != nil {
		h.Path = *more.path
	}
	if more.link != nil {
		h.Target = *more.link
	}
	if more.size != nil {
		h.Size = *more.size
	}
	if more.modTime != nil {
		h.ModTime = *more.modTime
	}
	r.name = h.Path
	switch raw.flag {
	case flagFile, flagOldFile:
		h.Type = File
	case flagDir:
		h.Type = Dir
	case flagSymlink:
		h.Type = Symlink
	case flagHardlink:
		h.Type = Hardlink
		h.Target = strings.TrimPrefix(h.Target, "./")
	default:
		if r.gate.o.OmitOthers && flagNames[raw.flag] != "" && h.Size == 0 {
			h.Path = strings.TrimPrefix(h.Path, "./")
			return r.omit(h)
		}
		what := flagNames[raw.flag]
		if what == "" {
			what = fmt.Sprintf("an entry of type %q", raw.flag)
		}
		return nil, r.refuse(UnsupportedType, "%s", what)
	}
	if h.Type != File && h.Size != 0 {
		return nil, r.refuse(BadHeader, "content where there can be none")
	}
	if h.Type == File || h.Type == Dir {
		h.Target = ""
	}
	if h.Path == "." && h.Type == Dir {
		h.Path = "./"
	}
	h.Path = strings.TrimPrefix(h.Path, "./")
	if h.Type == Dir {
		if h.Path == "" && r.name != "" {
			return nil, r.gate.room(r.name)
		}
		h.Path = strings.TrimSuffix(h.Path, "/")
	}
	if h.Type == Hardlink && r.gate.o.OmitOthers {
		if omit, err := r.gate.follow(h); err != nil {
			return nil, r.raw(err)
		} else if omit {
			return r.omit(h)
		}
	}
	if h.Type == Symlink && r.gate.o.OmitLinks && Escapes(h.Path, h.Target) {
		return r.omit(h)
	}
	if err := r.gate.admit(h); err != nil {
		return nil, r.raw(err)
	}
	r.keep(h)
	if h.Type == File {
		r.left, r.pad = h.Size, padded(h.Size)-h.Size
	}
	return h, nil
}

// omit passes over an entry.
func (r *Reader) omit(h *Header) (*Header, error) {
	if err := r.gate.omit(h); err != nil {
		return nil, r.raw(err)
	}
	r.keep(h)
	r.skipped++
	return nil, nil
}

// keep remembers what a hard link may need to know of an entry.
func (r *Reader) keep(h *Header) {
	if h.Type == Symlink && r.gate.o.OmitOthers {
		r.gate.keep(h)
	}
}

// raw makes err name the entry as the archive does.
func (r *Reader) raw(err error) error {
	if e, ok := err.(*spec.Error); ok { //nolint:errorlint // the gate's own
		e.Err.(*RefusedError).Entry = r.name[:min(len(r.name), maxQuoted)]
	}
	return err
}

// mode converts the bits of a header.
func mode(bits int64) fs.FileMode {
	m := fs.FileMode(bits) & fs.ModePerm
	for bit, special := range specialBits {
		if bits&bit != 0 {
			m |= special
		}
	}
	return m
}

var specialBits = map[int64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}

// end reads what follows the first block of the end marker.
func (r *Reader) end() error {
	var b block
	if _, err := io.ReadFull(r.src, b[:]); err != nil {
		return r.ended(err, "within its end marker")
	}
	for rest, n := 0, len(b); ; {
		if !zeros(b[:n]) {
			return r.refuse(BadHeader, "something else than zeros in or after the end marker")
		}
		if rest += n; rest > maxTrailer {
			return r.refuse(BadHeader, "more than %d zeros after the end marker", maxTrailer)
		}
		var err error
		if n, err = r.src.Read(b[:]); n == 0 && err == io.EOF {
			return io.EOF
		} else if n == 0 && err != nil {
			return r.ended(err, "within its last block")
		}
	}
}
