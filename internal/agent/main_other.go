//go:build !linux

package agent

import (
	"fmt"
	"os"
)

// Main runs the verb that args begin with and returns the exit status. A guest
// runs on Linux only; elsewhere every verb but version is refused.
func Main(args []string) int {
	if len(args) == 1 && args[0] == "version" {
		fmt.Println(Version())
		return 0
	}
	fmt.Fprintln(os.Stderr, "berth-guest: a guest runs on linux only")
	return 2
}
