//go:build unix

package shellcmd

import (
	"os"
	"os/signal"
	"syscall"
)

// sizes says when the size of our terminal may have changed, until stop is called.
func sizes() (changed <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
