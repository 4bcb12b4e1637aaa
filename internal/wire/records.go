package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// What follows are streams of records, one after the other in the data frames of a
// stream without regard to the frames' bounds: a small file or a match costs its own
// bytes and no frame. Numbers are unsigned varints as encoding/binary has them,
// times signed ones. A path is sent as the number of bytes that it shares with the
// one before, the number of the others, and these.
//
//	match   path mode [size mtime_ns uid gid links target]   the rest: with metadata
//	line    flags path number text
//	file    name mode size bytes

// recordBuffer is how much a reader of records takes from its stream at a time.
const recordBuffer = 64 << 10

// MaxLineText bounds the text of a line that Grep finds.
const MaxLineText = 1 << 20

// appendPath appends path as what differs from prev.
func appendPath(buf []byte, prev, path string) []byte {
	shared, most := 0, min(len(prev), len(path))
	for shared < most && prev[shared] == path[shared] {
		shared++
	}
	buf = binary.AppendUvarint(buf, uint64(shared))
	return appendString(buf, path[shared:])
}

func appendString(buf []byte, s string) []byte {
	return append(binary.AppendUvarint(buf, uint64(len(s))), s...)
}

// AppendMatch appends the record of m, which follows one of the path prev; "" at
// first.
func AppendMatch(buf []byte, prev string, m *files.Match, metadata bool) []byte {
	buf = appendPath(buf, prev, m.Path)
	buf = binary.AppendUvarint(buf, uint64(uint32(m.Info.Mode)))
	if !metadata {
		return buf
	}
	buf = binary.AppendUvarint(buf, uint64(m.Info.Size))
	buf = binary.AppendVarint(buf, m.Info.ModTime.UnixNano())
	buf = binary.AppendUvarint(buf, uint64(m.Info.UID))
	buf = binary.AppendUvarint(buf, uint64(m.Info.GID))
	buf = binary.AppendUvarint(buf, m.Info.Links)
	return appendString(buf, m.Info.Target)
}

// The flags of a line.
const (
	lineCut   = 1
	lineMatch = 2
	lineFlags = lineCut | lineMatch
)

// AppendLine appends the record of l, which follows one of the path prev.
func AppendLine(buf []byte, prev string, l *files.Line) []byte {
	flags := byte(0)
	if l.Cut {
		flags |= lineCut
	}
	if l.Match {
		flags |= lineMatch
	}
	buf = appendPath(append(buf, flags), prev, l.Path)
	buf = binary.AppendUvarint(buf, uint64(l.Number))
	return append(binary.AppendUvarint(buf, uint64(len(l.Text))), l.Text...)
}

// AppendBatchFile appends what comes before the bytes of a file of a batch.
func AppendBatchFile(buf []byte, f *files.BatchFile) []byte {
	buf = appendString(buf, f.Name)
	buf = binary.AppendUvarint(buf, uint64(f.Mode.Perm()))
	return binary.AppendUvarint(buf, uint64(f.Size))
}

// records reads records and checks what they are made of.
type records struct {
	r    *bufio.Reader
	path []byte // of the last record
}

func newRecords(r io.Reader) records {
	return records{r: bufio.NewReaderSize(r, recordBuffer)}
}

// inside makes the end of the stream within a record what it is.
func inside(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// more reports whether a record follows; io.EOF says that all has come.
func (r *records) more() error {
	_, err := r.r.Peek(1)
	return err
}

// number reads a number that is at most most.
func (r *records) number(most uint64) (uint64, error) {
	var n uint64
	for shift := 0; shift < 64; shift += 7 {
		b, err := r.r.ReadByte()
		if err != nil {
			return 0, inside(err)
		}
		part := uint64(b & 0x7f)
		if part<<shift>>shift != part {
			break
		}
		n |= part << shift
		if b < 0x80 {
			if n > most {
				return 0, violation("a number of %d, at most %d", n, most)
			}
			return n, nil
		}
	}
	return 0, violation("a number of more than 64 bits")
}

// signed reads a signed number.
func (r *records) signed() (int64, error) {
	n, err := r.number(math.MaxUint64)
	return int64(n>>1) ^ -int64(n&1), err
}

// take reads a string of at most most bytes into buf, which it extends.
func (r *records) take(buf []byte, most int) ([]byte, error) {
	n, err := r.number(uint64(most))
	if err != nil {
		return buf, err
	}
	at := len(buf)
	buf = append(buf, make([]byte, n)...)
	_, err = io.ReadFull(r.r, buf[at:])
	return buf, inside(err)
}

// next reads the path of the next record, which must be one that lies below the
// directory that was searched.
func (r *records) next() (string, error) {
	shared, err := r.number(uint64(len(r.path)))
	if err != nil {
		return "", err
	}
	if r.path, err = r.take(r.path[:shared], spec.MaxPathBytes-int(shared)); err != nil {
		return "", err
	}
	if !below(r.path) {
		return "", violation("path %.64q", r.path)
	}
	return string(r.path), nil
}

// below reports whether path is relative, clean and without "..": nothing that a
// search finds may lead out of where it searched.
func below(path []byte) bool {
	if bytes.IndexByte(path, 0) >= 0 {
		return false
	}
	for elem := range bytes.SplitSeq(path, []byte{'/'}) {
		if len(elem) == 0 || string(elem) == "." || string(elem) == ".." {
			return false
		}
	}
	return true
}

// MatchReader reads what a guest has found.
type MatchReader struct {
	records
	metadata bool
}

// NewMatchReader returns a reader of the records in r.
func NewMatchReader(r io.Reader, metadata bool) *MatchReader {
	return &MatchReader{newRecords(r), metadata}
}

// Next returns the next match, or io.EOF after the last.
func (r *MatchReader) Next() (files.Match, error) {
	if err := r.more(); err != nil {
		return files.Match{}, err
	}
	path, err := r.next()
	if err != nil {
		return files.Match{}, err
	}
	m := files.Match{Path: path, Info: files.Info{Name: path[strings.LastIndexByte(path, '/')+1:]}}
	mode, err := r.number(math.MaxUint32)
	if err != nil {
		return files.Match{}, err
	}
	m.Info.Mode = fs.FileMode(mode)
	if !r.metadata {
		return m, nil
	}
	return m, r.describe(&m.Info)
}

// describe reads the metadata of a match.
func (r *MatchReader) describe(info *files.Info) error {
	size, err := r.number(math.MaxInt64)
	if err != nil {
		return err
	}
	mtime, err := r.signed()
	if err != nil {
		return err
	}
	var ids [2]uint64
	for i := range ids {
		if ids[i], err = r.number(math.MaxUint32); err != nil {
			return err
		}
	}
	links, err := r.number(math.MaxUint64)
	if err != nil {
		return err
	}
	target, err := r.take(nil, spec.MaxPathBytes)
	if err != nil {
		return err
	}
	info.Size, info.ModTime, info.UID, info.GID, info.Links, info.Target = int64(size), time.Unix(0, mtime), int(ids[0]), int(ids[1]), links, string(target)
	return nil
}

// LineReader reads the lines that a guest has found.
type LineReader struct {
	records
	most int
}

// NewLineReader returns a reader of the records in r, whose texts have at most most
// bytes.
func NewLineReader(r io.Reader, most int) *LineReader { return &LineReader{newRecords(r), most} }

// Next returns the next line, or io.EOF after the last.
func (r *LineReader) Next() (files.Line, error) {
	flags, err := r.r.ReadByte()
	if err != nil {
		return files.Line{}, err
	}
	if flags&^lineFlags != 0 {
		return files.Line{}, violation("flags %#x of a line", flags)
	}
	path, err := r.next()
	if err != nil {
		return files.Line{}, err
	}
	number, err := r.number(math.MaxInt64)
	if err != nil {
		return files.Line{}, err
	}
	text, err := r.take(nil, r.most)
	if err != nil {
		return files.Line{}, err
	}
	if number == 0 || bytes.IndexByte(text, '\n') >= 0 {
		return files.Line{}, violation("line %d of %d bytes", number, len(text))
	}
	return files.Line{Path: path, Number: int64(number), Text: text, Cut: flags&lineCut != 0, Match: flags&lineMatch != 0}, nil
}

// BatchFiles reads the files of a batch as a host sends them. The bytes of each must
// be taken before the next is asked for. A stream that is cut or breaks the protocol
// ends the sequence with an error.
func BatchFiles(r io.Reader) iter.Seq2[files.BatchFile, error] {
	return func(yield func(files.BatchFile, error) bool) {
		in := newRecords(r)
		for {
			err := in.more()
			if err == io.EOF {
				return
			}
			var f files.BatchFile
			var src *io.LimitedReader
			if err == nil {
				f, src, err = in.file()
			}
			if err != nil {
				yield(files.BatchFile{}, err)
				return
			}
			if !yield(f, nil) {
				return
			}
			if src.N > 0 {
				yield(files.BatchFile{}, violation("%d bytes of a file were not taken", src.N))
				return
			}
		}
	}
}

func (r *records) file() (files.BatchFile, *io.LimitedReader, error) {
	var err error
	if r.path, err = r.take(r.path[:0], spec.MaxPathBytes); err != nil {
		return files.BatchFile{}, nil, err
	}
	mode, err := r.number(uint64(fs.ModePerm))
	if err != nil {
		return files.BatchFile{}, nil, err
	}
	size, err := r.number(math.MaxInt64)
	if err != nil {
		return files.BatchFile{}, nil, err
	}
	src := &io.LimitedReader{R: r.r, N: int64(size)}
	return files.BatchFile{Name: string(r.path), Mode: fs.FileMode(mode), Size: int64(size), Src: src}, src, nil
}
