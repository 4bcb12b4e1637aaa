//go:build linux

package oom

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Watch keeps the count. A nil *Watch sees nothing. Safe for concurrent use.
type Watch struct {
	source *source

	mu       sync.Mutex
	count    int64 // as it was seen last
	limits   int64 // v2: how often the group's own limit was met by then
	seq      int64 // numbers what is seen
	looked   time.Time
	events   []*event
	running  map[*Mark]bool
	patience time.Duration
}

// event is a rise of the count that has not been told in full.
type event struct {
	seq     int64
	at      time.Time
	left    int64 // kills that nobody has been told of
	told    bool  // somebody has been told of one
	byLimit bool  // the group's own limit was met
}

// Mark is a command that runs.
type Mark struct{ seq int64 }

const (
	// usualPatience is how long a command that ended in another way waits for one
	// that was killed: the kill is seen before the victim's end is.
	usualPatience = 50 * time.Millisecond
	// rest is how long, after somebody has been told, another kill of the same
	// rise can be told to a command that ended by SIGKILL too.
	rest = 2 * time.Second
	// machineRest is the time between two looks at the machine's count, which is
	// dear to read, unless a command was killed.
	machineRest = time.Second
)

// Open begins to watch. It returns nil where nothing can be read.
func Open(g Group) *Watch {
	s := open(g)
	if s == nil {
		return nil
	}
	w := &Watch{source: s, running: map[*Mark]bool{}, patience: usualPatience}
	w.count, _ = s.count(s.field)
	w.limits = w.met()
	return w
}

// Close lets go of what it reads.
func (w *Watch) Close() {
	if w != nil {
		w.source.close()
	}
}

// met is how often the limit of the group itself was met; 0 where that is not told.
func (w *Watch) met() int64 {
	if !w.source.unified {
		return 0
	}
	n, _ := w.source.count("oom")
	return n
}

// Begin takes note of a command that is about to start. Each Mark is given to
// Ended or Forget.
func (w *Watch) Begin() *Mark {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.source.machine() || time.Since(w.looked) >= machineRest {
		w.look()
	}
	m := &Mark{seq: w.seq}
	w.running[m] = true
	return m
}

// look reads the count. The caller holds the lock.
func (w *Watch) look() {
	w.looked = time.Now()
	n, err := w.source.count(w.source.field)
	if err != nil || n <= w.count {
		return
	}
	met := w.met()
	w.seq++
	e := &event{seq: w.seq, at: w.looked, left: n - w.count, byLimit: w.source.own && w.byLimit(met)}
	w.count, w.limits = n, met
	w.events = append(w.events, e)
}

// byLimit says whether the limit of the group itself was the cause, and not memory that
// ran out around it, which counts as a kill in the group as well. v2 counts that; in v1
// the group must have come up to its limit.
func (w *Watch) byLimit(met int64) bool {
	if w.source.unified {
		return met > w.limits
	}
	limit, peak := w.source.limit(), w.source.peak()
	return limit > 0 && (peak == 0 || peak >= limit-limit/64)
}

// End says how a command ended.
type End struct {
	// Status is what its leader ended with: 128+n after a signal.
	Status int
	// Ours: it was killed by us.
	Ours bool
}

// killed reports whether the command may be the kernel's victim.
func (e End) killed() bool {
	const bySIGKILL = 128 + 9
	return e.Status == bySIGKILL && !e.Ours
}

// Ended says whether the command of m has lost a process for want of memory. It is
// called once, when the command's leader has ended.
func (w *Watch) Ended(m *Mark, end End) *spec.OOM {
	if w == nil || m == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.source.machine() || end.killed() {
		w.look()
	}
	delete(w.running, m)
	defer w.prune()
	for _, e := range slices.Clone(w.events) { // it changes while one waits
		switch {
		case e.seq <= m.seq || e.left == 0:
		case end.killed():
			if e.told && time.Since(e.at) > rest {
				continue
			}
			e.left--
			e.told = true
			return w.explain(e)
		case w.source.own && !e.told && !w.taken(e):
			e.left, e.told = 0, true
			return w.explain(e)
		}
	}
	return nil
}

// Forget takes note that the command of m did not start.
func (w *Watch) Forget(m *Mark) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, m)
	w.prune()
}

// taken waits a moment if another command may be the victim of e, and reports whether it
// was. The caller holds the lock, which is given up meanwhile.
func (w *Watch) taken(e *event) bool {
	for end := time.Now().Add(w.patience); !e.told && w.witnessed(e) && time.Now().Before(end); {
		w.mu.Unlock()
		time.Sleep(w.patience / 10)
		w.mu.Lock()
	}
	return e.told
}

// witnessed reports whether a command that runs was there when e was seen.
func (w *Watch) witnessed(e *event) bool {
	for m := range w.running {
		if m.seq < e.seq {
			return true
		}
	}
	return false
}

// prune forgets what nobody can be told of any more.
func (w *Watch) prune() {
	kept := w.events[:0]
	for _, e := range w.events {
		if e.left > 0 && w.witnessed(e) {
			kept = append(kept, e)
		}
	}
	clear(w.events[len(kept):])
	w.events = kept
}

// explain says what a kill means.
func (w *Watch) explain(e *event) *spec.OOM {
	out := &spec.OOM{Retryable: !e.byLimit}
	if w.source.own {
		out.LimitBytes, out.PeakBytes = w.source.limit(), w.source.peak()
	}
	out.Hint = "memory ran out around the sandbox, not at a limit of its own: the same command may succeed later, or where there is more memory"
	if e.byLimit {
		out.Hint = fmt.Sprintf("the sandbox's memory limit of %s is too small for the command: raise it (Limits.MemoryBytes, --memory), or let the command use less", size(out.LimitBytes))
	}
	return out
}

// size writes a number of bytes for a person.
func size(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + " " + unit.name
		}
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// commandScore is by how much commands are likelier victims than the guest, in
// thousandths of the memory: many small commands must not make it the largest process.
const commandScore = "300"

// Offer makes the process pid, and what it will start, likelier victims than the guest
// where the place has a memory limit. A process may take that back: this helps, and
// promises nothing.
func (w *Watch) Offer(pid int) {
	if w == nil || !w.source.own {
		return
	}
	f, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteString(commandScore)
	f.Close()
}

// Usage is what a place uses of its memory group.
type Usage struct {
	// Limit, Current and Peak are in bytes; 0: none, or not known. Kills counts the
	// processes that were killed for want of memory.
	Limit, Current, Peak, Kills int64
}

// Usage reads it; zero for a place without a group of its own.
func (w *Watch) Usage() Usage {
	if w == nil || !w.source.own {
		return Usage{}
	}
	kills, _ := w.source.count(w.source.field)
	return Usage{w.source.limit(), w.source.current(), w.source.peak(), kills}
}
