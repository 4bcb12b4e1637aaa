// Package remoteevent is what happens to a place, over the wire: it asks a guest for it and
// checks what comes. The guest lives among untrusted code: events that are not what was
// asked for, or not in their order, are refused.
package remoteevent

import (
	"context"
	"math"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// mostTold is the most events that are taken of a place without following: twice as many
// as it keeps.
const mostTold = 2 * 4096

// Listen tells of the events that q selects. It goes on over a redial, without a gap and
// without telling any event twice. denied is the Exit.Hint of a command that reads as if
// the place's wall had refused it something.
func Listen(ctx context.Context, s ask.Session, q spec.EventQuery, denied string, tell func(spec.Event) error) error {
	if q.After < 0 {
		return spec.New(spec.CodeInvalid, "an event has no negative number")
	}
	l := &listening{tell: tell, denied: denied, req: &wire.EventsRequest{After: q.After, Follow: q.Follow}}
	return s.Patiently(ctx, &wire.Request{Op: wire.OpEvents, Events: l.req}, ask.Reads, func(st ask.Stream) (bool, error) {
		defer st.End()
		return l.listen(ctx, st)
	})
}

// listening is one call of Listen.
type listening struct {
	tell   func(spec.Event) error
	denied string
	req    *wire.EventsRequest // After and Life are those of the last event that was told

	until int64 // the number of the last event
	told  int   // events
}

// listen serves one stream until it breaks, which is not over, or there are no more events.
func (l *listening) listen(ctx context.Context, st ask.Stream) (over bool, err error) {
	reply, err := wire.ReadReply(st)
	if err != nil {
		return false, err
	}
	info := reply.Events
	if info == nil {
		return true, ask.Violation("a reply without what events there are")
	}
	if err := info.Check(l.req); err != nil {
		return true, &spec.Error{Code: spec.CodeInternal, Err: err}
	}
	l.req.Life, l.req.After = info.Life, info.After
	if l.until = info.Last; l.req.Follow {
		l.until = math.MaxInt64
	}
	for {
		var batch wire.EventBatch
		switch err := wire.ReadMessage(st, &batch, wire.MaxEventBatchBytes); {
		case err != nil:
			return false, err
		case batch.Err != nil:
			return false, batch.Err.Spec()
		case len(batch.Events) == 0 && !batch.Done, len(batch.Events) > wire.MaxEventBatch+1:
			return true, ask.Violation("%d events at once", len(batch.Events))
		}
		for i := range batch.Events {
			if err := l.hear(ctx, &batch.Events[i]); err != nil {
				return true, err
			}
		}
		if batch.Done {
			return true, nil
		}
	}
}

// hear tells of one event, which has to be the next.
func (l *listening) hear(ctx context.Context, said *wire.PlaceEvent) error {
	e, err := said.Spec()
	if err != nil {
		return &spec.Error{Code: spec.CodeInternal, Err: err}
	}
	passed := int64(1)
	if e.Kind == spec.EventMissed {
		passed = e.Count
	}
	l.told++
	switch {
	case e.Seq-passed != l.req.After || e.Seq > l.until || !l.req.Follow && l.told > mostTold:
		return ask.Violation("event %d follows %d, of %d", e.Seq, l.req.After, l.until)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if said.Exit != nil && said.Exit.Denied {
		e.Exit.Hint = l.denied
	}
	if err := l.tell(e); err != nil {
		return err
	}
	l.req.After = e.Seq
	return nil
}
