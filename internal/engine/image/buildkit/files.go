package buildkit

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// ContextDir and DockerfileDir are the directories that an engine asks for which builds of
	// a session's files, Dockerfile what it looks for in the latter.
	ContextDir    = "context"
	DockerfileDir = "dockerfile"
	Dockerfile    = "Dockerfile"
	// Remote is what a build calls its context where that is in its session.
	Remote = "client-session"

	// dirName is the header of a call that says which directory is meant.
	dirName = "Dir-Name"
	// pieceSize is how much of a file is sent at once.
	pieceSize = 32 << 10
)

// File is a file, a directory or a symbolic link that an engine can have.
type File struct {
	Path string // relative, with slashes
	// Mode is the type and the permissions. In the image it belongs to root.
	Mode    fs.FileMode
	Size    int64
	ModTime time.Time // zero: that of no file
	Link    string    // the target of a symbolic link
	// Open opens a regular file; an error that it or its reader returns fails the build.
	Open func() (io.ReadCloser, error)
}

// packet says what a message of the call is.
type packet uint64

// The packets. The client tells of each file in the order of their paths, and ends with one of
// none; the engine requests the content of some by their number, and ends too.
const (
	packetStat packet = iota
	packetRequest
	packetData
	packetEnd
	packetError
)

// errRefused is the end of a call whose engine does not take what it is sent, or asks for what
// there is not.
var errRefused = errors.New("the engine does not take the files of the build")

// sendFiles serves one call for the files of a directory. err is why it has ended too soon; own
// is that where it is about a file, and then fails the build.
func sendFiles(w http.ResponseWriter, r *http.Request, dir []File) (own, err error) {
	files := slices.Clone(dir)
	slices.SortFunc(files, func(a, b File) int { return comparePaths(a.Path, b.Path) })
	out := &packets{w: w}
	for _, f := range files {
		out.send(packetStat, 0, stat(f))
	}
	out.send(packetStat, 0, nil)
	for {
		if err := out.flush(); err != nil {
			return nil, err
		}
		request, err := readMessage(r.Body)
		if err != nil {
			return nil, err
		}
		kind, id, err := parsePacket(request)
		switch {
		case err != nil:
			return nil, err
		case kind == packetEnd:
			out.send(packetEnd, 0, nil)
			return nil, out.flush()
		case kind != packetRequest || id >= uint64(len(files)) || !files[id].Mode.IsRegular():
			return nil, errRefused
		}
		if err := out.file(id, files[id]); err != nil {
			return err, err
		}
	}
}

// comparePaths is the order in which a directory comes before what follows its own content.
func comparePaths(a, b string) int {
	return cmp.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

// packets writes the packets of a call up to the first error.
type packets struct {
	w   http.ResponseWriter
	err error
}

// send writes a packet; content is the message or the bytes that it brings.
func (p *packets) send(kind packet, id uint64, content []byte) {
	if p.err != nil {
		return
	}
	message := appendNumber(nil, 1, uint64(kind))
	message = appendNumber(message, 3, id)
	number := uint64(4)
	if kind == packetStat {
		number = 2
	}
	_, p.err = p.w.Write(appendFrame(nil, appendText(message, number, string(content))))
}

func (p *packets) flush() error {
	if p.err == nil {
		p.err = http.NewResponseController(p.w).Flush()
	}
	return p.err
}

// file sends what is in a file. Its error is that of the file; one of the connection is kept.
func (p *packets) file(id uint64, f File) error {
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	piece := make([]byte, pieceSize)
	for p.err == nil {
		n, err := content.Read(piece)
		if n > 0 {
			p.send(packetData, id, piece[:n])
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	p.send(packetData, id, nil) // it is whole
	return nil
}

// stat is the message that describes a file.
func stat(f File) []byte {
	m := appendText(nil, 1, f.Path)
	m = appendNumber(m, 2, uint64(f.Mode))
	m = appendNumber(m, 5, uint64(f.Size))
	if !f.ModTime.IsZero() {
		m = appendNumber(m, 6, uint64(f.ModTime.UnixNano()))
	}
	return appendText(m, 7, f.Link)
}

// parsePacket reads a packet of the engine's: what it is, and the file that it means.
func parsePacket(message []byte) (kind packet, id uint64, err error) {
	err = fields(message, func(f field) error {
		switch f.number {
		case 1:
			kind = packet(f.value)
			return f.expect(varint)
		case 3:
			id = f.value
			return f.expect(varint)
		}
		return nil
	})
	return kind, id, err
}

// appendNumber adds a field that is a number to a message, unless it is zero.
func appendNumber(message []byte, number, value uint64) []byte {
	if value == 0 {
		return message
	}
	message = binary.AppendUvarint(message, number<<3|uint64(varint))
	return binary.AppendUvarint(message, value)
}

// Bytes opens content that is in memory.
func Bytes(content []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
}
