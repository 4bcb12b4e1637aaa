//go:build linux

package agent

import (
	"hash/maphash"
	"time"
)

// maxLapsed bounds how many ids are remembered: more than a host uses up within a
// resume window.
const maxLapsed = 1 << 16

// lapsed remembers for a while the ids of commands that have been forgotten, by their
// hashes: an id has 128 random bits, so that a chance match takes longer than a place
// lives.
type lapsed struct {
	stay  time.Duration
	seed  maphash.Seed
	known map[uint64]bool
	order []lapse // oldest first
}

type lapse struct {
	id uint64
	at time.Time
}

func newLapsed(stay time.Duration) *lapsed {
	return &lapsed{stay: stay, seed: maphash.MakeSeed(), known: map[uint64]bool{}}
}

// prune makes room below most, and drops what is old.
func (l *lapsed) prune(most int) {
	n := 0
	for n < len(l.order) && (len(l.order)-n > most || time.Since(l.order[n].at) >= l.stay) {
		delete(l.known, l.order[n].id)
		n++
	}
	l.order = l.order[n:]
}

func (l *lapsed) add(id string) {
	l.prune(maxLapsed - 1)
	if h := maphash.String(l.seed, id); !l.known[h] {
		l.known[h] = true
		l.order = append(l.order, lapse{h, time.Now()})
	}
}

func (l *lapsed) has(id string) bool {
	l.prune(maxLapsed)
	return l.known[maphash.String(l.seed, id)]
}
