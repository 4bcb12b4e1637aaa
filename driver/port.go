package driver

import (
	"context"
	"net"

	"github.com/berth-dev/berth/spec"
)

// Dialer is a Session that reaches what listens inside its place, and can offer something
// from outside there. Networks and addresses are those of spec.ValidateAddress.
type Dialer interface {
	// Dial connects to address as a command inside the place could: nothing that the
	// place's wall keeps from its commands is reached. The Conn has CloseWrite, and its
	// Read is io.EOF only after the peer has closed its side: after a reset it is
	// syscall.ECONNRESET, after the loss of the place CodeUnavailable. Its SetLinger(0)
	// makes Close reset the connection. ctx bounds the dialling only. Where nothing
	// listens the error is CodeUnavailable, with a cause that is syscall.ECONNREFUSED or
	// fs.ErrNotExist; what the wall refuses is CodePermission.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// Listen listens on address inside the place and hands out the connections of its
	// commands: a way out for whatever the caller connects them to, which nobody has who
	// has not asked for it. A unix socket gets the mode 0600 and is removed at the end. An
	// address that is in use is CodeExists. The connections are as those of Dial, and
	// those that are not accepted wait in the place. Close ends the listening, and so
	// does the loss of the place's connection: Accept is then CodeUnavailable. ctx bounds
	// the call only.
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	// Ports lists what listens inside the place: TCP, and unix stream sockets.
	Ports(ctx context.Context) ([]spec.Port, error)
}
