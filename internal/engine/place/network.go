package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
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
	slices.SortFunc(s.Ports, comparePorts)
	if len(slices.Compact(slices.Clone(s.Ports))) < len(s.Ports) {
		return spec.New(spec.CodeInvalid, "a port is published twice in the same way")
	}
	return nil
}

func comparePorts(a, b spec.PublishedPort) int {
	return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Host, b.Host))
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

// enginePort is the engine's word for a port of a place.
func enginePort(p spec.PublishedPort) network.Port {
	port, _ := network.PortFrom(uint16(p.Container), network.IPProtocol(p.Protocol))
	return port
}

// exposed and portBindings publish the ports of a resolved spec.
func exposed(ports []spec.PublishedPort) network.PortSet {
	if len(ports) == 0 {
		return nil
	}
	set := network.PortSet{}
	for _, p := range ports {
		set[enginePort(p)] = struct{}{}
	}
	return set
}

func portBindings(ports []spec.PublishedPort) network.PortMap {
	if len(ports) == 0 {
		return nil
	}
	m := network.PortMap{}
	for _, p := range ports {
		host := ""
		if p.Host > 0 {
			host = strconv.Itoa(p.Host)
		}
		address, _ := netip.ParseAddr(p.Address)
		m[enginePort(p)] = append(m[enginePort(p)], network.PortBinding{HostIP: address, HostPort: host})
	}
	return m
}

// portsApplied reports whether a container publishes what was asked for, and no more. An
// engine may have chosen already what was left to it.
func portsApplied(ports []spec.PublishedPort, c *container.InspectResponse) bool {
	left := listPorts(c.HostConfig.PortBindings)
	for _, chosen := range []bool{false, true} {
		for _, want := range ports {
			if chosen != (want.Host == 0) {
				continue
			}
			at := slices.IndexFunc(left, func(got spec.PublishedPort) bool {
				if chosen {
					got.Host = 0
				}
				return got == want
			})
			if at < 0 {
				return false
			}
			left = slices.Delete(left, at, at+1)
		}
	}
	return len(left) == 0
}

// listPorts makes rows of the engine's table. What is no port in it is passed over.
func listPorts(m network.PortMap) []spec.PublishedPort {
	var out []spec.PublishedPort
	for port, bindings := range m {
		for _, b := range bindings {
			host, err := strconv.ParseUint(cmp.Or(b.HostPort, "0"), 10, 16)
			if err != nil || !port.IsValid() {
				continue
			}
			address := ""
			if b.HostIP.IsValid() {
				address = b.HostIP.Unmap().String()
			}
			out = append(out, spec.PublishedPort{
				Container: int(port.Num()), Host: int(host), Address: address, Protocol: spec.Protocol(strings.ToLower(string(port.Proto()))),
			})
		}
	}
	slices.SortFunc(out, comparePorts)
	return out
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
	return listPorts(c.NetworkSettings.Ports), nil
}
