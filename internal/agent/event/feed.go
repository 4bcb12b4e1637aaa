//go:build linux

package event

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Kept is how many events are kept, and keptBytes how much memory they take at most.
const (
	Kept      = 4096
	keptBytes = 4 << 20
)

// Feed is what has happened in one life of a guest. It is safe for concurrent use.
type Feed struct {
	life string

	mu     sync.Mutex
	ring   [Kept]*wire.PlaceEvent // event n at (n-1) % Kept; none is changed any more
	oldest int64                  // that is kept
	last   int64
	bytes  int
	ended  bool
	news   chan struct{} // closed by the next event; nil: nobody waits
	told   int           // listeners under way
	quiet  chan struct{} // closed when there are none, once End waits for that
}

// New returns a feed without events.
func New() *Feed {
	var b [8]byte
	rand.Read(b[:])
	return &Feed{life: hex.EncodeToString(b[:]), oldest: 1}
}

// Record takes an event in, and numbers and dates it. It holds up nobody: an event costs
// one small allocation, whoever listens. What e refers to must not change any more. Of
// long Args the beginning is kept.
func (f *Feed) Record(e wire.PlaceEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record(&e)
}

// record is Record under the lock.
func (f *Feed) record(e *wire.PlaceEvent) {
	if f.ended {
		return
	}
	e.Args = wire.EventArgs(e.Args)
	f.last++
	e.Seq, e.TimeUnixNS = f.last, time.Now().UnixNano()
	f.bytes += weight(e)
	for f.oldest < f.last && (f.last-f.oldest >= Kept || f.bytes > keptBytes) {
		old := f.slot(f.oldest)
		f.bytes -= weight(*old)
		*old = nil
		f.oldest++
	}
	*f.slot(f.last) = e
	if f.news != nil {
		close(f.news)
		f.news = nil
	}
}

func (f *Feed) slot(seq int64) **wire.PlaceEvent { return &f.ring[(seq-1)%Kept] }

// weight is about how many bytes an event takes, in memory and on the wire.
func weight(e *wire.PlaceEvent) int {
	const fixed, each = 384, 32
	n := fixed + len(e.Path) + len(e.OldPath) + len(e.Key) + each*len(e.Args)
	for _, a := range e.Args {
		n += len(a)
	}
	if e.Exit != nil {
		n += fixed + each*len(e.Exit.Survivors)
		for _, path := range e.Exit.HostExecutable {
			n += each + len(path)
		}
	}
	return n
}

// End records that the place ends, which is its last event, and returns when every
// listener has been told, after most in any case.
func (f *Feed) End(most time.Duration) {
	f.mu.Lock()
	f.record(&wire.PlaceEvent{Kind: string(spec.EventClosing)})
	f.ended = true
	if f.told == 0 {
		f.mu.Unlock()
		return
	}
	quiet := make(chan struct{})
	f.quiet = quiet
	f.mu.Unlock()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-quiet:
	case <-late.C:
	}
}

// enter counts a listener, who asks for r, and says what it gets.
func (f *Feed) enter(r *wire.EventsRequest) wire.EventsInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told++
	info := wire.EventsInfo{Life: f.life, After: r.After, Last: f.last}
	if r.Life != "" && r.Life != f.life || r.After > f.last {
		info.After = 0
	}
	return info
}

// leave counts a listener off.
func (f *Feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told--; f.told == 0 && f.quiet != nil {
		close(f.quiet)
		f.quiet = nil
	}
}

// batchBytes is about how much one batch carries.
const batchBytes = 64 << 10

// after returns the events after seq up to until, as many as make a batch, with one for
// those that are no longer kept. Without any it returns what is closed by the next one. done
// says that none follows.
func (f *Feed) after(seq, until int64) (batch []wire.PlaceEvent, news <-chan struct{}, done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		until = min(until, f.last)
	}
	if kept := min(f.oldest-1, until); seq < kept {
		batch = append(batch, wire.PlaceEvent{
			Kind: string(spec.EventMissed), Seq: kept, TimeUnixNS: time.Now().UnixNano(), Count: kept - seq,
		})
		seq = kept
	}
	size := 0
	for end := min(f.last, until); seq < end && len(batch) < wire.MaxEventBatch && size < batchBytes; seq++ {
		e := *f.slot(seq + 1)
		batch = append(batch, *e)
		size += weight(e)
	}
	if seq == until {
		return batch, nil, true
	}
	if len(batch) == 0 {
		if f.news == nil {
			f.news = make(chan struct{})
		}
		news = f.news
	}
	return batch, news, false
}

// forever is the until of a listener who follows.
const forever = math.MaxInt64
