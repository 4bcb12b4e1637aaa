package process

import (
	"context"
	"os"
	"sync"

	"github.com/berth-dev/berth/internal/isolate"
)

// walled remembers the wrapper that has once built the wall: trying it costs as much
// as a place. It is asked again when it is another file, and after a failure. That it
// may have become unable meanwhile makes no place weaker: it runs nothing then.
type walled struct {
	mu   sync.Mutex
	path string
	info os.FileInfo
}

// probe returns why there is no wall, as isolate.Probe does.
func (w *walled) probe(ctx context.Context, bwrap string) error {
	path, err := isolate.Find(bwrap)
	if err != nil {
		return err
	}
	info, statErr := os.Stat(path)
	w.mu.Lock()
	known := statErr == nil && w.path == path && sameFile(w.info, info)
	w.mu.Unlock()
	if known {
		return nil
	}
	if err := isolate.Probe(ctx, bwrap); err != nil || statErr != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.path, w.info = path, info
	return nil
}

// sameFile reports whether a file, so far as its attributes tell, is what it was.
func sameFile(was, is os.FileInfo) bool {
	return os.SameFile(was, is) && was.ModTime().Equal(is.ModTime()) && was.Size() == is.Size()
}
