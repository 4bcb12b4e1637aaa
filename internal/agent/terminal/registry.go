//go:build linux

package terminal

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/agent/lapsed"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// maxEndedBytes bounds the scrollback of all terminals that have ended: over it the oldest
// lose theirs.
const maxEndedBytes = 16 << 20

var (
	errUnknown = spec.New(spec.CodeNotFound, "no such terminal")
	errUndone  = spec.New(spec.CodeUnavailable, "the opening of the terminal was given up")
)

// Starter starts the command of a terminal for a client, without the names in unset of the
// place's environment. The command calls Began before Starter returns nil, and Ended later.
type Starter func(req *wire.ExecRequest, unset []string, t *Terminal, client string) error

// Registry knows the terminals of a place. It is safe for concurrent use.
type Registry struct {
	buffers *stream.Buffers
	start   Starter
	resume  time.Duration

	mu       sync.Mutex
	requests map[string]*Terminal // by the request that opened it
	undone   *lapsed.IDs          // requests that are to open none any more
	listed   []*Terminal          // those that have begun, the oldest first
	running  int                  // those too that are being started
	last     int64                // the number of the latest one
}

// NewRegistry returns a Registry without terminals. A viewer whose connection was lost is
// waited for for as long as resume.
func NewRegistry(buffers *stream.Buffers, resume time.Duration, start Starter) *Registry {
	return &Registry{buffers: buffers, start: start, resume: resume, requests: map[string]*Terminal{}, undone: lapsed.New(resume)}
}

// open starts a terminal, or finds the one that the same request has started. viewer is
// who will look at it: until then the output waits.
func (r *Registry) open(req *wire.ExecRequest, o spec.TerminalOptions, viewer, client string) (*Terminal, error) {
	r.mu.Lock()
	if t := r.requests[req.ID]; t != nil {
		r.mu.Unlock()
		<-t.ready
		return t, t.err
	}
	if r.undone.Has(req.ID) {
		r.mu.Unlock()
		return nil, errUndone
	}
	if r.running >= spec.MaxTerminals {
		r.mu.Unlock()
		return nil, spec.New(spec.CodeUnavailable, fmt.Sprintf("the place has %d terminals already", spec.MaxTerminals))
	}
	r.running++
	t := newTerminal(r, req.ID, o.Size, o.ScrollbackBytes)
	t.expect(viewer)
	r.requests[req.ID] = t
	r.mu.Unlock()
	err := r.start(req, o.UnsetEnv, t, client)
	if err != nil { // else it is ready, and others may be reading t.err
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running--
		delete(r.requests, req.ID)
		t.err = err
		close(t.ready)
	}
	return t, err
}

// opened returns the terminal that a request has opened. One that has opened none opens none
// later: it was given up before it came.
func (r *Registry) opened(request string) (*Terminal, error) {
	r.mu.Lock()
	t := r.requests[request]
	if t == nil {
		r.undone.Add(request)
	}
	r.mu.Unlock()
	if t == nil {
		return nil, errUnknown
	}
	<-t.ready
	return t, t.err
}

// begun gives a terminal its id and lists it.
func (r *Registry) begun(t *Terminal) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.listed = append(r.listed, t)
	return wire.TerminalID(r.last)
}

// retire counts a terminal among those that have ended, and lets go of the oldest of
// these over the bounds.
func (r *Registry) retire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	ended, bytes := 0, int64(0)
	for i, t := range slices.Backward(r.listed) {
		kept, over := t.remains()
		if !over {
			continue
		}
		if ended++; ended > spec.MaxEndedTerminals {
			delete(r.requests, t.request)
			r.listed = slices.Delete(r.listed, i, i+1)
			continue
		}
		if bytes += kept; bytes > maxEndedBytes && ended > 1 {
			t.drop()
			bytes -= kept
		}
	}
}

// find returns the terminal with an id.
func (r *Registry) find(id string) (*Terminal, error) {
	for _, t := range r.all() {
		if t.ID() == id {
			return t, nil
		}
	}
	return nil, errUnknown
}

// all returns the terminals that have begun, the oldest first.
func (r *Registry) all() []*Terminal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.listed)
}

// Bye forgets the viewers of a client that leaves on purpose.
func (r *Registry) Bye(client string) {
	for _, t := range r.all() {
		t.bye(client)
	}
}
