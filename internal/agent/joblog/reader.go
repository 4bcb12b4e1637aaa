//go:build linux

package joblog

import (
	"bytes"
	"context"
	"io"

	"github.com/berth-dev/berth/spec"
)

// Reader is an open window of a log. Read must not be called from several goroutines.
type Reader struct {
	log    *Log
	file   *file
	info   spec.LogInfo
	follow bool
	at     int64 // the next byte
	end    int64 // the window's, as far as it is known
	most   int64 // where the window ends at the latest; 0: nowhere
	last   int64 // the last line of the window; 0: none
}

// Read opens the window w.
func (l *Log) Read(w spec.LogWindow) (*Reader, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	f, err := l.share()
	s := snapshot{size: l.index.size, lines: l.index.lines(), newlines: l.index.newlines}
	done := l.done
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r := &Reader{log: l, file: f, follow: w.Follow && !done}
	r.info = spec.LogInfo{Lines: s.lines, Bytes: s.size, Complete: done}
	if err := r.begin(w, s); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// snapshot is how long a log was at one moment.
type snapshot struct{ size, lines, newlines int64 }

// share returns the open file, held for one more reader. The caller holds the lock.
func (l *Log) share() (*file, error) {
	if l.file != nil {
		l.file.hold()
		return l.file, nil
	}
	f, err := openRegular(l.dir, l.name)
	if err != nil {
		return nil, err
	}
	return &file{File: f, refs: 1}, nil
}

// begin finds where the window begins, and its end unless that is still to come.
func (r *Reader) begin(w spec.LogWindow, s snapshot) error {
	var err error
	switch {
	case w.Offset > 0:
		r.info.Offset = min(w.Offset, s.size)
		r.info.FirstLine, err = r.lineAt(r.info.Offset, s)
	default:
		line := max(w.From, 1)
		if w.From < 0 {
			line = max(s.lines+1+w.From, 1)
		}
		if line > s.lines {
			r.info.FirstLine, r.info.Offset = s.lines+1, s.size
		} else {
			r.info.FirstLine = line
			r.info.Offset, err = r.lineStart(line)
			r.info.Offset = min(r.info.Offset, s.size)
		}
	}
	if err != nil {
		return err
	}
	r.at, r.end = r.info.Offset, s.size
	if w.MaxBytes > 0 && w.MaxBytes < maxOffset-r.at {
		r.most = r.at + w.MaxBytes
	}
	first := r.info.FirstLine
	if r.at == s.size { // with what is written next, which may be the rest of a line
		first = s.newlines + 1
	}
	if w.Lines > 0 && w.Lines < maxOffset-first {
		r.last = first + w.Lines - 1
	}
	return r.bound(s)
}

const maxOffset = 1 << 62

// bound fixes the window's end if the log has come so far.
func (r *Reader) bound(s snapshot) error {
	r.end = s.size
	if r.last > 0 && s.newlines >= r.last {
		end, err := r.lineStart(r.last + 1)
		if err != nil {
			return err
		}
		r.end, r.follow, r.last = max(end, r.at), false, 0
	}
	if r.most > 0 && r.end >= r.most {
		r.end, r.follow = r.most, false
	}
	return nil
}

// Info says what the window shows.
func (r *Reader) Info() spec.LogInfo { return r.info }

// Wait waits until Read does not: there is more of the window, or no more will come. It
// returns the error of ctx when that ends.
func (r *Reader) Wait(ctx context.Context) error {
	for r.at >= r.end && r.follow {
		s, done, err := r.log.await(ctx, r.end)
		if err != nil {
			return err
		}
		if done {
			r.follow = false
		}
		if err := r.bound(s); err != nil {
			return err
		}
	}
	return nil
}

// Read reads what is there of the window, and waits for more only if the window
// follows the log and nothing is there. It returns io.EOF after the window's last
// byte, and the error of ctx when that ends.
func (r *Reader) Read(ctx context.Context, p []byte) (int, error) {
	if err := r.Wait(ctx); err != nil {
		return 0, err
	}
	if r.at >= r.end {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.end-r.at)]
	n, err := r.file.ReadAt(p, r.at)
	r.at += int64(n)
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	if err == io.EOF {
		err = errTampered
	}
	return 0, err
}

// await waits until the log is longer than size or complete.
func (l *Log) await(ctx context.Context, size int64) (s snapshot, done bool, err error) {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.index.size <= size && !l.done && ctx.Err() == nil {
		l.changed.Wait()
	}
	return snapshot{size: l.index.size, lines: l.index.lines(), newlines: l.index.newlines}, l.done, ctx.Err()
}

// Close lets go of the log. It is not called while Read runs.
func (r *Reader) Close() { r.file.release() }

// lineStart returns the offset of the first byte of a line, which follows one that has
// ended.
func (r *Reader) lineStart(line int64) (int64, error) {
	if line <= 1 {
		return 0, nil
	}
	r.log.mu.Lock()
	block := r.log.index.blockOf(line - 1)
	left := line - 1 - r.log.index.before(block)
	r.log.mu.Unlock()
	p, err := r.block(block, BlockBytes)
	if err != nil {
		return 0, err
	}
	at := nthNewline(p, left)
	if at < 0 {
		return 0, errTampered
	}
	return block*BlockBytes + int64(at), nil
}

// lineAt returns the number of the line in which the byte at offset lies; of the end it
// is one more than there are.
func (r *Reader) lineAt(offset int64, s snapshot) (int64, error) {
	if offset == s.size {
		return s.lines + 1, nil
	}
	block := offset / BlockBytes
	r.log.mu.Lock()
	before := r.log.index.before(block)
	r.log.mu.Unlock()
	p, err := r.block(block, offset%BlockBytes)
	if err != nil {
		return 0, err
	}
	return min(before+int64(bytes.Count(p, newline))+1, s.lines), nil
}

// block reads the first n bytes of a block, or what there is of them.
func (r *Reader) block(b, n int64) ([]byte, error) {
	p := make([]byte, n)
	got, err := r.file.ReadAt(p, b*BlockBytes)
	if err != nil && err != io.EOF {
		return nil, logError(err)
	}
	return p[:got], nil
}
