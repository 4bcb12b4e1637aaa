//go:build linux

package fileserver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// maxWatches is how many watches a place has at one time. Each has an instance of the
// kernel's, of which a user has 128 by default.
const maxWatches = 64

// Watches counts the watches of a place. The zero value is ready.
type Watches struct{ n atomic.Int32 }

func (w *Watches) enter() error {
	if w.n.Add(1) > maxWatches {
		w.n.Add(-1)
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("%d watches are open in the place", maxWatches), Hint: "end one, or watch a directory that holds several"}
	}
	return nil
}

func (w *Watches) leave() { w.n.Add(-1) }

// watch sends what changes as it changes. A host that does not read is an overflow in the
// end, as is any tell that waits.
func (v *Server) watch(ctx context.Context, s *wire.Stream, r *wire.WatchRequest) error {
	if err := v.Watches.enter(); err != nil {
		return err
	}
	defer v.Watches.leave()
	name, prev, told := string(r.Name), "", error(nil)
	out := v.records(s)
	defer out.stop()
	err := files.Watch(ctx, v.Files, name, r.Options(), func() {
		v.Tell(wire.PlaceEvent{Kind: string(spec.EventWatchBegun), Path: r.Name})
		told = stream.Reply(s, &wire.Reply{})
	}, func(e files.WatchEvent) error {
		if e.Kind == files.WatchOverflow {
			v.Tell(wire.PlaceEvent{Kind: string(spec.EventWatchOverflow), Path: r.Name})
		}
		if told != nil || !out.add(func(buf []byte) []byte {
			buf, prev = wire.AppendChange(buf, prev, &e)
			return buf
		}) {
			return stream.ErrGone
		}
		return nil
	})
	if ctx.Err() != nil || errors.Is(err, stream.ErrGone) {
		return stream.ErrGone
	}
	return out.fail(err)
}
