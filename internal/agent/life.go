//go:build linux

package agent

import (
	"errors"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/agent/countdown"
	"github.com/berth-dev/berth/internal/agent/event"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/agent/usage"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// life decides when the place ends: it counts clients and commands, and keeps the
// three timers.
type life struct {
	cfg     *config
	feed    *event.Feed
	started time.Time
	ending  chan time.Duration // receives the grace, once
	used    *usage.Meter       // commands, and what clients ask for

	mu       sync.Mutex
	epoch    uint64 // the highest seen
	clients  map[*client]bool
	commands int
	ended    bool
	idle     *countdown.Timer // no client and no command
	orphan   *countdown.Timer // no client of an ephemeral place
	ttl      *countdown.Timer
}

// arrival is how long nobody has to have come to a new place at least until it is idle.
const arrival = 10 * time.Second

func newLife(cfg *config, feed *event.Feed) *life {
	l := &life{
		cfg: cfg, feed: feed, started: time.Now(), ending: make(chan time.Duration, 1), used: usage.New(), clients: map[*client]bool{},
		idle: &countdown.Timer{After: cfg.idle}, orphan: &countdown.Timer{}, ttl: &countdown.Timer{After: cfg.ttl},
	}
	if cfg.ephemeral {
		l.orphan.After = max(cfg.orphanAfter, time.Nanosecond)
	}
	return l
}

// begin starts the timers: a place that nobody comes to ends too.
func (l *life) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ttl.Start(func() { l.end(l.cfg.grace) })
	if l.idle.After > 0 { // whoever made the place is given the time to come
		l.idle.After = max(l.idle.After, arrival)
	}
	l.adjust()
	l.idle.After = l.cfg.idle
}

// adjust starts and stops the timers as clients and commands are. The caller holds
// the lock.
func (l *life) adjust() {
	if len(l.clients) > 0 {
		l.orphan.Stop()
	} else {
		l.orphan.Start(func() { l.expire(l.orphan) })
	}
	if len(l.clients) > 0 || l.commands > 0 {
		l.idle.Stop()
	} else {
		l.idle.Start(func() { l.expire(l.idle) })
	}
}

// expire ends the place unless c was stopped while its timer ran out.
func (l *life) expire(c *countdown.Timer) {
	l.mu.Lock()
	late := c.Late()
	l.mu.Unlock()
	if late {
		l.end(l.cfg.grace)
	}
}

// end ends the place. Only the first call counts.
func (l *life) end(grace time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		l.ending <- grace
	}
}

var errEnding = &spec.Error{Code: spec.CodeUnavailable, Err: errors.New("the place is ending")}

// enter takes a client in unless its owner is stale or the place is ending, and
// returns the highest epoch seen.
func (l *life) enter(cl *client) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return 0, errEnding
	}
	if cl.epoch < l.epoch {
		return 0, staleOwner(cl.epoch, l.epoch)
	}
	l.epoch = cl.epoch
	l.tell(cl, false)
	l.clients[cl] = true
	l.adjust()
	return l.epoch, nil
}

// connected gives a client that has entered its connection.
func (l *life) connected(cl *client, mux *wire.Mux) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cl.mux = mux
	cl.peer = &stream.Peer{Name: cl.name, Chunk: cl.profile.ChunkBytes, Gone: mux.Done()}
}

// leave takes a client out.
func (l *life) leave(cl *client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients[cl] {
		delete(l.clients, cl)
		l.tell(cl, true)
	}
	l.adjust()
}

// tell records that a client has come or left, unless it is here by another connection
// too. The caller holds the lock.
func (l *life) tell(cl *client, left bool) {
	for other := range l.clients {
		if other.name == cl.name {
			return
		}
	}
	l.feed.Record(wire.PlaceEvent{Kind: string(spec.EventClient), Client: cl.name, Ended: left})
}

// over reports whether the place ends.
func (l *life) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// highest is the highest epoch seen.
func (l *life) highest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// commandBegan counts a command, unless the place is ending.
func (l *life) commandBegan() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return errEnding
	}
	l.commands++
	l.used.Begin()
	l.adjust()
	return nil
}

func (l *life) commandEnded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commands--
	l.used.End()
	l.adjust()
}

// status fills in what life knows.
func (l *life) status() *wire.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := l.idle.Left()
	if o := l.orphan.Left(); o >= 0 && (idle < 0 || o < idle) {
		idle = o
	}
	return &wire.Status{
		StartedUnixNS: l.started.UnixNano(), UptimeNS: int64(time.Since(l.started)),
		Clients: len(l.clients), Commands: l.commands,
		IdleInNS: int64(idle), ExpiresInNS: int64(l.ttl.Left()), UnusedNS: int64(l.used.Unused()),
	}
}
