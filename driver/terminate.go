package driver

import (
	"context"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Terminator is a Session that ends commands which another session, or another program,
// may have started, and lists what runs.
type Terminator interface {
	// Terminate ends the whole tree of the command or job that was started with key,
	// TERM first and KILL after grace (0: spec.DefaultGrace; negative: at once). It
	// returns once what can be known is known:
	// KillTerminated, where the place has proof that nothing of the tree is left;
	// KillExited, where it had ended before, or no command with that key is known;
	// KillUnknown, where it was killed and there is no such proof, or where what the
	// place knew was lost with an earlier guest. A process is identified by its pid
	// and its start time, never by its pid alone.
	// A repeated call answers as the first one did, as long as the command is
	// remembered. A key that was never used is KillExited only if the guest has lived
	// since the place was made, else KillUnknown.
	Terminate(ctx context.Context, key string, grace time.Duration) (spec.KillOutcome, error)
	// Running lists the commands and jobs of the place whose leaders have not ended,
	// whoever started them, the oldest first.
	Running(ctx context.Context) ([]spec.Running, error)
}
