package engine

import (
	"context"
	"sync"
)

// turns are those who have, or wait for, the turn of a name.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

// turn holds one token; whoever has taken it has the turn.
type turn struct {
	token  chan struct{}
	wanted int // by how many
}

// Turn waits until nobody else in this process has the turn of a name, and returns what gives
// it to the next.
func (e *Engine) Turn(ctx context.Context, name string) (done func(), err error) {
	t := e.turns.want(name)
	select {
	case <-t.token:
		return func() {
			t.token <- struct{}{}
			e.turns.drop(name)
		}, nil
	case <-ctx.Done():
		e.turns.drop(name)
		return nil, ended(ctx)
	}
}

func (t *turns) want(name string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]*turn{}
	}
	one := t.of[name]
	if one == nil {
		one = &turn{token: make(chan struct{}, 1)}
		one.token <- struct{}{}
		t.of[name] = one
	}
	one.wanted++
	return one
}

func (t *turns) drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[name]
	if one.wanted--; one.wanted == 0 {
		delete(t.of, name)
	}
}
