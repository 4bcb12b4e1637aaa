package drivertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func needWatch(c spec.Caps) string {
	if !c.Watch {
		return "watches"
	}
	return ""
}

// watchCases are about watches of a place; what a watch tells is tried by filestest.
func watchCases() []Case {
	return []Case{
		{Name: "WatchTellsOfCommands", Rule: "What commands do to the files is told, in directories that they make too.", Need: all(needWatch, needCoreutils, needShell), Run: watchCommands},
		{Name: "WatchOutlivesKillAll", Rule: "A watch goes on over a lost connection, and says that events may be missing.", Need: all(needWatch, needShell, needShielded), Own: true, Run: watchKillAll},
		{Name: "WatchesAreBounded", Rule: "Watches that are too many are refused with a hint, and those that have ended count no more.", Need: needWatch, Own: true, Run: watchBounded},
	}
}

// watched is a watch under way.
type watched struct {
	cancel context.CancelFunc
	done   chan error // receives what Watch returned

	mu     sync.Mutex
	events []files.WatchEvent
}

// watchDir watches a directory of the place with all below, until the case ends. err is
// why it does not.
func (e *Env) watchDir(ctx context.Context, dir string) (w *watched, err error) {
	w = &watched{done: make(chan error, 1)}
	ctx, w.cancel = context.WithCancel(ctx)
	ready := make(chan struct{})
	go func() {
		w.done <- e.Sandbox.Files().Watch(ctx, dir, files.WatchOptions{Recursive: true}, func() { close(ready) }, func(e files.WatchEvent) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
			return nil
		})
	}()
	select {
	case <-ready:
		return w, nil
	case err := <-w.done:
		w.cancel()
		return nil, err
	}
}

// has reports whether an event has been told.
func (w *watched) has(kind files.WatchKind, path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind && e.Path == path {
			return true
		}
	}
	return false
}

// tells waits for an event.
func (w *watched) tells(t T, kind files.WatchKind, path string) {
	t.Helper()
	for late := time.Now().Add(watchTime); !w.has(kind, path); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			w.mu.Lock()
			defer w.mu.Unlock()
			t.Fatalf("not told: %s %s; but %+v", kind, path, w.events)
		}
	}
}

const watchTime = 30 * time.Second

// ends ends the watch and checks that it has gone on until then.
func (w *watched) ends(t T) {
	t.Helper()
	w.cancel()
	if err := <-w.done; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch had ended: %v", err)
	}
}

// watchPlace makes a directory of the case and returns its name.
func (e *Env) watchPlace(ctx context.Context, t T) string {
	t.Helper()
	dir := e.file("watch")
	if err := e.Sandbox.Files().Mkdir(ctx, dir, files.MkdirOptions{}); err != nil {
		t.Fatalf("mkdir: %v", err)
	}
	e.Cleanup(func(ctx context.Context) error {
		return e.Sandbox.Files().Remove(ctx, dir, files.RemoveOptions{Recursive: true})
	})
	return dir
}

func watchCommands(ctx context.Context, t T, e *Env) {
	dir := e.watchPlace(ctx, t)
	w, err := e.watchDir(ctx, dir)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.cancel()
	r := e.Sh(ctx, t, fmt.Sprintf(`cd %s && mkdir -p a/b/c && echo x >a/b/c/f && chmod 600 a/b/c/f && echo y >>a/b/c/f && mv a moved && echo z >moved/b/c/g`, dir))
	if !r.Success() {
		t.Fatalf("exit status %d: %s", r.ExitCode, r.Stderr)
	}
	// What came and went before its directory was watched need not be told, and f had another
	// name for a moment.
	if !e.Eventually(ctx, func() bool {
		return w.has(files.WatchCreated, "a/b/c/f") || w.has(files.WatchCreated, "moved/b/c/f")
	}) {
		t.Errorf("f is not told as created")
	}
	e.Sh(ctx, t, fmt.Sprintf("rm %s/moved/b/c/f", dir))
	w.tells(t, files.WatchRemoved, "moved/b/c/f")
	w.tells(t, files.WatchCreated, "moved/b/c/g")
	for path, was := range map[string]string{"moved": "a", "moved/b": "a/b", "moved/b/c": "a/b/c"} {
		if !w.has(files.WatchCreated, path) && !w.has(files.WatchCreated, was) {
			t.Errorf("%s, which was %s, is not told as created", path, was)
		}
	}
	w.ends(t)
}

func watchKillAll(ctx context.Context, t T, e *Env) {
	dir := e.watchPlace(ctx, t)
	w, err := e.watchDir(ctx, dir)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.cancel()
	e.Sh(ctx, t, "kill -9 -1")
	// Where the connection went with it, what is told before the next one is told as
	// an overflow; so one file after the other is made until one is told.
	told := false
	for i, late := 0, time.Now().Add(watchTime); !told; i++ {
		name := fmt.Sprint("f", i)
		if err := e.Sandbox.Files().WriteFile(ctx, dir+"/"+name, nil, files.WriteOptions{}); err != nil {
			t.Fatalf("write: %v", err)
		}
		for range 20 {
			if told = w.has(files.WatchCreated, name); told {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if time.Now().After(late) {
			t.Fatalf("nothing is told any more")
		}
	}
	w.ends(t)
}

// watchAlone waits, for a while, until no other process of this machine opens as many watches
// as a place has: those of two are all that a kernel gives to one user, and others are refused
// theirs.
func watchAlone(ctx context.Context) (done func()) {
	done = func() {}
	if runtime.GOOS != "linux" {
		return done
	}
	within(ctx, watchTime, func() bool {
		l, err := net.Listen("unix", "@berth-drivertest-watches") // a name without a file, which ends with the process
		if err == nil {
			done = func() { l.Close() }
		}
		return !errors.Is(err, syscall.EADDRINUSE)
	})
	return done
}

func watchBounded(ctx context.Context, t T, e *Env) {
	dir := e.watchPlace(ctx, t)
	defer watchAlone(ctx)()
	var all []*watched
	end := func() {
		for _, w := range all {
			w.ends(t)
		}
		all = nil
	}
	defer end()
	const most = 1000
	for len(all) < most {
		w, err := e.watchDir(ctx, dir)
		if err != nil {
			wantError(t, "a watch too many", err, berth.ErrUnavailable)
			if spec.HintOf(err) == "" {
				t.Errorf("the refusal %v has no hint", err)
			}
			break
		}
		all = append(all, w)
	}
	t.Logf("%d watches", len(all))
	if len(all) == most {
		return // a place in memory, which needs no bound
	}
	end()
	for late := time.Now().Add(watchTime); ; time.Sleep(20 * time.Millisecond) {
		w, err := e.watchDir(ctx, dir)
		if err == nil {
			all = append(all, w)
			return
		}
		if time.Now().After(late) {
			t.Fatalf("when all have ended there is no room for one: %v", err)
		}
	}
}
