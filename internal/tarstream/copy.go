package tarstream

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/berth-dev/berth/spec"
)

// Counts are what an archive holds.
type Counts struct {
	Files, Dirs, Links int   // hard links are files
	Bytes              int64 // of all files
}

// Add counts an entry.
func (c *Counts) Add(h *Header) {
	switch h.Type {
	case Dir:
		c.Dirs++
	case Symlink:
		c.Links++
	default:
		c.Files++
		c.Bytes += h.Size
	}
}

// copyBuffer is how much of a file is copied at a time.
const copyBuffer = 128 << 10

// Copy writes the archive that r reads as one of w's own making, so that whoever reads
// it is told nothing that r has not understood. Each entry is shown to each, which may be
// nil, before it is written. Copy returns when r has proven its end, and leaves that of
// w's to the caller's Close.
func Copy(w *Writer, r *Reader, each func(*Header)) error {
	buf := make([]byte, copyBuffer)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if each != nil {
			each(h)
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.CopyBuffer(onlyWriter{w}, onlyReader{r}, buf); err != nil {
			return err
		}
	}
}

// onlyWriter and onlyReader have io.CopyBuffer use the buffer that it is given.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// WriteError makes err, of where an archive goes, one that says so: CodeNoSpace if there
// is no room, else CodeUnavailable. A *spec.Error stays what it is, and nil too.
func WriteError(err error) error {
	var known *spec.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	code := spec.CodeUnavailable
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		code = spec.CodeNoSpace
	}
	return &spec.Error{Code: code, Err: fmt.Errorf("the archive could not be written: %w", err)}
}
