// Package event is what happens to one of the fake's places.
package event

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/spec"
)

// The bounds of what is kept.
const (
	kept     = 4096
	argBytes = 4 << 10
)

// Feed is what has happened since a place was started. It is safe for concurrent use.
type Feed struct {
	mu    sync.Mutex
	kept  []spec.Event // the latest, the oldest at first; none is changed any more
	last  int64
	ended bool
	lost  error         // why it ended without a word
	news  chan struct{} // closed by the next event; nil: nobody waits
}

// New returns a feed whose first event is the start.
func New() *Feed {
	f := &Feed{}
	f.Record(spec.Event{Kind: spec.EventStarted, PID: 1})
	return f
}

// Record takes an event in. Of a feed that has ended it changes nothing.
func (f *Feed) Record(e spec.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	f.last++
	e.Seq, e.Time, e.Args = f.last, time.Now(), cut(e.Args)
	if f.kept = append(f.kept, e); len(f.kept) > 2*kept { // now and then
		f.kept = slices.Clone(f.kept[len(f.kept)-kept:])
	}
	f.ended = e.Kind == spec.EventClosing
	f.wake()
}

// wake has those who wait look. The caller holds the lock.
func (f *Feed) wake() {
	if f.news != nil {
		close(f.news)
		f.news = nil
	}
}

// Lose ends the feed of a place that has gone down with no word: err is what those are
// told who follow it.
func (f *Feed) Lose(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.ended, f.lost = true, err
		f.wake()
	}
}

// cut is args, or the beginning of long ones.
func cut(args []string) []string {
	out, left := slices.Clone(args), argBytes
	for i, a := range out {
		if len(a) >= left {
			out[i] = a[:left]
			return out[:i+1]
		}
		left -= len(a)
	}
	return out
}

// Tell calls tell with the events that q selects. It returns nil after the last one,
// tell's error, the context's, or why the place was lost.
func (f *Feed) Tell(ctx context.Context, q spec.EventQuery, tell func(spec.Event) error) error {
	at, until := f.begin(q)
	for {
		e, news := f.next(at, until)
		switch {
		case e.Seq > 0:
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := tell(e); err != nil {
				return err
			}
			at = e.Seq
		case news == nil:
			return f.reason(until)
		default:
			select {
			case <-news:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// reason is why no more events come.
func (f *Feed) reason(until int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if until > 0 {
		return nil
	}
	return f.lost
}

// begin returns the event after which q begins, and the last one; 0: there is none yet.
func (f *Feed) begin(q spec.EventQuery) (at, until int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at = q.After; at > f.last {
		at = 0
	}
	if !q.Follow {
		until = f.last
	}
	return at, until
}

// next returns the event after at, or else what is closed by it; neither: there is none.
func (f *Feed) next(at, until int64) (spec.Event, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch oldest := max(f.last-kept, 0) + 1; {
	case until > 0 && at >= until, at == f.last && f.ended:
		return spec.Event{}, nil
	case at+1 < oldest:
		return spec.Event{Kind: spec.EventMissed, Seq: oldest - 1, Time: time.Now(), Count: oldest - 1 - at}, nil
	case at < f.last:
		return f.kept[len(f.kept)-int(f.last-at)], nil
	}
	if f.news == nil {
		f.news = make(chan struct{})
	}
	return spec.Event{}, f.news
}
