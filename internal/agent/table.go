//go:build linux

package agent

import (
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/agent/lapsed"
	"github.com/berth-dev/berth/internal/wire"
)

// The bounds on what is kept of commands with a key that have ended. Over the
// second, output goes before results do.
const (
	maxKept      = 1024
	maxKeptBytes = 64 << 20
)

// table knows the commands of the place by id and by key.
type table struct {
	mu      sync.Mutex
	byID    map[string]*command
	byKey   map[string]*command
	waiting map[string][]chan struct{} // for an id to become known
	lapsed  *lapsed.IDs
	kept    []*command // with a key, ended, oldest first
	bytes   int64      // of output in kept
}

func newTable(resume time.Duration) *table {
	return &table{lapsed: lapsed.New(resume), byID: map[string]*command{}, byKey: map[string]*command{}, waiting: map[string][]chan struct{}{}}
}

// claim returns the command that req means, held by its caller: a known one by id
// or by key, or a fresh one, which the caller starts. It is nil for a request that
// comes again so late that its command has been forgotten: nothing runs twice.
func (t *table) claim(req *wire.ExecRequest, owner string) (c *command, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c = t.byID[req.ID]
	if c == nil && req.Key != "" {
		if c = t.byKey[req.Key]; c != nil {
			c.aliases = append(c.aliases, req.ID)
		}
	}
	if c == nil && t.lapsed.Has(req.ID) {
		return nil, false
	}
	if c == nil {
		fresh = true
		c = newCommand(req, owner)
		if c.key != "" {
			t.byKey[c.key] = c
		}
	}
	t.byID[req.ID] = c
	for _, w := range t.waiting[req.ID] {
		close(w)
	}
	delete(t.waiting, req.ID)
	c.hold(owner)
	return c, fresh
}

// find returns the command with this id, or nil.
func (t *table) find(id string) *command {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// keyed returns the command with this key, or nil.
func (t *table) keyed(key string) *command {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[key]
}

// take is find, with the command held.
func (t *table) take(id, owner string) *command {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byID[id]
	if c != nil {
		c.hold(owner)
	}
	return c
}

// await is find with patience: the streams of one connection are read side by side,
// and a data stream may be faster than the request that it belongs to.
func (t *table) await(id string, gone <-chan struct{}) *command {
	t.mu.Lock()
	if c := t.byID[id]; c != nil {
		t.mu.Unlock()
		return c
	}
	known := make(chan struct{})
	t.waiting[id] = append(t.waiting[id], known)
	t.mu.Unlock()

	const patience = 5 * time.Second
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-known:
		return t.find(id)
	case <-late.C:
	case <-gone:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := t.waiting[id][:0]
	for _, w := range t.waiting[id] {
		if w != known {
			rest = append(rest, w)
		}
	}
	if t.waiting[id] = rest; len(rest) == 0 {
		delete(t.waiting, id)
	}
	return nil
}

// unkey lets the next request with c's key run: c has failed to start.
func (t *table) unkey(c *command) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byKey[c.key] == c {
		delete(t.byKey, c.key)
	}
}

// remove forgets c.
func (t *table) remove(c *command) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(c)
}

func (t *table) removeLocked(c *command) {
	for _, id := range append(c.aliases, c.id) {
		if t.byID[id] == c {
			delete(t.byID, id)
			t.lapsed.Add(id)
		}
	}
	c.aliases = nil
	if t.byKey[c.key] == c {
		delete(t.byKey, c.key)
	}
}

// unalias forgets one more id of c.
func (t *table) unalias(c *command, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, a := range c.aliases {
		if a == id {
			c.aliases = append(c.aliases[:i], c.aliases[i+1:]...)
			delete(t.byID, id)
			t.lapsed.Add(id)
			return
		}
	}
}

// finish takes a command with a key that has ended among those that are kept, and
// forgets the oldest ones over the bounds.
func (t *table) finish(c *command) {
	if c.key == "" {
		return
	}
	var bytes int64
	for _, o := range c.out {
		if o != nil {
			bytes += o.Settle()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c.kept = bytes
	t.bytes += bytes
	t.kept = append(t.kept, c)
	for _, old := range t.kept {
		if t.bytes <= maxKeptBytes {
			break
		}
		t.dropOutput(old)
	}
	for len(t.kept) > maxKept {
		old := t.kept[0]
		t.kept = t.kept[1:]
		t.dropOutput(old)
		t.removeLocked(old)
	}
}

func (t *table) dropOutput(c *command) {
	if c.kept == 0 {
		return
	}
	for _, o := range c.out {
		if o != nil {
			o.ForgetHead()
		}
	}
	t.bytes -= c.kept
	c.kept = 0
}

// all returns the commands that match.
func (t *table) all(match func(*command) bool) []*command {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := map[*command]bool{}
	var out []*command
	for _, c := range t.byID {
		if !seen[c] && match(c) {
			out = append(out, c)
		}
		seen[c] = true
	}
	return out
}

// hold keeps the command from lapsing.
func (c *command) hold(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner = owner
	c.holds++
	if c.lapse != nil {
		c.lapse.Stop()
		c.lapse = nil
	}
}
