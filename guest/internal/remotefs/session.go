// Package remotefs is files.FS over the wire: the files of a place as its guest serves
// them, checked before they are asked for and again when they come. The guest lives
// among untrusted code: every name, number and stream that it sends is bounded, and no
// path that it says becomes one of the host.
package remotefs

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
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
	// ChunkBytes is the largest data frame.
	ChunkBytes() int
}

// Stream is one request under way.
type Stream interface {
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
	// End closes the stream without waiting for a transport that may be stuck.
	End()
	// Failed turns what the stream failed with into what the caller may rely
	// on: the context's error, the guest's own, CodeInternal for a breach of
	// the protocol, and for a lost connection CodeUnknownOutcome if the request
	// may have changed something by then, else CodeUnavailable.
	Failed(ctx context.Context, err error, changes bool) error
}

// violation is the answer to a guest that breaks the protocol.
func violation(format string, args ...any) error {
	return &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("%w: %s", wire.ErrProtocol, fmt.Sprintf(format, args...))}
}
