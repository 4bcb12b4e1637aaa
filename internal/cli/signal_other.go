//go:build !unix

package cli

import (
	"os"
	"syscall"

	"github.com/berth-dev/berth/spec"
)

// forwarded are the signals that a command gets when we do.
var forwarded = map[os.Signal]spec.Signal{
	os.Interrupt:    spec.SIGINT,
	syscall.SIGTERM: spec.SIGTERM,
}
