package process

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/berth-dev/berth/internal/idmap"
	"github.com/berth-dev/berth/internal/isolate"
	"github.com/berth-dev/berth/spec"
)

// walled remembers the walls that the wrapper has once built: trying one costs as much
// as a place. A wall is tried again when the wrapper is another file, and after a failure.
// That it may have become unable meanwhile makes no place weaker: it runs nothing then.
type walled struct {
	mu    sync.Mutex
	built map[isolate.Trial]wrapper
}

// wrapper is the program that built a wall.
type wrapper struct {
	path string
	info os.FileInfo
}

// probe returns why there is no such wall, as isolate.Probe does.
func (w *walled) probe(ctx context.Context, t isolate.Trial) error {
	path, err := isolate.Find(t.Bwrap)
	if err != nil {
		return err
	}
	info, statErr := os.Stat(path)
	w.mu.Lock()
	known, ok := w.built[t]
	w.mu.Unlock()
	if ok && statErr == nil && known.path == path && sameFile(known.info, info) {
		return nil
	}
	if err := isolate.Probe(ctx, t); err != nil || statErr != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.built == nil {
		w.built = map[isolate.Trial]wrapper{}
	}
	w.built[t] = wrapper{path, info}
	return nil
}

// wall tries the wall of a level for whoever runs this. Root's is to be one that runs as
// somebody else: keep is why that cannot be had, where another one can.
func (b *backend) wall(ctx context.Context, level spec.Isolation) (keep, err error) {
	return b.tried(ctx, level, b.walled.probe)
}

// tried is wall with each trial made by probe.
func (b *backend) tried(ctx context.Context, level spec.Isolation, probe func(context.Context, isolate.Trial) error) (keep, err error) {
	t := isolate.Trial{Bwrap: b.o.Bwrap, Jail: level == spec.IsolationJail}
	if os.Geteuid() != 0 {
		return nil, probe(ctx, t)
	}
	dropped := t
	dropped.Drop = true
	if keep = probe(ctx, dropped); keep == nil {
		keep = b.canIdmap()
	}
	if spec.CodeOf(keep) != spec.CodeUnsupported {
		return nil, keep
	}
	return keep, probe(ctx, t)
}

// canIdmap returns why no path can be shown with another owner here: each of root's places
// needs that for its state, which belongs to root.
func (b *backend) canIdmap() error {
	path, err := isolate.Find(b.o.Bwrap)
	if err == nil {
		err = b.idmap.Try([]string{path, "--version"})
	}
	switch {
	case errors.Is(err, idmap.ErrUnable):
		return &spec.Error{Code: spec.CodeUnsupported, Err: err}
	case err != nil && spec.CodeOf(err) != spec.CodeUnsupported:
		return &spec.Error{Code: spec.CodeUnavailable, Err: err}
	}
	return err
}

// sameFile reports whether a file, so far as its attributes tell, is what it was.
func sameFile(was, is os.FileInfo) bool {
	return os.SameFile(was, is) && was.ModTime().Equal(is.ModTime()) && was.Size() == is.Size()
}
