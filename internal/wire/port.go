package wire

import (
	"math"
	"net/netip"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// The operations on ports. Since 1.3.
//
// A connection is one stream. After the reply{conn} both sides send data frames, and each
// an end when it has no more; the host sends nothing before the reply. A guest that closes
// the stream before the host does takes nothing more: what the host sends is lost as on a
// connection that was reset. So is what either side has not ended when it closes.
const (
	OpDial Op = "dial" // reply{conn}, then the connection
	// OpListen replies with where it listens in conn.Local. The listener ends with the
	// stream, or with an end from the host, which is answered by one more reply.
	OpListen Op = "listen"
	OpAccept Op = "accept" // reply{conn} once somebody connects, then the connection
	OpPorts  Op = "ports"  // replies with ports, the last one has Done
)

// PortRequest is the part of OpDial, OpListen and OpAccept.
type PortRequest struct {
	Network string `json:"network,omitempty"` // dial, listen: as in spec.ValidateAddress
	Address Bytes  `json:"address,omitempty"`
	// Listener is chosen by the host for one listening on one connection.
	Listener string `json:"listener,omitempty"`
}

// Conn says who is connected with whom. A unix socket without a name is "".
type Conn struct {
	Network string `json:"network"` // as in Port
	Local   Bytes  `json:"local,omitempty"`
	Remote  Bytes  `json:"remote,omitempty"`
}

// Check refuses what no kernel says of a socket of a network that was asked for.
func (c *Conn) Check(network string) error {
	ok := c.Network == network && network != "tcp" || network == "tcp" && (c.Network == "tcp4" || c.Network == "tcp6")
	for _, a := range []Bytes{c.Local, c.Remote} {
		ok = ok && (len(a) == 0 || addressOf(c.Network, string(a)))
	}
	if !ok {
		return violation("a connection of %.64q where %.64q was asked for", c.Network, network)
	}
	return nil
}

// PortBatch is the most ports in one reply, MaxPorts in one list.
const (
	PortBatch = 256
	MaxPorts  = 4096
)

// Port is spec.Port on the wire.
type Port struct {
	Network string `json:"network"`
	Address Bytes  `json:"address"`
	PID     int    `json:"pid,omitempty"`
	Name    Bytes  `json:"name,omitempty"`
}

// Spec checks and converts what a guest said.
func (p *Port) Spec() (spec.Port, error) {
	if !addressOf(p.Network, string(p.Address)) || p.PID < 0 || p.PID > math.MaxInt32 || len(p.Name) > maxNameBytes {
		return spec.Port{}, violation("record of a port out of range")
	}
	return spec.Port{Network: p.Network, Address: string(p.Address), PID: p.PID, Name: string(p.Name)}, nil
}

// maxUnixBytes bounds the name of a unix socket, as the kernel does.
const maxUnixBytes = 108

// addressOf reports whether a kernel may say that a socket of a network has an address.
func addressOf(network, address string) bool {
	if network == "unix" {
		return address != "" && len(address) <= maxUnixBytes && (address[0] == '@' || strings.IndexByte(address, 0) < 0)
	}
	a, err := netip.ParseAddrPort(address)
	return err == nil && len(address) <= maxUnixBytes && (network == "tcp4" && a.Addr().Is4() || network == "tcp6" && a.Addr().Is6())
}
