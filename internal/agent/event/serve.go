//go:build linux

package event

import (
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

var errRange = spec.New(spec.CodeInvalid, "the request is out of range")

// Serve tells a host of events, until all that it asked for have been told, the place has
// ended or the host leaves. allowed says whether its owner has not been taken over from.
func (f *Feed) Serve(st *wire.Stream, r *wire.EventsRequest, allowed func() error) error {
	switch {
	case r == nil:
		return stream.ErrIncomplete
	case r.After < 0:
		return errRange
	}
	gone := make(chan struct{})
	go func() { // a host says nothing more: the end of its stream is its leaving
		stream.Discard(st)
		close(gone)
		stream.Abort(st)
	}()
	info := f.enter(r)
	defer f.leave()
	if err := stream.Reply(st, &wire.Reply{Events: &info}); err != nil {
		return err
	}
	at, until := info.After, info.Last
	if r.Follow {
		until = forever
	}
	for {
		batch, news, done := f.after(at, until)
		if news != nil {
			select {
			case <-news:
				continue
			case <-gone:
				return stream.ErrGone
			}
		}
		out := wire.EventBatch{Events: batch, Done: done}
		if err := allowed(); err != nil {
			out = wire.EventBatch{Err: wire.FromError(err)}
		}
		if wire.WriteMessage(st, &out) != nil || out.Err != nil {
			return stream.ErrGone
		}
		if done {
			return nil
		}
		at = batch[len(batch)-1].Seq
	}
}
