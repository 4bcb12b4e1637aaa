//go:build linux

package job

import (
	"sync"
	"sync/atomic"
	"time"
)

// watch notices when a job has been silent for long.
type watch struct {
	after time.Duration // 0: nothing is watched
	begun time.Time
	tell  func(silent time.Duration)

	last   atomic.Int64 // when it wrote last, after begun
	silent atomic.Bool  // that it has been told

	mu    sync.Mutex
	timer *time.Timer // nil: not begun, or stopped
}

// newWatch returns a watch that, once begun, calls tell once for each silence of after.
func newWatch(after time.Duration, tell func(silent time.Duration)) *watch {
	return &watch{after: after, begun: time.Now(), tell: tell}
}

// begin begins to watch.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.after > 0 {
		w.timer = time.AfterFunc(w.after, w.look)
	}
}

// noise says that the job has written.
func (w *watch) noise() {
	if w.after == 0 {
		return
	}
	w.last.Store(int64(time.Since(w.begun)))
	if w.silent.Load() {
		w.again(w.after)
	}
}

// again looks after some time once more, unless nothing is watched.
func (w *watch) again(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.silent.Store(false)
		w.timer.Reset(after)
	}
}

// look tells of a silence that has been long enough, and otherwise looks again when it
// could be.
func (w *watch) look() {
	last := w.last.Load()
	silent := time.Since(w.begun) - time.Duration(last)
	if silent < w.after {
		w.again(w.after - silent)
		return
	}
	w.silent.Store(true)
	if w.last.Load() != last { // it wrote in between, and may not have seen that it was silent
		w.again(w.after)
		return
	}
	w.tell(silent)
}

// stop ends the watch.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
