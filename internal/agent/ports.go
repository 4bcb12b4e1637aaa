//go:build linux

package agent

import (
	"net"

	"github.com/berth-dev/berth/internal/agent/peer"
	"github.com/berth-dev/berth/internal/agent/port"
)

// portScope says what belongs to a place by where its guest lives: alone with it in a
// container, which has a network of its own, or behind a wall, or among the processes of a
// machine.
var portScope = map[peer.Policy]port.Scope{
	peer.Engine: port.OfNetwork, peer.Outside: port.OfProcesses, peer.User: port.OfDescendants,
}

// openPorts are the ports of the place, to whose guest the host comes at listener.
func (a *agent) openPorts(listener net.Listener) {
	a.ports = port.New(a.cfg.workdir, portScope[a.cfg.peer], listener, &a.buffers)
}
