// Package usage measures for how long nothing has been done.
package usage

import (
	"sync"
	"time"
)

// Meter counts what goes on, and remembers when the last of it ended. It is safe for
// concurrent use.
type Meter struct {
	mu   sync.Mutex
	open int
	last time.Time
}

// New returns a meter by which something was done just now.
func New() *Meter { return &Meter{last: time.Now()} }

// Begin says that something goes on, until End is called as often.
func (m *Meter) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
}

// End ends what one Begin began.
func (m *Meter) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
	m.last = time.Now()
}

// Unused is how long nothing has gone on: 0 while something does, else above 0.
func (m *Meter) Unused() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open > 0 {
		return 0
	}
	return max(time.Since(m.last), 1)
}
