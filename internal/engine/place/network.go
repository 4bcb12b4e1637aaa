package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// normalNetwork resolves what a spec leaves open of its network and ports.
func normalNetwork(s *spec.Spec) error {
	if s.Network == spec.NetworkDefault {
		s.Network = spec.NetworkNone
	}
	if s.NetworkMode == "bridge" || s.NetworkMode == "default" {
		s.NetworkMode = ""
	}
	if len(s.Ports) > 0 && s.Network == spec.NetworkNone {
		return &spec.Error{Code: spec.CodeInvalid, Err: errors.New("a published port needs a network, and a container has none by default"), Hint: "ask for network open too"}
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		p.Protocol = cmp.Or(p.Protocol, spec.TCP)
		address, err := netip.ParseAddr(cmp.Or(p.Address, "127.0.0.1"))
		if err != nil {
			return spec.New(spec.CodeInvalid, fmt.Sprintf("published port %d: %.64q is no IP address", p.Container, p.Address))
		}
		p.Address = address.Unmap().String()
	}
	engine.SortPorts(s.Ports)
	if len(slices.Compact(slices.Clone(s.Ports))) < len(s.Ports) {
		return spec.New(spec.CodeInvalid, "a port is published twice in the same way")
	}
	return nil
}

// networkMode is the engine's word for the network of a resolved spec.
func networkMode(s *spec.Spec) container.NetworkMode {
	if s.Network != spec.NetworkOpen {
		return "none"
	}
	return container.NetworkMode(cmp.Or(s.NetworkMode, "bridge"))
}

// networkApplied reports whether a container is in the network of the spec. A container
// that was named by its name may be named by its id, and every network that is a bridge may
// be called one.
func networkApplied(s *spec.Spec, c *container.InspectResponse) bool {
	want, got := networkMode(s), c.HostConfig.NetworkMode
	switch {
	case want.IsContainer():
		return got == want || got.IsContainer() && len(got.ConnectedContainer()) == fullID
	case got == "bridge" && want != got && c.NetworkSettings != nil:
		return len(c.NetworkSettings.Networks) == 1 && c.NetworkSettings.Networks[string(want)] != nil
	}
	return got == want
}

// fullID is the length of an engine's full id.
const fullID = 64

// haveNetwork makes sure that the network that a spec names is there: an engine says so
// only when the container is started, or makes do with another.
func (d *Driver) haveNetwork(ctx context.Context, p *plan) error {
	mode := networkMode(p.spec)
	switch {
	case mode.IsNone(), mode.IsHost(), mode == "bridge":
		return nil
	case mode.IsContainer():
		other := mode.ConnectedContainer()
		c, err := d.engine.Inspect(ctx, p.auth, other)
		switch {
		case spec.CodeOf(err) == spec.CodeNotFound:
			return spec.New(spec.CodeNotFound, fmt.Sprintf("container %s, whose network is asked for, is not on the engine: want its name or whole id", other))
		case err == nil && !c.State.Running:
			return spec.New(spec.CodeUnavailable, fmt.Sprintf("container %s, whose network is asked for, does not run", other))
		}
		return err
	}
	there, err := d.engine.Network(ctx, p.auth, string(mode))
	if err == nil && !there {
		return &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("network %s is not on the engine", mode), Hint: d.engine.Name + " network create " + string(mode)}
	}
	return err
}

// shared reports whether a container is in a network namespace in which others are: their
// abstract sockets are within its reach, and the guest's within theirs.
func shared(c *container.InspectResponse) bool {
	return c.HostConfig.NetworkMode.IsHost() || c.HostConfig.NetworkMode.IsContainer()
}

var _ driver.PortMapper = (*session)(nil)

// PublishedPorts implements driver.PortMapper. The engine is asked each time: what it
// chose may be another port after a restart.
func (s *session) PublishedPorts(ctx context.Context) ([]spec.PublishedPort, error) {
	c, err := s.driver.engine.Inspect(ctx, s.auth, s.place.ID)
	if err != nil {
		return nil, err
	}
	if c.NetworkSettings == nil {
		return nil, nil
	}
	return engine.Ports(c.NetworkSettings.Ports), nil
}
