package berth

import (
	"errors"
	"io"
)

// ownError is what a caller's own end of a command's streams failed with. It goes through
// the driver and is handed back as it was: the place has nothing to do with it, and what
// became of the command is known beside it.
type ownError struct{ err error }

// Error implements error.
func (e *ownError) Error() string { return e.err.Error() }

// Unwrap returns the caller's error.
func (e *ownError) Unwrap() error { return e.err }

// ownEnds marks the errors of a caller's ends.
func ownEnds(io Stdio) Stdio {
	if io.Stdin != nil {
		io.Stdin = ownReader{io.Stdin}
	}
	if io.Stdout != nil {
		io.Stdout = ownWriter{io.Stdout}
	}
	if io.Stderr != nil {
		io.Stderr = ownWriter{io.Stderr}
	}
	return io
}

// ownFault tells a caller's own error, as it was, from one of the place.
func ownFault(err error) (own, place error) {
	var e *ownError
	if errors.As(err, &e) {
		return e.err, nil
	}
	return nil, err
}

type ownReader struct{ r io.Reader }

// Read implements io.Reader.
func (o ownReader) Read(p []byte) (int, error) {
	n, err := o.r.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a reader's end is the bare value
		err = &ownError{err}
	}
	return n, err
}

type ownWriter struct{ w io.Writer }

// Write implements io.Writer.
func (o ownWriter) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		err = &ownError{err}
	}
	return n, err
}

// widen makes the pipe larger whenever it is full, up to most bytes, until it has ended.
func (p *pipe) widen(most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.ended && !p.closed && len(p.ring) < most {
		if p.ring == nil || p.n < len(p.ring) {
			p.changed.Wait()
			continue
		}
		ring := make([]byte, min(2*len(p.ring), most))
		k := copy(ring, p.ring[p.start:])
		copy(ring[k:], p.ring[:p.start])
		p.ring, p.start = ring, 0
		p.changed.Broadcast()
	}
}
