//go:build linux

package port

import (
	"context"
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// dial connects, and then carries the connection.
func (v *Server) dial(s *wire.Stream, req *wire.PortRequest, chunk int, tell func(wire.PlaceEvent)) error {
	if err := spec.ValidateAddress(req.Network, string(req.Address), false); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in := &inlet{s: s}
	heard := make(chan struct{})
	go func() { // the host says nothing before the reply, but it may leave
		defer close(heard)
		if in.wait() != nil {
			cancel()
		}
	}()
	conn, err := v.connect(ctx, req.Network, string(req.Address))
	if err != nil {
		return answer(err, spec.CodeUnavailable)
	}
	tell(event(spec.EventDialled, req))
	if err := stream.Reply(s, &wire.Reply{Conn: connOf(conn.LocalAddr(), conn.RemoteAddr())}); err != nil {
		abort(conn)
		return err
	}
	v.carry(conn, s, in, heard, chunk)
	return nil
}

// connect connects to an address as a command would.
func (v *Server) connect(ctx context.Context, network, address string) (duplex, error) {
	conn, err := v.connectAny(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return conn.(duplex), nil
}

func (v *Server) connectAny(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Resolver: &net.Resolver{PreferGo: true}}
	if network == "unix" {
		return v.connectUnix(ctx, &d, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "" {
		return d.DialContext(ctx, network, address)
	}
	var first error
	for _, loopback := range loopbacks(network) {
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(loopback, port))
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// loopbacks are the addresses that an empty host stands for, the first one first.
func loopbacks(network string) []string {
	switch network {
	case "tcp4":
		return []string{"127.0.0.1"}
	case "tcp6":
		return []string{"::1"}
	}
	return []string{"127.0.0.1", "::1"}
}

// The pauses before a listener whose queue is full is tried again.
const (
	retryFirst = time.Millisecond
	retryLast  = 32 * time.Millisecond
)

// connectUnix connects to a unix socket, and waits where its queue is full, as a command
// would.
func (v *Server) connectUnix(ctx context.Context, d *net.Dialer, address string) (net.Conn, error) {
	name, done, err := v.socketPath(address)
	if err != nil {
		return nil, err
	}
	defer done()
	for pause := retryFirst; ; pause = min(2*pause, retryLast) {
		conn, err := d.DialContext(ctx, "unix", name)
		switch {
		case err == nil && v.own != "" && conn.RemoteAddr().String() == v.own:
			conn.Close()
			return nil, &net.OpError{Op: "dial", Net: "unix", Err: unix.EACCES}
		case !errors.Is(err, unix.EAGAIN):
			return conn, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}
