package engine

import (
	"context"
	"errors"
	"net"
	"strings"
)

// Socket connects to the socket on this machine that the engine listens at: for finding out
// where that is, and who listens. It fails where the engine is reached in another way.
func (e *Engine) Socket(ctx context.Context) (*net.UnixConn, error) {
	if !strings.HasPrefix(e.at.Host, "unix://") {
		return nil, errors.New("the engine has no socket on this machine")
	}
	conn, err := e.at.Dial(ctx)
	if err != nil {
		return nil, err
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("what leads to the engine is no socket")
	}
	return socket, nil
}
