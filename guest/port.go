package guest

import (
	"context"
	"net"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest/internal/remoteport"
	"github.com/berth-dev/berth/spec"
)

var _ driver.Dialer = (*Session)(nil)

// portsMinor is the protocol that has these operations.
const portsMinor = 3

// Dial implements driver.Dialer. The Conn ends with the connection to the guest, and is
// not taken up on another one.
func (s *Session) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := s.hasPorts(); err != nil {
		return nil, err
	}
	return s.ports().Dial(ctx, network, address)
}

// Listen implements driver.Dialer. Up to four connections are accepted ahead of Accept.
func (s *Session) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	if err := s.hasPorts(); err != nil {
		return nil, err
	}
	return s.ports().Listen(ctx, randomID(), network, address)
}

// Ports implements driver.Dialer. It lists 4,096 at most: what processes of the place hold,
// or in a container all.
func (s *Session) Ports(ctx context.Context) ([]spec.Port, error) {
	if err := s.hasPorts(); err != nil {
		return nil, err
	}
	return s.ports().Ports(ctx)
}

// hasPorts refuses what an older guest does not know.
func (s *Session) hasPorts() error {
	if s.minor < portsMinor {
		return spec.New(spec.CodeUnsupported, "the guest is too old to reach what listens in its place")
	}
	return nil
}

func (s *Session) ports() *remoteport.Client { return remoteport.New(asking{s}) }
