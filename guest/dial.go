package guest

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// conn is one connection to the guest, after its hello.
type conn struct {
	mux *wire.Mux
	// opening holds a token for each request that waits to be sent. It bounds
	// what is left behind on a transport that takes nothing by callers who have
	// given up.
	opening chan struct{}
	// incarnation is the guest's, one for each of its starts, and resume how long it surely
	// knows which requests for commands have come.
	incarnation string
	resume      time.Duration
}

// maxOpening is how many requests may wait for a connection to take them.
const maxOpening = 256

func newConn(mux *wire.Mux, h *wire.GuestHello) *conn {
	return &conn{mux: mux, opening: make(chan struct{}, maxOpening), incarnation: h.Incarnation, resume: resumeWindow(h)}
}

func (c *conn) gone() bool {
	select {
	case <-c.mux.Done():
		return true
	default:
		return false
	}
}

// drop ends the connection without waiting for its transport.
func (c *conn) drop() { go c.mux.Close() }

// dropWait ends the connection and waits for it, within a bound.
func (c *conn) dropWait(most time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.mux.Close()
	}()
	select {
	case <-done:
	case <-time.After(most):
	}
}

// flight is one redial, shared by all who wait for it.
type flight struct {
	done chan struct{}
	conn *conn
	err  error
}

// connect returns the connection, dialling again if it is gone. Concurrent callers
// share one redial, which goes on when one of them leaves.
func (s *Session) connect(ctx context.Context) (*conn, error) {
	s.mu.Lock()
	if s.over != nil {
		defer s.mu.Unlock()
		return nil, s.over
	}
	if c := s.conn; !c.gone() {
		s.mu.Unlock()
		return c, nil
	}
	if s.o.Redial == nil {
		s.mu.Unlock()
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: errLost}
	}
	f := s.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		s.flight = f
		go s.redial(f)
	}
	s.mu.Unlock()
	select {
	case <-f.done:
		return f.conn, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// redial makes one attempt to reach the guest again, within helloTimeout.
func (s *Session) redial(f *flight) {
	ctx, cancel := context.WithTimeout(s.alive, helloTimeout)
	defer cancel()
	c, err := s.reach(ctx)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.over != nil {
		c.drop()
		err = s.over
	}
	if err == nil {
		s.conn, f.conn = c, c
	}
	f.err = err
	s.flight = nil
	close(f.done)
}

// reach dials and says hello. A dialer that ignores its ctx is left behind, and its
// stream is closed if it ever comes.
func (s *Session) reach(ctx context.Context) (*conn, error) {
	type dialled struct {
		stream io.ReadWriteCloser
		err    error
	}
	got := make(chan dialled, 1)
	go func() {
		stream, err := s.o.Redial(ctx)
		got <- dialled{stream, err}
	}()
	select {
	case d := <-got:
		if d.err != nil {
			return nil, unavailable(d.err)
		}
		c, _, err := s.greet(ctx, d.stream)
		return c, unavailable(err)
	case <-ctx.Done():
		go func() {
			if d := <-got; d.err == nil {
				d.stream.Close()
			}
		}()
		return nil, unavailable(ctx.Err())
	}
}

// unavailable gives an error without a code the one that promises that nothing was
// done. The redial's own time limit is no caller's, so it is no context error here.
func unavailable(err error) error {
	var e *spec.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &spec.Error{Code: spec.CodeUnavailable, Err: err}
}

// final reports whether a failed redial says that another would fail too: the place
// is gone, or has another owner, version or identity.
func final(err error) bool {
	switch spec.CodeOf(err) {
	case spec.CodeNotFound, spec.CodeStaleOwner, spec.CodeUnsupported, spec.CodeInvalid, spec.CodePermission:
		return true
	}
	return false
}
