package berth

import (
	"context"
	"errors"
	"iter"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Events yields what has happened to the place, whoever caused it, in the order in which
// it happened and each event once, over a connection that is lost too. With q.Follow it
// goes on with what happens, until the place has ended. An error is the last that it
// yields: the context's, how the place was lost, or ErrUnsupported where Caps.Events is
// false.
//
// A loop that is slow holds up nothing in the place: what it has missed then is one
// EventMissed. The events are told by the place itself, where commands may have got the
// better of it: package audit keeps a log on this side.
func (sb *Sandbox) Events(ctx context.Context, q EventQuery) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		enough := false
		eventer, err := sb.eventer(ctx)
		if err == nil {
			err = eventer.Events(ctx, q, func(e Event) error {
				if enough = !yield(e, nil); enough {
					return errEnough
				}
				return nil
			})
		}
		if err != nil && !enough {
			yield(Event{}, sb.wrap(err, "events", ""))
		}
	}
}

var errEnough = errors.New("no more events are wanted")

// eventer returns the session as one that tells what happens.
func (sb *Sandbox) eventer(ctx context.Context) (driver.Eventer, error) {
	session, err := sb.session(ctx)
	if err != nil {
		return nil, err
	}
	if eventer, ok := session.(driver.Eventer); ok && session.Caps().Events {
		return eventer, nil
	}
	return nil, spec.New(spec.CodeUnsupported, "events: the place does not tell what happens to it")
}
