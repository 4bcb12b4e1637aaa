package job

import (
	"bytes"
	"context"
	"io"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/spec"
)

// LogDir is where the logs of jobs lie in a place.
const LogDir = "/var/lib/berth/jobs"

// indexEvery is how many lines lie between two entries of a log's index.
const indexEvery = 256

// Log is the log of a job: a file of the place, and where its lines begin.
type Log struct {
	path  string
	file  *memfs.Handle
	limit int64

	mu       sync.Mutex
	size     int64
	newlines int64
	omitted  int64
	partial  bool    // the last byte is no newline
	index    []int64 // where lines 1, 1+indexEvery, ... begin
	last     time.Time
	done     bool
	changed  chan struct{} // closed at the next change; nil if nobody waits
}

func newLog(fs *memfs.FS, id string, limit int64) (*Log, error) {
	name := LogDir + "/" + id + ".log"
	h, err := fs.OpenFile(name, os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &Log{path: name, file: h, limit: limit, index: []int64{0}, last: time.Now()}, nil
}

// Write takes output; what is over the limit is counted and dropped.
func (l *Log) Write(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
	fit := min(int64(len(p)), l.limit-l.size)
	l.omitted += int64(len(p)) - fit
	p = p[:fit]
	if len(p) == 0 {
		return
	}
	_, _ = l.file.Append(p) // in memory it cannot fail
	for rest := p; ; {
		at := bytes.IndexByte(rest, '\n')
		if at < 0 {
			break
		}
		rest = rest[at+1:]
		if l.newlines++; l.newlines%indexEvery == 0 {
			l.index = append(l.index, l.size+int64(len(p)-len(rest)))
		}
	}
	l.size += int64(len(p))
	l.partial = p[len(p)-1] != '\n'
	l.notify()
}

func (l *Log) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// complete says that nothing more will come.
func (l *Log) complete() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
	l.notify()
}

// lines is how many lines there are. The caller holds the lock.
func (l *Log) lines() int64 {
	if l.partial {
		return l.newlines + 1
	}
	return l.newlines
}

// fill writes what the log holds into a record.
func (l *Log) fill(j *spec.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j.LogLines, j.LogBytes, j.LogOmittedBytes, j.LogPath = l.lines(), l.size, l.omitted, l.path
}

// LastWrite is when the last output came, or when the log was made.
func (l *Log) LastWrite() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// lineStart is where a line begins that is there, or the end. The caller holds the lock.
func (l *Log) lineStart(line int64) int64 {
	entry := min((line-1)/indexEvery, int64(len(l.index)-1))
	at, skip := l.index[entry], line-1-entry*indexEvery
	l.scan(at, func(off int64) bool {
		if skip > 0 {
			at = off + 1
			skip--
		}
		return skip > 0
	})
	return at
}

// lineAt is the number of the line in which the byte at off lies.
func (l *Log) lineAt(off int64) int64 {
	entry := sort.Search(len(l.index), func(i int) bool { return l.index[i] > off }) - 1
	line := int64(entry)*indexEvery + 1
	l.scan(l.index[entry], func(newline int64) bool {
		if newline < off {
			line++
		}
		return newline < off
	})
	return line
}

// scan calls found with the offset of each newline from at on, as long as it says so.
func (l *Log) scan(at int64, found func(off int64) bool) {
	buf := make([]byte, 4<<10)
	for at < l.size {
		n, _ := l.file.ReadAt(buf, at)
		if n == 0 {
			return // somebody has cut the file
		}
		for i, b := range buf[:n] {
			if b == '\n' && !found(at+int64(i)) {
				return
			}
		}
		at += int64(n)
	}
}

// Window is an open part of a log.
type Window struct {
	l      *Log
	ctx    context.Context // bounds its life
	end    context.CancelFunc
	info   spec.LogInfo
	follow bool
	at     int64
	to     int64 // the end, as far as it is known
	most   int64 // the end at the latest; 0: none
	last   int64 // the last line; 0: none
}

// Open opens a window, whose life ctx bounds.
func (l *Log) Open(ctx context.Context, w spec.LogWindow) *Window {
	ctx, end := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &Window{l: l, ctx: ctx, end: end, follow: w.Follow && !l.done}
	r.info = spec.LogInfo{Lines: l.lines(), Bytes: l.size, Complete: l.done}
	line := max(w.From, 1)
	if w.From < 0 {
		line = max(l.lines()+1+w.From, 1)
	}
	switch {
	case w.Offset > 0 && w.Offset >= l.size, w.Offset == 0 && line > l.lines():
		r.info.FirstLine, r.info.Offset = l.lines()+1, l.size
	case w.Offset > 0:
		r.info.FirstLine, r.info.Offset = l.lineAt(w.Offset), w.Offset
	default:
		r.info.FirstLine, r.info.Offset = line, l.lineStart(line)
	}
	r.at = r.info.Offset
	if w.MaxBytes > 0 && w.MaxBytes < 1<<62-r.at {
		r.most = r.at + w.MaxBytes
	}
	first := r.info.FirstLine
	if r.at == l.size { // with what is written next, which may be the rest of a line
		first = l.newlines + 1
	}
	if w.Lines > 0 && w.Lines < 1<<62-first {
		r.last = first + w.Lines - 1
	}
	r.bound()
	return r
}

// bound finds the end if the log has come so far. The caller holds the log's lock.
func (r *Window) bound() {
	r.to = r.l.size
	if r.last > 0 && r.l.newlines >= r.last {
		r.to, r.follow, r.last = max(r.l.lineStart(r.last+1), r.at), false, 0
	}
	if r.most > 0 && r.to >= r.most {
		r.to, r.follow = r.most, false
	}
}

// Info says what the window shows.
func (r *Window) Info() spec.LogInfo { return r.info }

func (r *Window) Close() error {
	r.end()
	return nil
}

func (r *Window) Read(p []byte) (int, error) {
	for r.at >= r.to && r.follow {
		if err := r.wait(); err != nil {
			return 0, err
		}
	}
	switch {
	case r.ctx.Err() != nil:
		return 0, r.ctx.Err()
	case r.at >= r.to:
		return 0, io.EOF
	}
	n, err := r.l.file.ReadAt(p[:min(int64(len(p)), r.to-r.at)], r.at)
	r.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// wait waits for a change of the log.
func (r *Window) wait() error {
	r.l.mu.Lock()
	if r.l.size > r.at || r.l.done {
		r.follow = r.follow && !r.l.done
		r.bound()
		r.l.mu.Unlock()
		return nil
	}
	if r.l.changed == nil {
		r.l.changed = make(chan struct{})
	}
	changed := r.l.changed
	r.l.mu.Unlock()
	select {
	case <-changed:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}
