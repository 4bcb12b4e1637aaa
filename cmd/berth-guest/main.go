// Command berth-guest is what Berth puts into a place: it runs commands there and
// serves files, and it is the relay by which an engine reaches it.
package main

import (
	"os"

	"github.com/berth-dev/berth/internal/agent"
)

func main() {
	os.Exit(agent.Main(os.Args[1:]))
}
