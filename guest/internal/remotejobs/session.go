// Package remotejobs is jobs, and what else runs, over the wire: it asks a guest for them, checks what is asked
// for beforehand, and what comes again. The guest lives among untrusted code: every
// record, number and stream that it sends is bounded.
package remotejobs

import (
	"context"
	"fmt"
	"io"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Session is what reaches the guest.
type Session interface {
	// Open sends a request on a stream of its own, which ends with ctx. The
	// caller ends it.
	Open(ctx context.Context, req *wire.Request, changes bool) (Stream, error)
	// Repeatable reports whether a request that changes nothing is to be made
	// once more after err.
	Repeatable(err error) bool
	// Patiently makes a request that may be repeated, on each new connection
	// until read has had its answer: that, or the reason why there is none, is
	// read's error if it says that it is over. read ends the stream. What it
	// has changed in req is in the next request.
	Patiently(ctx context.Context, req *wire.Request, changes bool, read func(Stream) (over bool, err error)) error
}

// Stream is one request under way.
type Stream interface {
	io.Reader
	// Send sends a message unless the fence is closed.
	Send(ctx context.Context, v any) error
	// Interrupt makes whatever waits on the stream fail.
	Interrupt()
	// End closes the stream without waiting for a transport that may be stuck.
	End()
	// Failed turns what the stream failed with into what the caller may rely on.
	Failed(ctx context.Context, err error, changes bool) error
	// Broke says whether the stream failed because its connection was lost, and
	// otherwise why.
	Broke(err error) (lost bool, cause error)
}

// What a request does.
const (
	reads   = false // it may be repeated
	changes = true  // it may have happened
)

// Client asks one guest for its jobs. It is safe for concurrent use.
type Client struct {
	s      Session
	denied string // the hint for a command that the wall seems to have refused something
}

// New returns the jobs of the place that s is a session of. denied is the Exit.Hint of one
// that reads as if the place's wall had refused it something.
func New(s Session, denied string) *Client { return &Client{s, denied} }

// hint completes the exit of a job that has ended.
func (c *Client) hint(said *wire.Job, exit *spec.Exit) {
	if said.Exit != nil && said.Exit.Denied {
		exit.Hint = c.denied
	}
}

// violation is the answer to a guest that breaks the protocol.
func violation(format string, args ...any) error {
	return &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("%w: %s", wire.ErrProtocol, fmt.Sprintf(format, args...))}
}
