package guest

import (
	"context"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

var _ driver.Terminator = (*Session)(nil)

// terminatorMinor is the protocol that has these operations.
const terminatorMinor = 2

// Terminate implements driver.Terminator. It goes on over a redial. Where several owners
// have a job with the key, and neither a command nor the owner without a name has it,
// nothing is ended and the error is CodeInvalid. A guest that has said nothing 30 s after
// the grace is CodeUnknownOutcome.
func (s *Session) Terminate(ctx context.Context, key string, grace time.Duration) (spec.KillOutcome, error) {
	if err := s.canTerminate(); err != nil {
		return "", err
	}
	return s.jobs().Terminate(ctx, key, grace)
}

// Running implements driver.Terminator.
func (s *Session) Running(ctx context.Context) ([]spec.Running, error) {
	if err := s.canTerminate(); err != nil {
		return nil, err
	}
	return s.jobs().Running(ctx)
}

// canTerminate refuses what an older guest does not know.
func (s *Session) canTerminate() error {
	if s.minor < terminatorMinor {
		return spec.New(spec.CodeUnsupported, "the guest is too old to end commands by their keys and to list what runs")
	}
	return nil
}
