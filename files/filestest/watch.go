package filestest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// watchTime is how long what a watch is to tell is waited for.
const watchTime = 30 * time.Second

// watching is a watch under way, and what a reader makes of what it is told.
type watching struct {
	e      Env
	top    string
	cancel context.CancelFunc
	done   chan error // receives once what Watch returned

	mu       sync.Mutex
	tree     map[string]bool // path: it is a directory
	events   []files.WatchEvent
	overflow int
	changed  chan struct{} // holds something after an event
}

// needWatch wants an FS that tells of changes.
func needWatch(ctx context.Context, e Env) string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := files.Watch(ctx, e.FS, e.Dir, files.WatchOptions{}, cancel, func(files.WatchEvent) error { return nil })
	if spec.CodeOf(err) == spec.CodeUnsupported {
		return "files that can be watched"
	}
	return ""
}

// watch begins to watch something of the case, "." for its directory, in which there is
// nothing yet. The caller ends it.
func (e Env) watch(ctx context.Context, t T, name string, o files.WatchOptions) *watching {
	t.Helper()
	w := &watching{e: e, top: e.Dir, done: make(chan error, 1), tree: map[string]bool{}, changed: make(chan struct{}, 1)}
	if name != "." {
		w.top = e.path(name)
	}
	ctx, w.cancel = context.WithCancel(ctx)
	ready := make(chan struct{})
	go func() {
		w.done <- files.Watch(ctx, e.FS, w.top, o, func() { close(ready) }, w.take)
	}()
	select {
	case <-ready:
	case err := <-w.done:
		w.cancel()
		t.Fatalf("watch %.80q: %v", name, err)
	case <-time.After(watchTime):
		w.cancel()
		t.Fatalf("watch %.80q: not ready after %v", name, watchTime)
	}
	return w
}

// take is what the watch tells.
func (w *watching) take(e files.WatchEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	switch e.Kind {
	case files.WatchCreated:
		if was, ok := w.tree[e.Path]; ok && was != e.Dir {
			w.remove(e.Path)
		}
		w.tree[e.Path] = e.Dir
	case files.WatchRemoved:
		w.remove(e.Path)
	case files.WatchRenamed:
		w.rename(e)
	case files.WatchOverflow:
		w.overflow++
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return nil
}

// remove takes a path and what is below it out of the tree.
func (w *watching) remove(path string) {
	delete(w.tree, path)
	maps.DeleteFunc(w.tree, func(p string, _ bool) bool { return strings.HasPrefix(p, path+"/") })
}

func (w *watching) rename(e files.WatchEvent) {
	moved := map[string]bool{e.Path: e.Dir}
	for p, dir := range w.tree {
		if rest, ok := strings.CutPrefix(p, e.OldPath+"/"); ok {
			moved[e.Path+"/"+rest] = dir
		}
	}
	w.remove(e.OldPath)
	w.remove(e.Path)
	maps.Copy(w.tree, moved)
}

// until waits until ok says that what has been told is enough.
func (w *watching) until(t T, what string, ok func() bool) {
	t.Helper()
	for late := time.After(watchTime); ; {
		w.mu.Lock()
		enough := ok()
		w.mu.Unlock()
		if enough {
			return
		}
		select {
		case <-w.changed:
		case err := <-w.done:
			w.done <- err
			t.Fatalf("the watch ended before %s: %v", what, err)
		case <-late:
			w.mu.Lock()
			defer w.mu.Unlock()
			t.Fatalf("not told: %s; the last of %d events are %+v", what, len(w.events), w.events[max(len(w.events)-20, 0):])
		}
	}
}

// tells waits for an event of a kind and a path after those that were told before, and
// returns it.
func (w *watching) tells(t T, kind files.WatchKind, path string) files.WatchEvent {
	t.Helper()
	var found files.WatchEvent
	w.until(t, fmt.Sprintf("%s %.80q", kind, path), func() bool {
		for i, e := range w.events {
			if e.Kind == kind && e.Path == path {
				found = e
				w.events = w.events[i+1:]
				return true
			}
		}
		return false
	})
	return found
}

// gone waits until the watch has ended because what is watched is gone.
func (w *watching) gone(t T) {
	t.Helper()
	defer w.cancel()
	select {
	case err := <-w.done:
		wantCode(t, "a watch of what is gone", err, spec.CodeFileNotFound)
	case <-time.After(watchTime):
		t.Fatalf("a watch of what is gone goes on")
	}
}

// ends cancels the watch, and checks that it ends for that.
func (w *watching) ends(t T) {
	t.Helper()
	w.cancel()
	select {
	case err := <-w.done:
		w.done <- err
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled watch returns %v", err)
		}
	case <-time.After(watchTime):
		t.Fatalf("a cancelled watch goes on")
	}
}

// agrees waits until the tree that was told is the one that is there.
func (w *watching) agrees(ctx context.Context, t T) {
	t.Helper()
	var diff string
	for late := time.Now().Add(watchTime); time.Now().Before(late); {
		want := map[string]bool{}
		for m, err := range files.Glob(ctx, w.e.FS, files.GlobOptions{Dir: w.top}) {
			if err != nil {
				t.Fatalf("glob: %v", err)
			}
			want[m.Path] = m.Info.IsDir()
		}
		w.mu.Lock()
		diff = compareTrees(w.tree, want)
		w.mu.Unlock()
		if diff == "" {
			return
		}
		select {
		case <-w.changed:
		case <-time.After(20 * time.Millisecond):
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Errorf("the tree that was told is not the one that is there (%d events, %d overflows):\n%s", len(w.events), w.overflow, diff)
}

// settled is agrees, unless an overflow has said that events are missing.
func (w *watching) settled(ctx context.Context, t T) {
	t.Helper()
	w.mu.Lock()
	overflow := w.overflow
	w.mu.Unlock()
	if overflow == 0 {
		w.agrees(ctx, t)
		return
	}
	t.Logf("%d overflows", overflow)
	again := w.e
	w.cancel()
	next := again.watch(ctx, t, strings.TrimPrefix(strings.TrimPrefix(w.top, again.Dir), "/"), recursively)
	next.ends(t)
}

// compareTrees says how two trees differ, in a few lines; "": they do not.
func compareTrees(told, there map[string]bool) string {
	var out strings.Builder
	for _, one := range []struct {
		what string
		a, b map[string]bool
	}{{"told, not there", told, there}, {"there, not told", there, told}} {
		n := 0
		for path, dir := range one.a {
			if other, ok := one.b[path]; ok && other == dir {
				continue
			}
			if n++; n <= 5 {
				fmt.Fprintf(&out, "%s: %.120q\n", one.what, path)
			}
		}
		if n > 5 {
			fmt.Fprintf(&out, "%s: %d in all\n", one.what, n)
		}
	}
	return out.String()
}
