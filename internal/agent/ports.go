//go:build linux

package agent

import (
	"github.com/berth-dev/berth/internal/agent/peer"
	"github.com/berth-dev/berth/internal/agent/port"
)

// portScope says what belongs to a place by where its guest lives: alone with it in a
// container, which has a network of its own or somebody else's, or behind a wall, or among the
// processes of a machine.
func (c *config) portScope() port.Scope {
	if c.sharedNet || c.peer == peer.Outside {
		return port.OfProcesses
	}
	return map[peer.Policy]port.Scope{peer.Engine: port.OfNetwork, peer.User: port.OfDescendants}[c.peer]
}
