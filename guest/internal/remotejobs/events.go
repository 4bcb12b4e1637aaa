package remotejobs

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Listen tells of the events of the owner's jobs; id is a new one of this listening. It
// goes on over a redial, unless another listener has taken over meanwhile, and tells no
// event twice.
func (c *Client) Listen(ctx context.Context, owner, id string, tell func(spec.JobEvent) error) error {
	if err := spec.ValidateOwner(owner); err != nil {
		return err
	}
	l := &listening{owner: owner, tell: tell, hint: c.hint}
	l.req = &wire.Request{Op: wire.OpJobEvents, Job: &wire.JobRequest{Owner: owner, Listener: id}}
	return c.s.Patiently(ctx, l.req, ask.Changes, func(st ask.Stream) (bool, error) {
		defer st.End()
		return l.listen(ctx, st)
	})
}

// listening is one call of JobEvents.
type listening struct {
	owner string
	tell  func(spec.JobEvent) error
	hint  func(*wire.Job, *spec.Exit)
	req   *wire.Request
	told  []string // the latest events; one that is not acknowledged for sure is among them
}

// listen serves one stream until it breaks, which is not over, or the listening ends.
func (l *listening) listen(ctx context.Context, st ask.Stream) (over bool, err error) {
	if _, err := wire.ReadReply(st); err != nil {
		return false, err
	}
	l.req.Job.Resume = true
	events := make(chan *wire.JobEvent, wire.JobEventsAhead)
	ended := make(chan error, 1)
	go func() { ended <- receive(st, events) }()
	defer func() {
		st.Interrupt() // of no effect where it has ended
		for range events {
		}
	}()
	for {
		// An end that is known already goes first: then what has been received
		// and not been told is somebody else's, or comes again.
		select {
		case err := <-ended:
			return false, err
		default:
		}
		select {
		case err := <-ended:
			return false, err
		case e := <-events:
			if e == nil { // there are no more
				return false, <-ended
			}
			if over, err := l.hear(ctx, st, e); err != nil {
				return over, err
			}
		}
	}
}

// receive reads events until there are no more, and says why. More than the guest may
// send ahead is a breach.
func receive(st ask.Stream, events chan<- *wire.JobEvent) error {
	defer close(events)
	for {
		e := new(wire.JobEvent)
		if err := wire.ReadMessage(st, e, wire.MaxJobEventBytes); err != nil {
			return err
		}
		if e.Err != nil {
			return e.Err.Spec()
		}
		select {
		case events <- e:
		default:
			return ask.Violation("more than %d events without an acknowledgement", wire.JobEventsAhead)
		}
	}
}

// hear tells of one event, unless that has been done, and acknowledges it.
func (l *listening) hear(ctx context.Context, st ask.Stream, said *wire.JobEvent) (over bool, err error) {
	e, err := said.Spec()
	switch {
	case err != nil:
		return true, &spec.Error{Code: spec.CodeInternal, Err: err}
	case e.Job.Owner != l.owner:
		return true, ask.Violation("an event of %s, which has another owner", e.Job.ID)
	case ctx.Err() != nil:
		return true, ctx.Err()
	}
	if !slices.Contains(l.told, said.Seq) {
		l.hint(said.Job, &e.Job.Exit)
		if err := l.tell(e); err != nil {
			return true, err
		}
		l.told = append(l.told, said.Seq)
		if n := len(l.told) - 2*wire.JobEventsAhead; n > 0 {
			l.told = l.told[n:]
		}
	}
	err = st.Send(ctx, &wire.JobAck{Seq: said.Seq})
	return spec.CodeOf(err) == spec.CodeStaleOwner, err
}
