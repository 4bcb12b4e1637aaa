package stream

import (
	"bytes"
	"sync"
)

// Recording keeps the beginning of a stream, its first 1 MiB. The zero value is ready; it
// is safe for concurrent use.
type Recording struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const maxRecording = 1 << 20

// Write implements io.Writer. It never fails.
func (r *Recording) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf.Write(p[:min(len(p), maxRecording-r.buf.Len())])
	return len(p), nil
}

// String is what is kept.
func (r *Recording) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}
