package remotefs

import (
	"context"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Watch implements files.Watcher. It goes on over a redial, with a WatchOverflow.
func (f fileSystem) Watch(ctx context.Context, name string, o files.WatchOptions, ready func(), tell func(files.WatchEvent) error) error {
	err := spec.ValidatePath(name)
	if err == nil {
		err = o.Validate()
	}
	if err != nil {
		return at(err, name)
	}
	r := wire.FromWatch(name, o)
	w := &watching{recursive: o.Recursive, ready: ready, tell: tell}
	err = f.s.Patiently(ctx, &wire.Request{Op: wire.OpWatch, Watch: &r}, ask.Reads, func(st ask.Stream) (bool, error) {
		defer st.End()
		return w.listen(ctx, st)
	})
	if err == nil || err == w.stopped { //nolint:errorlint // the caller's own, as it is
		return err
	}
	return at(err, name)
}

// watching is one call of Watch.
type watching struct {
	recursive bool
	ready     func()
	tell      func(files.WatchEvent) error
	again     bool  // it was ready once
	stopped   error // what tell returned
}

// listen serves one stream until it breaks, which is not over, or the watch ends.
func (w *watching) listen(ctx context.Context, st ask.Stream) (over bool, err error) {
	if _, err := wire.ReadReply(st); err != nil {
		return false, err
	}
	if w.again {
		if err := w.say(ctx, files.WatchEvent{Kind: files.WatchOverflow, Path: "."}); err != nil {
			return true, err
		}
	} else if w.ready != nil {
		w.ready()
	}
	w.again = true
	for changes := wire.NewChangeReader(wire.NewDataReader(st)); ; {
		e, err := changes.Next()
		switch {
		case err != nil: // an end without a reason too
			return false, err
		case !w.recursive && strings.Contains(e.Path+e.OldPath, "/"):
			return true, ask.Violation("a change that was not asked for")
		}
		if err := w.say(ctx, e); err != nil {
			return true, err
		}
	}
}

func (w *watching) say(ctx context.Context, e files.WatchEvent) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.stopped = w.tell(e)
	return w.stopped
}
