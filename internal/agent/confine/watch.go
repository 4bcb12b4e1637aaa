//go:build linux

package confine

import (
	"sync"
	"time"
)

// watch keeps one worker in wait for the next call. A call takes microseconds, and to wake
// a second worker for each would cost as much again, so there is one more only when
// a call takes its time: in a file system that hangs, it holds up no other.
type watch struct {
	mu      sync.Mutex
	workers int
	busy    int    // of them, answer a call
	calls   uint64 // that have begun
	looking bool
}

const (
	// maxWorkers bounds the calls that are answered at one time, and so the threads
	// that this takes; the others wait in the kernel.
	maxWorkers = 8
	lookEvery  = 10 * time.Millisecond
	// lookTimes is how often is looked after the last call.
	lookTimes = 50
)

// begin counts a call that a worker answers from now on. work is one worker more.
func (w *watch) begin(work func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy++
	w.calls++
	if !w.looking {
		w.looking = true
		go w.look(work)
	}
}

// slow adds a worker for a call that will take a while yet.
func (w *watch) slow(work func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy >= w.workers && w.workers < maxWorkers {
		w.workers++
		go work()
	}
}

// end counts a call that has been answered, and reports whether its worker is one too many.
func (w *watch) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	if w.workers-w.busy < 2 {
		return false
	}
	w.workers--
	return true
}

// look adds a worker whenever all are at the same calls as the time before.
func (w *watch) look(work func()) {
	var before uint64
	for idle := 0; idle < lookTimes; {
		time.Sleep(lookEvery)
		w.mu.Lock()
		stuck := w.busy == w.workers && w.calls == before
		if stuck && w.workers < maxWorkers {
			w.workers++
			go work()
		}
		if w.busy == 0 && w.calls == before {
			idle++
		} else {
			idle = 0
		}
		before = w.calls
		if idle == lookTimes {
			w.looking = false
		}
		w.mu.Unlock()
	}
}
