// Command berth-guest is what Berth puts into a place: it runs commands there and
// serves files, and it is the relay by which an engine reaches it. On the far side of
// ssh it keeps the places, too.
package main

import (
	"os"

	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/agent/pack"
	"github.com/berth-dev/berth/internal/place/remote"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "place" {
		os.Exit(remote.Main(args[1:]))
	}
	if len(args) > 0 && args[0] == "pack" {
		os.Exit(pack.Main(args[1:]))
	}
	os.Exit(agent.Main(args))
}
