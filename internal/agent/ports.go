//go:build linux

package agent

import (
	"github.com/berth-dev/berth/internal/agent/peer"
	"github.com/berth-dev/berth/internal/agent/port"
)

// portScope says what belongs to a place by where its guest lives: alone with it in a
// container, which has a network of its own, or behind a wall, or among the processes of a
// machine.
var portScope = map[peer.Policy]port.Scope{
	peer.Engine: port.OfNetwork, peer.Outside: port.OfProcesses, peer.User: port.OfDescendants,
}
