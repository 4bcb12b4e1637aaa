package driver

import (
	"context"

	"github.com/berth-dev/berth/spec"
)

// Eventer is a Session whose place tells what happens to it, whoever causes it.
type Eventer interface {
	// Events calls tell with the events that q selects, in their order and never
	// concurrently. It returns nil after the last one (of a place that ends, or without
	// q.Follow), tell's error, the context's, or how the place was lost; it goes on over a
	// redial. A tell that is slow holds up nothing in the place: what it has missed then
	// is told as one EventMissed.
	Events(ctx context.Context, q spec.EventQuery, tell func(spec.Event) error) error
}
