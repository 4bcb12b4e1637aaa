package terminal

import (
	"sync"
	"time"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/internal/scrollback"
	"github.com/berth-dev/berth/spec"
)

// Terminal is one terminal. It is made by a Registry; its methods are safe for concurrent
// use.
type Terminal struct {
	registry *Registry
	// TTY is for the program.
	TTY    *kernel.TTY
	typing chan struct{} // holds one token: taken by whoever types
	done   chan struct{} // closed when it has ended

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, when something below changes
	rec     spec.Terminal
	back    *scrollback.Buffer
	views   map[*View]bool
	exited  bool // the leader has: views hold nothing up any more
	ended   bool
	lost    error // nobody knows how it has ended, and why
	end     func(grace time.Duration)
}

func newTerminal(r *Registry, o spec.TerminalOptions) *Terminal {
	size, keep := o.Size.WithDefaults(), o.ScrollbackBytes
	if keep == 0 {
		keep = spec.DefaultScrollbackBytes
	}
	return &Terminal{
		registry: r, TTY: kernel.NewTTY(size), typing: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}),
		rec: spec.Terminal{Size: size}, back: scrollback.New(keep, size), views: map[*View]bool{},
	}
}

// notify wakes all who wait for a change. The caller holds the lock.
func (t *Terminal) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// Began says that the program runs, and returns the terminal's id. end begins to end it,
// from any goroutine and again.
func (t *Terminal) Began(pid int, name string, end func(grace time.Duration)) (id string) {
	t.mu.Lock()
	t.rec.PID, t.rec.Name, t.rec.Started, t.end = pid, name, time.Now(), end
	t.mu.Unlock()
	return t.registry.begun(t)
}

// named gives the terminal its id.
func (t *Terminal) named(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rec.ID = id
}

// Write takes what the program shows. It waits while no view keeps up.
func (t *Terminal) Write(p []byte) {
	for {
		t.mu.Lock()
		changed := t.changed
		if !t.held() {
			t.back.Write(p)
			t.notify()
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		<-changed
	}
}

// held reports whether the output waits for its viewers. The caller holds the lock.
func (t *Terminal) held() bool {
	if len(t.views) == 0 || t.exited {
		return false
	}
	for v := range t.views {
		if t.back.Total()-v.at < scrollback.WindowBytes {
			return false
		}
	}
	return true
}

// LeaderEnded says that the program has ended: its output waits for nobody any more.
func (t *Terminal) LeaderEnded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.exited = true
	t.notify()
}

// Ended says how the program ended, or why nobody knows; all of its output has been
// written.
func (t *Terminal) Ended(exit spec.Exit, lost error) {
	t.TTY.HangUp()
	t.mu.Lock()
	t.ended, t.lost, t.end = true, lost, nil
	t.rec.Ended, t.rec.Exit = time.Now(), exit
	t.notify()
	t.mu.Unlock()
	if lost != nil {
		t.registry.retire(t)
	} else {
		t.registry.retire(nil)
	}
	close(t.done)
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

// resize sets the size for all, or has the program told of the present one again.
func (t *Terminal) resize(size spec.TerminalSize) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	if size != t.rec.Size {
		t.rec.Size = size
		t.back.Resize(size)
		t.notify()
	}
	t.mu.Unlock()
	t.TTY.Resize(size)
}

// Info describes the terminal.
func (t *Terminal) Info() spec.Terminal {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.rec
	out.Viewers, out.OutputBytes, out.ScrollbackBytes = len(t.views), t.back.Total(), t.back.Kept()
	return out
}

// over reports whether the terminal has ended.
func (t *Terminal) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// leave ends the views of an owner.
func (t *Terminal) leave(owner any, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for v := range t.views {
		if v.owner == owner {
			v.leave(why)
		}
	}
}
