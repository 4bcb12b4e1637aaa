//go:build linux

package fileserver

import (
	"context"
	"sync"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
)

// glob sends what is found as it is found.
func (v *Server) glob(ctx context.Context, s *wire.Stream, r *wire.GlobRequest) error {
	out := v.records(s)
	defer out.stop()
	o, prev := r.Options(), ""
	for m, err := range files.Glob(ctx, v.Files, o) {
		if err != nil {
			return out.fail(err)
		}
		if !out.add(func(buf []byte) []byte { return wire.AppendMatch(buf, prev, &m, o.Metadata) }) {
			return stream.ErrGone
		}
		prev = m.Path
	}
	return out.end()
}

// grep sends the lines that are found as they are found.
func (v *Server) grep(ctx context.Context, s *wire.Stream, r *wire.GrepRequest) error {
	out := v.records(s)
	defer out.stop()
	prev := ""
	for l, err := range files.Grep(ctx, v.Files, r.Options()) {
		if err != nil {
			return out.fail(err)
		}
		if !out.add(func(buf []byte) []byte { return wire.AppendLine(buf, prev, &l) }) {
			return stream.ErrGone
		}
		prev = l.Path
	}
	return out.end()
}

// recordDelay is the longest that a record waits for others to share its frame.
const recordDelay = 5 * time.Millisecond

// records gathers records into data frames: full ones, or what has come after a
// short while, so that a search that finds little does not hold it back. A host that
// does not read stops the search.
type records struct {
	s     *wire.Stream
	chunk int

	mu    sync.Mutex
	buf   []byte
	err   error
	timer *time.Timer // runs while buf holds something
	over  bool        // nothing is sent any more
}

func (v *Server) records(s *wire.Stream) *records {
	return &records{s: s, chunk: v.ChunkBytes}
}

// add appends a record; false: the host is gone.
func (r *records) add(record func([]byte) []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := len(r.buf) > 0
	r.buf = record(r.buf)
	switch {
	case len(r.buf) >= r.chunk:
		r.flush()
	case waiting:
	case r.timer == nil:
		r.timer = time.AfterFunc(recordDelay, r.overdue)
	default:
		r.timer.Reset(recordDelay)
	}
	return r.err == nil
}

// overdue sends what has waited long enough.
func (r *records) overdue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.flush()
	}
}

// flush sends what has been gathered. r.mu is held.
func (r *records) flush() {
	if r.err == nil && len(r.buf) > 0 {
		_, r.err = wire.WriteData(r.s, r.buf, r.chunk)
	}
	r.buf = r.buf[:0]
}

// fail sends what was found before err, which the caller then sends.
func (r *records) fail(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flush(); r.err != nil {
		return stream.ErrGone
	}
	r.over = true
	return err
}

// end sends the rest and says that it is all.
func (r *records) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush()
	r.over = true
	if r.err != nil || wire.WriteEnd(r.s) != nil {
		return stream.ErrGone
	}
	return nil
}

// stop lets nothing be sent any more.
func (r *records) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.timer != nil {
		r.timer.Stop()
	}
}
