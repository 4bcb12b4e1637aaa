package guest

import (
	"context"
	"errors"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// The bounds of Close: closeTimeout in all, whatever the guest does.
const (
	closeTimeout = 5 * time.Second
	byeTimeout   = 2 * time.Second
	dropTimeout  = 2 * time.Second
)

var errClosed = spec.New(spec.CodeInvalid, "the session is closed")

// Close implements driver.Session: it tells the guest that this client leaves, so
// that its commands without a key end, closes the connection and runs OnClose. It
// takes at most 5 s whatever the guest does, and is idempotent: every call waits for
// the one closing and returns its result. A ctx that ends makes Close return early;
// the closing goes on. Commands that still run are answered with
// CodeUnknownOutcome.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	s.mu.Unlock()
	if first {
		go s.close()
	}
	select {
	case <-s.closed:
		return s.closeErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Session) close() {
	defer close(s.closed)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	s.sayGoodbye(ctx)

	s.mu.Lock()
	if s.over == nil {
		s.over = errClosed
	}
	c := s.conn
	s.mu.Unlock()
	s.end()
	c.dropWait(dropTimeout)
	if s.o.OnClose == nil {
		return
	}
	done := make(chan error, 1)
	go func() { done <- s.o.OnClose(ctx) }()
	select {
	case s.closeErr = <-done:
	case <-ctx.Done():
		s.closeErr = &spec.Error{Code: spec.CodeUnknownOutcome, Err: errors.New("the place was not let go in time")}
	}
}

// sayGoodbye asks the guest to end what belongs to this client. A connection that
// is lost is not dialled for it: the guest then does the same after the resume
// window.
func (s *Session) sayGoodbye(ctx context.Context) {
	s.mu.Lock()
	c, over := s.conn, s.over
	s.mu.Unlock()
	if over != nil || c.gone() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, byeTimeout)
	defer cancel()
	st, err := s.open(ctx, c, &wire.Request{Op: wire.OpBye})
	if err != nil {
		return
	}
	defer st.end()
	_, _ = wire.ReadReply(st)
}

// Shutdown asks the guest to end the place: all commands get TERM, after grace
// (negative: at once) KILL, then the guest itself ends. It returns when the
// connection is gone. Operations afterwards answer CodeNotFound; Close is still due.
// A connection that breaks before the guest has agreed is CodeUnknownOutcome.
func (s *Session) Shutdown(ctx context.Context, grace time.Duration) error {
	req := &wire.Request{Op: wire.OpShutdown, Shutdown: &wire.ShutdownRequest{GraceMS: millis(max(grace, 0))}}
	st, err := s.open(ctx, nil, req)
	if err != nil {
		return err
	}
	defer st.end()
	if _, err := wire.ReadReply(st); err != nil {
		return s.failed(ctx, st.c, err, changes)
	}
	s.mu.Lock()
	if s.over == nil {
		s.over = spec.New(spec.CodeNotFound, "the place was shut down")
	}
	s.mu.Unlock()
	select {
	case <-st.c.mux.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// millis rounds up: a duration that is not zero stays so.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
