package berth

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// PublishedPorts lists the ports of the place that are published on the engine's machine,
// with the host ports that they have got. Where Caps.PublishedPorts is false it is
// ErrUnsupported: Dial reaches what listens inside anywhere.
func (sb *Sandbox) PublishedPorts(ctx context.Context) ([]PublishedPort, error) {
	session, err := sb.session(ctx)
	if err != nil {
		return nil, sb.wrap(err, "list published ports", "")
	}
	mapper, ok := session.(driver.PortMapper)
	if !ok || !session.Caps().PublishedPorts {
		return nil, sb.wrap(spec.New(spec.CodeUnsupported, "the ports of this place are not published"), "list published ports", "")
	}
	ports, err := mapper.PublishedPorts(ctx)
	return ports, sb.wrap(err, "list published ports", "")
}

// MappedPort returns where a TCP port of the place is reached on the engine's machine. One
// that is not published is ErrInvalid.
func (sb *Sandbox) MappedPort(ctx context.Context, port int) (netip.AddrPort, error) {
	ports, err := sb.PublishedPorts(ctx)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for _, p := range ports {
		if address, err := netip.ParseAddr(p.Address); err == nil && p.Container == port && p.Protocol == spec.TCP && p.Host > 0 {
			return netip.AddrPortFrom(address, uint16(p.Host)), nil
		}
	}
	return netip.AddrPort{}, sb.wrap(spec.New(spec.CodeInvalid, fmt.Sprintf("tcp port %d is not published", port)), "look up a port", "")
}
