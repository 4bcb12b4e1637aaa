package terminal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Command is what runs in a terminal, and the name that it is to see: "", its own, but for
// a login shell.
func Command(o spec.TerminalOptions) (c *spec.Command, name string) {
	c = &spec.Command{Args: o.Args, Dir: o.Dir, Env: map[string]string{"TERM": "xterm-256color"}, User: o.User}
	maps.Copy(c.Env, o.Env)
	if len(c.Args) == 0 {
		c.Args, name = []string{"/bin/sh"}, "-sh"
	}
	return c, name
}

// Registry knows the terminals of a place, over all of its starts. The zero value is
// ready; it is safe for concurrent use.
type Registry struct {
	mu      sync.Mutex
	running int // those too that are being started
	last    int
	listed  []*Terminal // those that have begun, the oldest first
}

// Open makes a terminal, and has start start its program, which calls Began before it
// returns nil and Ended later.
func (r *Registry) Open(o spec.TerminalOptions, start func(t *Terminal) error) error {
	r.mu.Lock()
	if r.running >= spec.MaxTerminals {
		r.mu.Unlock()
		return spec.New(spec.CodeUnavailable, fmt.Sprintf("the place has %d terminals already", spec.MaxTerminals))
	}
	r.running++
	r.mu.Unlock()
	err := start(newTerminal(r, o))
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running--
	}
	return err
}

// begun lists a terminal, and returns its id.
func (r *Registry) begun(t *Terminal) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	id := fmt.Sprintf("term-%d", r.last)
	t.named(id)
	r.listed = append(r.listed, t)
	return id
}

// retire counts a terminal among those that have ended, and lets go of the oldest of these
// over the bound, and of one that was lost.
func (r *Registry) retire(lost *Terminal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	ended := 0
	for i, t := range slices.Backward(r.listed) {
		if t.over() {
			ended++
		}
		if t == lost || t.over() && ended > spec.MaxEndedTerminals {
			r.listed = slices.Delete(r.listed, i, i+1)
		}
	}
}

// Find returns the terminal with an id.
func (r *Registry) Find(id string) (*Terminal, error) {
	for _, t := range r.all() {
		if t.Info().ID == id {
			return t, nil
		}
	}
	return nil, spec.New(spec.CodeNotFound, "there is no such terminal")
}

// Kill ends the terminal with an id, and returns its record once it has ended.
func (r *Registry) Kill(ctx context.Context, id string, grace time.Duration) (spec.Terminal, error) {
	t, err := r.Find(id)
	if err != nil {
		return spec.Terminal{}, err
	}
	t.kill(grace)
	select {
	case <-t.done:
		return t.Info(), nil
	case <-ctx.Done():
		return spec.Terminal{}, ctx.Err()
	}
}

// List describes the terminals, the oldest first.
func (r *Registry) List() []spec.Terminal {
	var out []spec.Terminal
	for _, t := range r.all() {
		out = append(out, t.Info())
	}
	return out
}

// Leave ends the views of an owner, who has left.
func (r *Registry) Leave(owner any, why error) {
	for _, t := range r.all() {
		t.leave(owner, why)
	}
}

func (r *Registry) all() []*Terminal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.listed)
}
