// Package ask is what the operations on a place need of a session with its guest: a way to
// ask, and to know what a failure means. Files, jobs, terminals, ports and events are each
// written over it, in a package of their own.
package ask

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// What a request does.
const (
	Reads   = false // it may be repeated
	Changes = true  // it may have happened
)

// Session is what reaches the guest.
type Session interface {
	// Call makes a request that is answered by one reply. One that changes
	// nothing is made once more if its connection breaks.
	Call(ctx context.Context, req *wire.Request, changes bool) (*wire.Reply, error)
	// Open sends a request on a stream of its own, which ends with ctx. The
	// caller ends it.
	Open(ctx context.Context, req *wire.Request, changes bool) (Stream, error)
	// Repeatable reports whether a request that changes nothing, and of whose
	// answer nothing has been used, is to be made once more after err.
	Repeatable(err error) bool
	// Patiently makes a request that may be repeated, on each new connection
	// until read has had its answer: that, or the reason why there is none, is
	// read's error if it says that it is over. read ends the stream. What it
	// has changed in req is in the next request.
	Patiently(ctx context.Context, req *wire.Request, changes bool, read func(Stream) (over bool, err error)) error
	// ChunkBytes is the largest data frame.
	ChunkBytes() int
}

// Stream is one request under way.
type Stream interface {
	Transport
	// Send sends a message unless the fence is closed.
	Send(ctx context.Context, v any) error
	// End closes the stream without waiting for a transport that may be stuck.
	End()
	// Failed turns what the stream failed with into what the caller may rely
	// on: the context's error, the guest's own, CodeInternal for a breach of
	// the protocol, and for a lost connection CodeUnknownOutcome if the request
	// may have changed something by then, else CodeUnavailable.
	Failed(ctx context.Context, err error, changes bool) error
	// Broke says whether the stream failed because its connection was lost, and
	// otherwise why.
	Broke(err error) (lost bool, cause error)
}

// Transport is the stream of bytes below a Stream.
type Transport interface {
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
	// Interrupt makes whatever waits on the stream fail.
	Interrupt()
	// SendData writes one data frame, or an end if p is empty; see wire.Stream.
	SendData(p []byte) (rest []byte, err error)
	// Finished is closed once the guest has closed the stream.
	Finished() <-chan struct{}
}

// Violation is the answer to a guest that breaks the protocol.
func Violation(format string, args ...any) error {
	return &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("%w: %s", wire.ErrProtocol, fmt.Sprintf(format, args...))}
}
