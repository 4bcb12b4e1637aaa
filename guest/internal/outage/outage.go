// Package outage is the time in which a guest cannot be reached: how long it may last,
// and the pauses between the attempts to reach the guest again.
package outage

import (
	"context"
	"time"
)

// The pauses between attempts, the least time given to all of them, and how long a
// connection has to hold for its loss to be a new outage.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = time.Second
	minResume  = 5 * time.Second
	steady     = time.Second
)

// Outage is the time in which a guest cannot be reached, or breaks off at once. The
// zero value is the time before any. It is not safe for concurrent use.
type Outage struct {
	since time.Time
	next  time.Duration // the next pause; 0: the next attempt is the first
}

// Broke notes that a connection has broken that was in use from began on. One that held
// for a while, or that has brought something, ends the outage that was before.
func (o *Outage) Broke(began time.Time, brought bool) {
	switch {
	case time.Since(began) > steady:
		*o = Outage{}
	case brought:
		*o = Outage{next: firstPause}
	}
	o.Failed()
}

// Failed notes that there was no connection to be had.
func (o *Outage) Failed() {
	if o.since.IsZero() {
		o.since = time.Now()
	}
}

// Within returns a ctx that ends when the outage has lasted for a resume window.
func (o *Outage) Within(ctx context.Context, resume time.Duration) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, o.since.Add(max(resume, minResume)))
}

// Over reports whether the outage has lasted for a resume window.
func (o *Outage) Over(resume time.Duration) bool { return time.Since(o.since) > max(resume, minResume) }

// Pause waits before the next attempt, not at all before the first.
func (o *Outage) Pause(ctx context.Context) error {
	wait := o.next
	o.next = min(max(2*wait, firstPause), maxPause)
	if wait == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
