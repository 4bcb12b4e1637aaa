package engine

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
)

// SortPorts puts ports in order.
func SortPorts(ports []spec.PublishedPort) {
	slices.SortFunc(ports, func(a, b spec.PublishedPort) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Host, b.Host))
	})
}

// enginePort is the engine's word for a port.
func enginePort(p spec.PublishedPort) network.Port {
	port, _ := network.PortFrom(uint16(p.Container), network.IPProtocol(p.Protocol))
	return port
}

// ExposedPorts and PortBindings publish ports that have an address and a protocol.
func ExposedPorts(ports []spec.PublishedPort) network.PortSet {
	if len(ports) == 0 {
		return nil
	}
	set := network.PortSet{}
	for _, p := range ports {
		set[enginePort(p)] = struct{}{}
	}
	return set
}

func PortBindings(ports []spec.PublishedPort) network.PortMap {
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

// PortsApplied reports whether a container publishes what was asked for, and no more. An
// engine may have chosen already what was left to it.
func PortsApplied(ports []spec.PublishedPort, c *container.InspectResponse) bool {
	left := Ports(c.HostConfig.PortBindings)
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

// Ports makes rows of the engine's table. What is no port in it is passed over.
func Ports(m network.PortMap) []spec.PublishedPort {
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
	SortPorts(out)
	return out
}
