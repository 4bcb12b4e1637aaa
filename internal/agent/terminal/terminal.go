//go:build linux

package terminal

import (
	"os"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/scrollback"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Terminal is one terminal. It is made by a Registry; its methods are safe for concurrent
// use.
type Terminal struct {
	registry *Registry
	request  string        // that opened it
	ready    chan struct{} // closed when it has started or failed to
	err      error         // valid then
	done     chan struct{} // closed when it has ended

	typing chan struct{} // holds one token: taken by whoever writes to the master

	mu      sync.Mutex
	changed sync.Cond // anything below has
	rec     wire.Terminal
	master  *os.File // nil before it has started and after it has ended
	back    *scrollback.Buffer
	viewers map[string]*viewer
	exited  bool // the leader has: viewers hold nothing up any more
	ended   bool
	end     func(grace time.Duration)
}

func newTerminal(r *Registry, request string, size spec.TerminalSize, keep int) *Terminal {
	t := &Terminal{
		registry: r, request: request, ready: make(chan struct{}), done: make(chan struct{}), typing: make(chan struct{}, 1),
		back: scrollback.New(keep, size), viewers: map[string]*viewer{},
	}
	t.changed.L = &t.mu
	t.rec.Size = size
	return t
}

// Began says that the terminal's program runs as pid, with name and master as its
// terminal, until leader is closed. end is called to end it, from any goroutine and again;
// it begins the ending and does not wait. Whoever reads the master passes what it reads to
// Write.
func (t *Terminal) Began(pid int, name string, master *os.File, leader <-chan struct{}, end func(grace time.Duration)) {
	id := t.registry.begun(t)
	t.mu.Lock()
	t.rec.ID, t.rec.PID, t.rec.Name, t.rec.StartedUnixNS = id, pid, wire.Bytes(name), time.Now().UnixNano()
	t.master, t.end = master, end
	for _, v := range t.viewers {
		t.await(v, t.registry.resume)
	}
	t.mu.Unlock()
	close(t.ready)
	go func() {
		<-leader
		t.mu.Lock()
		defer t.mu.Unlock()
		t.exited = true
		t.changed.Broadcast()
	}()
}

// ID is the terminal's, once it has begun.
func (t *Terminal) ID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rec.ID
}

// Write takes output. It waits while no viewer keeps up. It never fails.
func (t *Terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.held() {
		t.changed.Wait()
	}
	t.back.Write(p)
	t.changed.Broadcast()
	return len(p), nil
}

// held reports whether the output waits for its viewers. The caller holds the lock.
func (t *Terminal) held() bool {
	if len(t.viewers) == 0 || t.exited {
		return false
	}
	for _, v := range t.viewers {
		if t.back.Total()-v.seen < scrollback.WindowBytes {
			return false
		}
	}
	return true
}

// Ended says how the program ended; all of its output has been written. The terminal is
// hung up, for what may still hold it.
func (t *Terminal) Ended(exit *wire.Exit) {
	copied := *exit
	t.mu.Lock()
	t.rec.EndedUnixNS, t.rec.Exit = time.Now().UnixNano(), &copied
	t.ended, t.end = true, nil
	t.master.Close()
	t.master = nil
	t.changed.Broadcast()
	t.mu.Unlock()
	t.registry.retire()
	close(t.done)
}

// Resize sets the size of the terminal for all. To set the present one has the foreground
// told that it may have changed. Of a terminal that has ended it does nothing.
func (t *Terminal) Resize(size spec.TerminalSize) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master == nil {
		return nil
	}
	raw, err := t.master.SyscallConn()
	if err != nil {
		return err
	}
	same := size == t.rec.Size
	var failed error
	err = raw.Control(func(fd uintptr) {
		if same {
			notify(int(fd))
		} else {
			failed = setSize(int(fd), size)
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil || same {
		return err
	}
	t.rec.Size = size
	t.back.Resize(size)
	t.changed.Broadcast()
	return nil
}

// info describes the terminal.
func (t *Terminal) info() *wire.Terminal {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec := t.rec
	rec.OutputBytes, rec.ScrollbackBytes = t.back.Total(), t.back.Kept()
	for _, v := range t.viewers {
		if v.attached() {
			rec.Viewers++
		}
	}
	return &rec
}

// remains is how much of the output is kept, and whether the terminal has ended.
func (t *Terminal) remains() (bytes int64, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.back.Total() - t.back.First(), t.ended
}

// drop gives up what is kept of the output.
func (t *Terminal) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.back.Drop()
	t.changed.Broadcast()
}

// bye forgets the viewers of a client.
func (t *Terminal) bye(client string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.viewers {
		if v.peer == nil || v.peer.Name != client { // nil: it is expected, and lapses
			continue
		}
		if v.stream != nil {
			stream.Abort(v.stream)
			v.stream = nil
		}
		t.forget(v)
	}
}

// kill begins to end the terminal, unless it has ended.
func (t *Terminal) kill(grace time.Duration) {
	t.mu.Lock()
	end := t.end
	t.mu.Unlock()
	if end != nil {
		end(grace)
	}
}
