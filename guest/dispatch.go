package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// errLost is the cause of everything that a broken connection fails.
var errLost = errors.New("the connection to the guest was lost")

// effect says what may be assumed of a request whose answer was lost.
type effect bool

const (
	reads   effect = false // it may be repeated
	changes effect = true  // it may have happened
)

// stream is one request under way: a stream of the mux that ends with its ctx.
type stream struct {
	*wire.Stream
	c      *conn
	unbind func() bool
}

// end ends the stream without waiting for a transport that may be stuck.
func (st *stream) end() {
	st.unbind()
	go st.End()
}

// dispatch is the one way to the guest: every request and every control message of
// a command passes it. It waits for a connection unless on is given, asks the fence
// and runs send. A refused fence sends nothing.
func (s *Session) dispatch(ctx context.Context, on *conn, send func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if on == nil {
		var err error
		if on, err = s.connect(ctx); err != nil {
			return err
		}
	}
	if err := s.o.Authority.Check(ctx); err != nil {
		return ctxFirst(ctx, err)
	}
	return send(on)
}

// open sends a request on a stream of its own, which ends with ctx. on is the
// connection that it must go to; nil: the current one. An error means that the guest
// has not acted, unless it is errLost.
func (s *Session) open(ctx context.Context, on *conn, req *wire.Request) (*stream, error) {
	var st *stream
	err := s.dispatch(ctx, on, func(c *conn) error {
		ws, err := openWithin(ctx, c, req)
		if err != nil {
			return err
		}
		st = &stream{Stream: ws, c: c, unbind: ws.Bind(ctx)}
		return nil
	})
	return st, err
}

// openWithin opens a stream and gives up when ctx ends, which the mux, waiting for a
// transport that takes nothing, does not. What opens too late is ended.
func openWithin(ctx context.Context, c *conn, req *wire.Request) (*wire.Stream, error) {
	if ctx.Done() == nil {
		return openNow(c, req)
	}
	select {
	case c.opening <- struct{}{}:
	case <-c.mux.Done():
		return nil, errLost
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	type opened struct {
		st  *wire.Stream
		err error
	}
	got := make(chan opened, 1)
	go func() {
		defer func() { <-c.opening }()
		st, err := openNow(c, req)
		got <- opened{st, err}
	}()
	select {
	case o := <-got:
		return o.st, o.err
	case <-ctx.Done():
		go func() {
			if o := <-got; o.err == nil {
				o.st.End()
			}
		}()
		return nil, ctx.Err()
	}
}

// openNow opens a stream. A connection that takes no new stream is of no use, so it
// is dropped, and the next request dials again.
func openNow(c *conn, req *wire.Request) (*wire.Stream, error) {
	st, err := c.mux.Open(req)
	switch {
	case err == nil:
		return st, nil
	case errors.Is(err, wire.ErrProtocol): // the request itself is too large
		return nil, &spec.Error{Code: spec.CodeTooLarge, Err: err}
	}
	c.drop()
	return nil, errLost
}

// call makes a request that is answered by one reply.
func (s *Session) call(ctx context.Context, req *wire.Request, e effect) (*wire.Reply, error) {
	reply, err := s.callOnce(ctx, req, e)
	if s.repeatable(err, e) {
		reply, err = s.callOnce(ctx, req, e)
	}
	return reply, err
}

// repeatable reports whether a request that only reads is to be made once more,
// because its connection broke.
func (s *Session) repeatable(err error, e effect) bool {
	return e == reads && s.o.Redial != nil && errors.Is(err, errLost)
}

func (s *Session) callOnce(ctx context.Context, req *wire.Request, e effect) (*wire.Reply, error) {
	st, err := s.open(ctx, nil, req)
	if err != nil {
		return nil, s.failed(ctx, nil, err, e)
	}
	defer st.end()
	reply, err := wire.ReadReply(st)
	if err != nil {
		return nil, s.failed(ctx, st.c, err, e)
	}
	return reply, nil
}

// failed turns what a stream of c failed with into what the caller may rely on.
func (s *Session) failed(ctx context.Context, c *conn, err error, e effect) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c != nil {
		err = c.explain(err)
	}
	if err != errLost { //nolint:errorlint // the bare sentinel, not an error that has a code
		return err
	}
	if e == changes {
		return &spec.Error{Code: spec.CodeUnknownOutcome, Err: errLost}
	}
	return &spec.Error{Code: spec.CodeUnavailable, Err: errLost}
}

// cutGrace is how long a stream that was cut waits for the end of its connection:
// streams and connection end together, in no order.
const cutGrace = 2 * time.Second

// explain says why a stream of c failed: the guest's own error, a breach of the
// protocol, or errLost.
func (c *conn) explain(err error) error {
	var e *spec.Error
	switch {
	case errors.As(err, &e):
		return err
	case errors.Is(err, wire.ErrProtocol):
		return &spec.Error{Code: spec.CodeInternal, Err: err}
	}
	if c.gone() {
		return errLost
	}
	select {
	case <-c.mux.Done():
		return errLost
	case <-time.After(cutGrace):
		return violation("the guest ended a stream without an answer: %v", err)
	}
}

// violation is the answer to a guest that breaks the protocol.
func violation(format string, args ...any) error {
	return &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("%w: %s", wire.ErrProtocol, fmt.Sprintf(format, args...))}
}
