//go:build linux

package joblog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// flushBlocks is how many entries of the index are not written out yet at most.
const flushBlocks = 64

// Log is one log. It is safe for concurrent use.
type Log struct {
	dir  int // where both files lie; not ours to close
	name string
	max  int64 // guarded by mu

	mu      sync.Mutex
	changed sync.Cond // anything below has
	file    *file     // nil: not being written
	index   index
	flushed int // entries that have been written out
	omitted int64
	done    bool // complete
}

// file is an open log file, shared by its writer and readers.
type file struct {
	*os.File
	mu   sync.Mutex
	refs int
}

func (f *file) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refs++
}

func (f *file) release() {
	f.mu.Lock()
	f.refs--
	last := f.refs == 0
	f.mu.Unlock()
	if last {
		f.Close()
	}
}

// Create makes a new log that holds at most limit bytes: the file name in the directory
// that dir is a descriptor of, and its index. dir must stay open for as long as the Log
// is used.
func Create(dir int, name string, limit int64) (*Log, error) {
	f, err := open(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return nil, err
	}
	l := newLog(dir, name, limit)
	l.file = &file{File: f, refs: 1}
	return l, nil
}

func newLog(dir int, name string, limit int64) *Log {
	l := &Log{dir: dir, name: name, max: limit}
	l.changed.L = &l.mu
	return l
}

// errTampered is the answer to a log that is not what was written.
var errTampered = spec.New(spec.CodeUnavailable, "the log has been changed from inside the place")

// Open takes up a complete log that an earlier guest wrote, of at most limit bytes.
// What the index does not cover is read, until ctx ends.
func Open(ctx context.Context, dir int, name string, limit int64) (*Log, error) {
	f, err := openRegular(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > limit {
		return nil, errTampered
	}
	l := newLog(dir, name, limit)
	l.done = true
	if err := l.recover(ctx, f, st.Size()); err != nil {
		return nil, err
	}
	return l, nil
}

// recover fills in the index of a log of size bytes.
func (l *Log) recover(ctx context.Context, f io.ReaderAt, size int64) error {
	l.index.blocks = l.readIndex(size)
	if n := len(l.index.blocks); n > 0 {
		l.index.newlines = l.index.blocks[n-1]
		l.index.size = int64(n) * BlockBytes
		var last [1]byte
		if _, err := f.ReadAt(last[:], l.index.size-1); err != nil {
			return errTampered
		}
		l.index.open = last[0] != '\n'
	}
	l.flushed = len(l.index.blocks)
	buf := make([]byte, BlockBytes)
	for l.index.size < size {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buf[:min(BlockBytes, size-l.index.size)]
		if n, _ := f.ReadAt(part, l.index.size); n < len(part) {
			return errTampered
		}
		l.index.add(part)
	}
	return nil
}

// readIndex reads what there is of the index of a log of size bytes.
func (l *Log) readIndex(size int64) []int64 {
	f, err := openRegular(l.dir, l.indexName())
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, size/BlockBytes*entryBytes))
	if err != nil {
		return nil
	}
	return decode(data, size)
}

// IndexName is the name of the index of the log with that name.
func IndexName(name string) string { return name + ".idx" }

func (l *Log) indexName() string { return IndexName(l.name) }

// Write appends p. It never fails: what the log cannot hold, because it is full or its
// disk is, is counted.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(p) == 0 || l.done {
		return len(p), nil
	}
	n := int(min(int64(len(p)), l.max-l.index.size))
	if n > 0 {
		var err error
		if n, err = l.file.WriteAt(p[:n], l.index.size); err != nil {
			l.max = l.index.size + int64(n) // without holes, so for good
		}
	}
	l.omitted += int64(len(p) - n)
	l.index.add(p[:n])
	if len(l.index.blocks)-l.flushed >= flushBlocks {
		l.flush()
	}
	l.changed.Broadcast()
	return len(p), nil
}

// flush writes the new entries of the index out. An index that cannot be written is
// counted again when it is needed.
func (l *Log) flush() {
	f, err := open(l.dir, l.indexName(), unix.O_WRONLY|unix.O_CREAT)
	if err != nil {
		return
	}
	defer f.Close()
	if _, err := f.WriteAt(l.index.encode(l.flushed), int64(l.flushed)*entryBytes); err == nil {
		l.flushed = len(l.index.blocks)
	}
}

// Close completes the log: what is read of it is all of it, and followers come to their
// end. It is idempotent.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return
	}
	l.done = true
	if len(l.index.blocks) > l.flushed {
		l.flush()
	}
	if l.file != nil {
		l.file.release()
		l.file = nil
	}
	l.changed.Broadcast()
}

// Stats is the size of a log.
type Stats struct {
	Lines, Bytes, Omitted int64
	Complete              bool
}

// Stats returns the log's size at this moment.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Lines: l.index.lines(), Bytes: l.index.size, Omitted: l.omitted, Complete: l.done}
}

// open opens a file in dir and nothing else than a file: no link is followed.
func open(dir int, name string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case errors.Is(err, unix.EINTR):
			continue
		}
		return nil, logError(err)
	}
}

// openRegular opens a regular file in dir for reading.
func openRegular(dir int, name string) (*os.File, error) {
	f, err := open(dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, errTampered
	}
	return f, nil
}

// logError gives an error of a log's file its code.
func logError(err error) error {
	code := spec.CodeUnavailable
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		code = spec.CodeNoSpace
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		code = spec.CodeNotWritable
	}
	return &spec.Error{Code: code, Err: fmt.Errorf("the job's log: %w", err)}
}
