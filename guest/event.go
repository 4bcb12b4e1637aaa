package guest

import (
	"context"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest/internal/remoteevent"
	"github.com/berth-dev/berth/spec"
)

var _ driver.Eventer = (*Session)(nil)

// eventsMinor is the protocol that has events.
const eventsMinor = 3

// Events implements driver.Eventer.
func (s *Session) Events(ctx context.Context, q spec.EventQuery, tell func(spec.Event) error) error {
	if !s.caps.Events {
		return spec.New(spec.CodeUnsupported, "the guest is too old to tell what happens to its place")
	}
	return remoteevent.Listen(ctx, asking{s}, q, s.o.Denied, tell)
}
