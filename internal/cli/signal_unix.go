//go:build unix

package cli

import (
	"os"
	"syscall"

	"github.com/berth-dev/berth/spec"
)

// forwarded are the signals that a command gets when we do, with their numbers in
// the place: those of Linux, which are not everywhere ours.
var forwarded = map[os.Signal]spec.Signal{
	syscall.SIGINT:  spec.SIGINT,
	syscall.SIGTERM: spec.SIGTERM,
	syscall.SIGHUP:  spec.SIGHUP,
	syscall.SIGQUIT: spec.SIGQUIT,
	syscall.SIGUSR1: spec.SIGUSR1,
	syscall.SIGUSR2: spec.SIGUSR2,
}
