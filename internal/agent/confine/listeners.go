//go:build linux

package confine

import "sync"

// listeners are the unix sockets on which commands of this place have called listen(2),
// by what they are bound to. A socket is bound once and for all, so an entry is right as
// long as its socket lives; who asks makes sure of that. It is safe for concurrent use.
type listeners struct {
	diag *diag

	mu     sync.Mutex
	byName map[name]socketID
	prune  int // the size at which the dead are looked for
}

// The bounds on what is remembered: from minListeners on the dead are dropped now and
// then, and above maxListeners nothing is added, so that nobody connects to it.
const (
	minListeners = 1 << 10
	maxListeners = 1 << 16
)

func newListeners(d *diag) *listeners {
	return &listeners{diag: d, byName: map[name]socketID{}, prune: minListeners}
}

// add notes a socket that a command is about to listen on.
func (l *listeners) add(id socketID) {
	n, err := l.diag.bound(id)
	if err != nil || !n.bound() {
		return // the kernel refuses to listen on it
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.byName) >= l.prune {
		l.dropDead()
	}
	if len(l.byName) < maxListeners {
		l.byName[n] = id
	}
}

// dropDead forgets the sockets that live no more. The caller holds the lock.
func (l *listeners) dropDead() {
	for n, id := range l.byName {
		if _, err := l.diag.bound(id); err != nil {
			delete(l.byName, n)
		}
	}
	l.prune = max(minListeners, 2*len(l.byName))
}

// lives reports whether the socket bound to n was made here and lives, and whether
// there was one that does not any more.
func (l *listeners) lives(n name) (yes, known bool) {
	l.mu.Lock()
	id, known := l.byName[n]
	l.mu.Unlock()
	if !known {
		return false, false
	}
	now, err := l.diag.bound(id)
	return err == nil && now == n, true
}
