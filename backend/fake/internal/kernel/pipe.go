package kernel

import (
	"io"
	"sync"
	"time"
)

// pipeBytes is what a pipe holds before a writer waits, as on Linux.
const pipeBytes = 64 << 10

// Pipe carries bytes from its writers to its readers.
type Pipe struct {
	mu               sync.Mutex
	buf              []byte
	readers, writers int
	bell
	dropping bool   // what is written goes nowhere
	opened   [2]int // how many readers and writers there ever were
	stats    PipeStats
}

// PipeStats says what has gone through a pipe.
type PipeStats struct {
	Bytes   int64     // written
	Last    time.Time // of the last write, zero before it
	Blocked int       // writers that wait for a reader
}

// NewPipe returns a pipe with its two ends as files.
func NewPipe() (p *Pipe, r, w *File) {
	p = &Pipe{readers: 1, writers: 1}
	return p, newFile(&readEnd{p}), newFile(&writeEnd{p})
}

// Stats says what has gone through until now.
func (p *Pipe) Stats() PipeStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Drop makes everything that is written from now on vanish; what is in the pipe stays.
func (p *Pipe) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropping = true
	p.notify()
}

// bell is what those wait for who wait for a change. The zero value is ready; its holder's
// lock guards it.
type bell struct {
	changed chan struct{} // closed at the next change; nil if nobody waits
}

// notify wakes all who wait.
func (b *bell) notify() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

func (b *bell) wait() <-chan struct{} {
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// waiter waits for a channel, or for what ends its waiting.
type waiter interface {
	pause(ch <-chan struct{}) error
}

// Until is the waiter of the guest itself: closed, it ends the waiting with EINTR.
type Until <-chan struct{}

func (u Until) pause(ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-u:
		return EINTR
	}
}

// Read reads for the guest. It returns EINTR when until is closed and nothing is there.
func (p *Pipe) Read(b []byte, until Until) (int, error) { return p.read(until, b) }

// Write writes for the guest, all of b unless an error says otherwise.
func (p *Pipe) Write(b []byte, until Until) (int, error) { return p.write(until, b) }

func (p *Pipe) read(w waiter, b []byte) (int, error) {
	for {
		p.mu.Lock()
		if len(p.buf) > 0 {
			n := copy(b, p.buf)
			if p.buf = p.buf[n:]; len(p.buf) == 0 {
				p.buf = nil
			}
			p.notify()
			p.mu.Unlock()
			return n, nil
		}
		if p.writers == 0 {
			p.mu.Unlock()
			return 0, io.EOF
		}
		ch := p.wait()
		p.mu.Unlock()
		if err := w.pause(ch); err != nil {
			return 0, err
		}
	}
}

func (p *Pipe) write(w waiter, b []byte) (int, error) {
	done := 0
	for {
		p.mu.Lock()
		switch {
		case p.dropping:
			p.stats.Last = time.Now()
			p.mu.Unlock()
			return len(b), nil
		case p.readers == 0:
			p.mu.Unlock()
			return done, EPIPE
		}
		// A write that fits goes in as a whole.
		if room := pipeBytes - len(p.buf); room >= len(b)-done || room > 0 && len(b) > pipeBytes {
			n := min(room, len(b)-done)
			p.fill(b[done : done+n])
			done += n
		}
		if done == len(b) {
			p.mu.Unlock()
			return done, nil
		}
		p.stats.Blocked++
		ch := p.wait()
		p.mu.Unlock()
		err := w.pause(ch)
		p.mu.Lock()
		p.stats.Blocked--
		p.mu.Unlock()
		if err != nil {
			return done, err
		}
	}
}

// fill takes b, for which there is room. The caller holds the lock.
func (p *Pipe) fill(b []byte) {
	p.buf = append(p.buf, b...)
	p.stats.Bytes += int64(len(b))
	p.stats.Last = time.Now()
	p.notify()
}

// offer writes b if it fits at once, and else nothing.
func (p *Pipe) offer(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dropping && pipeBytes-len(p.buf) >= len(b) {
		p.fill(b)
	}
}

// closeEnd gives up one of the readers or of the writers.
func (p *Pipe) closeEnd(ends *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*ends--
	if p.readers == 0 {
		p.buf = nil
	}
	p.notify()
}

type readEnd struct{ *Pipe }

func (e *readEnd) read(p *Proc, b []byte) (int, error) { return e.Pipe.read(p, b) }
func (e *readEnd) write(*Proc, []byte) (int, error)    { return 0, EBADF }
func (e *readEnd) close()                              { e.closeEnd(&e.readers) }
func (e *readEnd) name() string                        { return "pipe:" }

type writeEnd struct{ *Pipe }

func (e *writeEnd) read(*Proc, []byte) (int, error)      { return 0, EBADF }
func (e *writeEnd) write(p *Proc, b []byte) (int, error) { return e.Pipe.write(patient{p}, b) }
func (e *writeEnd) close()                               { e.closeEnd(&e.writers) }
func (e *writeEnd) name() string                         { return "pipe:" }
