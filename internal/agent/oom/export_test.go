//go:build linux

package oom

import "time"

// Wait sets how long one that ended waits for another that may be the victim, and returns
// what undoes it.
func (w *Watch) Wait(d time.Duration) (undo func()) {
	set := func(d time.Duration) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.patience = d
	}
	before := w.patience
	set(d)
	return func() { set(before) }
}
