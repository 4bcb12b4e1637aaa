package tarstream

import "io"

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
