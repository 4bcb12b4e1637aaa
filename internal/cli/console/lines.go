package console

import (
	"bytes"
	"io"
)

// maxLine is how much of a line is held until its end comes.
const maxLine = 4 << 10

// Lines writes what comes from a sandbox to a person, line by line, with its control
// characters escaped.
type Lines struct {
	w    io.Writer
	held []byte
}

// NewLines returns Lines that write to w. The caller calls Flush.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Write implements io.Writer.
func (l *Lines) Write(p []byte) (int, error) {
	l.held = append(l.held, p...)
	for {
		i := bytes.IndexAny(l.held, "\r\n")
		if i < 0 && len(l.held) < maxLine {
			return len(p), nil
		}
		line, rest := l.held, l.held[len(l.held):]
		if i >= 0 {
			line, rest = l.held[:i], l.held[i+1:]
		}
		if len(line) > 0 {
			if err := l.print(line); err != nil {
				return 0, err
			}
		}
		l.held = rest
	}
}

func (l *Lines) print(line []byte) error {
	_, err := io.WriteString(l.w, Clean(string(line))+"\n")
	return err
}

// Flush writes a last line that has no end.
func (l *Lines) Flush() {
	if len(l.held) > 0 {
		_ = l.print(l.held) // a person who has gone misses nothing
	}
	l.held = nil
}
