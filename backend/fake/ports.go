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
func (s *session) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = s.do(ctx, Request{Op: OpDial, Path: address}, func() error {
		if err := spec.ValidateAddress(network, address, false); err != nil {
			return err
		}
		conn, err = s.network().Dial(ctx, s, s.p.spec.Workdir, network, address)
		return err
	})
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// Listen implements driver.Dialer. A unix socket has a name and no file.
func (s *session) Listen(ctx context.Context, network, address string) (l net.Listener, err error) {
	err = s.do(ctx, Request{Op: OpListen, Path: address}, func() error {
		if err := spec.ValidateAddress(network, address, true); err != nil {
			return err
		}
		l, err = s.network().Listen(s, s.p.spec.Workdir, network, address)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Ports implements driver.Dialer.
func (s *session) Ports(ctx context.Context) (ports []spec.Port, err error) {
	err = s.do(ctx, Request{Op: OpPorts}, func() error {
		ports = s.network().Ports()
		return nil
	})
	return ports, err
}

func (s *session) network() *port.Network {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.network
}
