// Package countdown counts the time that a place has left.
package countdown

import "time"

// Timer is a timer that knows what is left. It is not safe for concurrent use.
type Timer struct {
	After time.Duration // 0: it never runs out
	timer *time.Timer
	due   time.Time // zero: not running
}

// Start starts it, unless it runs: f is called when it has run out.
func (c *Timer) Start(f func()) {
	if c.After == 0 || !c.due.IsZero() {
		return
	}
	c.due = time.Now().Add(c.After)
	c.timer = time.AfterFunc(c.After, f)
}

// Stop stops it. A call of f may be under way.
func (c *Timer) Stop() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.due = time.Time{}
}

// Left is the time until the countdown runs out if nothing happens from now on;
// negative: never.
func (c *Timer) Left() time.Duration {
	switch {
	case c.After == 0:
		return -1
	case c.due.IsZero():
		return c.After
	}
	return max(time.Until(c.due), 0)
}

// Late reports whether it has run out and was not stopped meanwhile.
func (c *Timer) Late() bool { return !c.due.IsZero() && !time.Now().Before(c.due) }
