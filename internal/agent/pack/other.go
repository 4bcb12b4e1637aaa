//go:build !linux

package pack

import (
	"fmt"
	"os"
)

// Main has nothing to do where there are no places.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "berth-guest: only on Linux")
	return 1
}
