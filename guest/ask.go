package guest

import (
	"context"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
)

// asking is a Session as the operations on its place see it.
type asking struct{ s *Session }

// Call implements ask.Session.
func (a asking) Call(ctx context.Context, req *wire.Request, changes bool) (*wire.Reply, error) {
	return a.s.call(ctx, req, effect(changes))
}

// Open implements ask.Session.
func (a asking) Open(ctx context.Context, req *wire.Request, changes bool) (ask.Stream, error) {
	st, err := a.s.open(ctx, nil, req)
	if err != nil {
		return nil, a.s.failed(ctx, nil, err, effect(changes))
	}
	return asked{st, a.s}, nil
}

// Repeatable implements ask.Session.
func (a asking) Repeatable(err error) bool { return a.s.repeatable(err, reads) }

// Patiently implements ask.Session.
func (a asking) Patiently(ctx context.Context, req *wire.Request, changes bool, read func(ask.Stream) (bool, error)) error {
	return a.s.patiently(ctx, req, effect(changes), func(st *stream) (bool, error) { return read(asked{st, a.s}) })
}

// ChunkBytes implements ask.Session.
func (a asking) ChunkBytes() int { return a.s.o.Profile.ChunkBytes }

// asked is a request under way.
type asked struct {
	*stream
	s *Session
}

// End implements ask.Stream.
func (a asked) End() { a.end() }

// Failed implements ask.Stream.
func (a asked) Failed(ctx context.Context, err error, changes bool) error {
	return a.s.failed(ctx, a.c, err, effect(changes))
}

// Broke implements ask.Stream.
func (a asked) Broke(err error) (lost bool, cause error) {
	cause = a.c.explain(err)
	return cause == errLost, cause //nolint:errorlint // the bare sentinel
}

// Send implements ask.Stream.
func (a asked) Send(ctx context.Context, v any) error {
	return a.s.dispatch(ctx, a.c, func(*conn) error { return wire.WriteMessage(a.stream, v) })
}
