package berth

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Terminate ends the whole tree of the command or job that was started with key, whoever
// started it, with TERM first and KILL after grace (0: 5 s; negative: at once). A program
// that takes over from one that has died ends so what that one has left running.
//
// KillTerminated is said only where it is proven that no process of the tree is left;
// KillExited where it had ended before, or nothing is known by that key; KillUnknown where
// it was killed without such a proof, or what the place knew was lost with an earlier
// guest. A repeated call answers as the first one did, while the command is remembered.
//
// A command goes before a job with the same key, and the job of the owner "" before those
// of others. Where several others have one it is ErrInvalid and nothing is ended.
func (sb *Sandbox) Terminate(ctx context.Context, key string, grace time.Duration) (KillOutcome, error) {
	if key == "" || len(key) > spec.MaxKeyBytes {
		return "", sb.wrap(spec.New(spec.CodeInvalid, fmt.Sprintf("a command key has 1 to %d bytes", spec.MaxKeyBytes)), "terminate", "")
	}
	terminator, err := sb.terminator(ctx)
	if err != nil {
		return "", sb.wrap(err, "terminate", "")
	}
	a, err := sb.announce(ctx, spec.AuditRecord{Kind: spec.AuditTerminate, Name: key})
	if err != nil {
		return "", sb.wrap(err, "terminate", "")
	}
	outcome, err := terminator.Terminate(ctx, key, grace)
	a.end(err, func(r *spec.AuditRecord) { r.Kill = outcome })
	return outcome, sb.wrap(err, "terminate", "")
}

// Running lists the commands and jobs of the place whose leaders have not ended, whoever
// started them, the oldest first.
func (sb *Sandbox) Running(ctx context.Context) ([]Running, error) {
	terminator, err := sb.terminator(ctx)
	if err != nil {
		return nil, sb.wrap(err, "list what runs", "")
	}
	running, err := terminator.Running(ctx)
	return running, sb.wrap(err, "list what runs", "")
}

// terminator returns the session as one that ends what others started.
func (sb *Sandbox) terminator(ctx context.Context) (driver.Terminator, error) {
	session, err := sb.session(ctx)
	if err != nil {
		return nil, err
	}
	if terminator, ok := session.(driver.Terminator); ok {
		return terminator, nil
	}
	return nil, spec.New(spec.CodeUnsupported, "the place does not end commands by their keys")
}
