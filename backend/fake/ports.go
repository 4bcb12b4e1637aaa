package fake

import (
	"context"
	"net"

	"github.com/berth-dev/berth/backend/fake/internal/port"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

var _ driver.Dialer = (*session)(nil)

var errPlaceEnded = spec.New(spec.CodeUnavailable, "the place has ended, or the session is closed")

// Dial implements driver.Dialer. What is reached is what Listen offers: the fake's programs
// have no sockets.
func (s *session) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return ask(ctx, s, Request{Op: OpDial, Path: address}, func() (net.Conn, error) {
		if err := spec.ValidateAddress(network, address, false); err != nil {
			return nil, err
		}
		return s.network().Dial(ctx, s, s.p.spec.Workdir, network, address)
	})
}

// Listen implements driver.Dialer. A unix socket has a name and no file.
func (s *session) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return ask(ctx, s, Request{Op: OpListen, Path: address}, func() (net.Listener, error) {
		if err := spec.ValidateAddress(network, address, true); err != nil {
			return nil, err
		}
		return s.network().Listen(s, s.p.spec.Workdir, network, address)
	})
}

// Ports implements driver.Dialer.
func (s *session) Ports(ctx context.Context) ([]spec.Port, error) {
	return ask(ctx, s, Request{Op: OpPorts}, func() ([]spec.Port, error) { return s.network().Ports(), nil })
}

func (s *session) network() *port.Network {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.network
}
