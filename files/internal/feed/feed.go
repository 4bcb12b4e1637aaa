// Package feed is what lies between those who see changes and the one who is told: a
// queue of events that takes any number of them and holds a few.
package feed

import (
	"context"
	"sync"

	"github.com/berth-dev/berth/files"
)

// What a queue holds at most; more is an overflow.
const (
	MaxEvents = 65_536
	maxBytes  = 8 << 20 // of paths
)

// Queue holds events until they are told. It is safe for concurrent use.
type Queue struct {
	wake chan struct{} // holds something where there may be something to take

	mu     sync.Mutex
	events []files.WatchEvent
	next   int // the first that has not been told
	bytes  int // of the paths of those that have not
	// written are the paths of which the last that is known is a WatchWritten that
	// has not been told: it stands for those that follow.
	written map[string]struct{}
	lost    bool // events are missing
	ended   bool
	err     error
}

// New returns an empty queue.
func New() *Queue {
	return &Queue{wake: make(chan struct{}, 1), written: map[string]struct{}{}}
}

// Put appends an event. It never waits: where there is no room, all that has not been
// told becomes one WatchOverflow. Until that is told nothing is taken any more, since
// whoever is told reads all again.
func (q *Queue) Put(e files.WatchEvent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost || q.ended || q.covered(e) {
		return
	}
	if q.bytes += len(e.Path) + len(e.OldPath); q.bytes > maxBytes || len(q.events)-q.next == MaxEvents {
		q.lose()
		return
	}
	if q.next > 0 && q.next == len(q.events) {
		q.events, q.next = q.events[:0], 0
	}
	q.events = append(q.events, e)
	q.signal()
}

// covered reports whether an event that is held says all that e does.
func (q *Queue) covered(e files.WatchEvent) bool {
	switch {
	case e.Kind == files.WatchWritten:
		if _, ok := q.written[e.Path]; ok {
			return true
		}
		q.written[e.Path] = struct{}{}
	case e.Dir: // what is below has another meaning now
		clear(q.written)
	default:
		delete(q.written, e.Path)
		delete(q.written, e.OldPath)
	}
	return false
}

// Lose says that events are missing.
func (q *Queue) Lose() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lose()
}

func (q *Queue) lose() {
	q.events, q.next, q.bytes, q.lost = nil, 0, 0, true
	clear(q.written)
	q.signal()
}

// End says that there will be no more events, and why.
func (q *Queue) End(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended, q.err = true, err
	}
	q.signal()
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Tell tells all events, until the queue has ended, ctx has, or tell returns an error,
// and returns why. One goroutine calls it.
func (q *Queue) Tell(ctx context.Context, tell func(files.WatchEvent) error) error {
	for {
		e, ok, err := q.take()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case ok:
			if err := tell(e); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take returns the first event, or why there are no more.
func (q *Queue) take() (e files.WatchEvent, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.lost:
		q.lost = false
		return files.WatchEvent{Kind: files.WatchOverflow, Path: "."}, true, nil
	case q.next == len(q.events):
		return files.WatchEvent{}, false, q.err
	}
	e = q.events[q.next]
	q.events[q.next] = files.WatchEvent{}
	q.next++
	q.bytes -= len(e.Path) + len(e.OldPath)
	if e.Kind == files.WatchWritten {
		delete(q.written, e.Path)
	}
	return e, true, nil
}
