// Package lapsed remembers for a while what has been forgotten.
package lapsed

import (
	"hash/maphash"
	"time"
)

// maxLapsed bounds how many ids are remembered: more than a host uses up within a
// resume window.
const maxLapsed = 1 << 16

// transit is how much longer than it was told to a guest remembers an id: a request that
// was sent in time may lie in a network that is out of order, until either end gives the
// connection up.
const transit = 2 * time.Minute

// IDs remembers for a while the ids of commands that have been forgotten, by their
// hashes: an id has 128 random bits, so that a chance match takes longer than a place
// lives. It is not safe for concurrent use.
type IDs struct {
	stay  time.Duration
	seed  maphash.Seed
	known map[uint64]bool
	order []lapse // oldest first
}

type lapse struct {
	id uint64
	at time.Time
}

// New returns no ids, each of which will be remembered for resume, after which no host
// sends a request again, and for what one may be on its way.
func New(resume time.Duration) *IDs {
	return &IDs{stay: resume + transit, seed: maphash.MakeSeed(), known: map[uint64]bool{}}
}

// prune makes room below most, and drops what is old.
func (l *IDs) prune(most int) {
	n := 0
	for n < len(l.order) && (len(l.order)-n > most || time.Since(l.order[n].at) >= l.stay) {
		delete(l.known, l.order[n].id)
		n++
	}
	l.order = l.order[n:]
}

// Add remembers an id.
func (l *IDs) Add(id string) {
	l.prune(maxLapsed - 1)
	if h := maphash.String(l.seed, id); !l.known[h] {
		l.known[h] = true
		l.order = append(l.order, lapse{h, time.Now()})
	}
}

// Has reports whether an id is remembered.
func (l *IDs) Has(id string) bool {
	l.prune(maxLapsed)
	return l.known[maphash.String(l.seed, id)]
}
