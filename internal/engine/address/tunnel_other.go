//go:build !unix

package address

import (
	"context"
	"errors"
	"net"

	"github.com/berth-dev/berth/spec"
)

// tunnel is an SSH connection, which there is not on this system: its ssh forwards no
// sockets.
type tunnel struct {
	target, port, key, socket string
	turn                      chan struct{}
}

func (t *tunnel) dial(context.Context) (net.Conn, error) {
	return nil, &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("engine at ssh://" + t.target + ": an engine is reached by ssh from a Unix system only"), Hint: "forward the engine to a port of this machine, and name that with tcp://"}
}
