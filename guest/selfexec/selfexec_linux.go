package selfexec

import (
	"os"

	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/reexec"
)

// Main runs the guest and exits if the program was re-executed as one; otherwise it
// notes that this is possible and returns. It is the first thing that main does: what
// runs before it runs in the guest too. Except on Linux it only returns.
func Main() {
	if len(os.Args) > 1 && os.Args[1] == reexec.Arg {
		os.Exit(agent.Main(os.Args[2:]))
	}
	reexec.Note()
}
