package localfs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs"
)

// follower is what a reader of a watch makes of it: the tree as it was told.
type follower struct {
	mu        sync.Mutex
	tree      map[string]bool // path: it is a directory
	overflows int
	events    int
	log       []files.WatchEvent
	// again is read anew where an overflow, or the rename of a directory in what was read
	// then, says that it must be; "": it never is.
	again string
}

// read makes the tree what there is.
func (f *follower) read() {
	f.tree = map[string]bool{}
	_ = filepath.WalkDir(f.again, func(p string, d fs.DirEntry, err error) error {
		if err == nil && p != f.again {
			f.tree[strings.TrimPrefix(p, f.again+"/")] = d.IsDir()
		}
		return nil // what has vanished since is told
	})
}

func (f *follower) take(e files.WatchEvent) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events++
	if f.log = append(f.log, e); len(f.log) > 60_000 {
		f.log = f.log[30_000:]
	}
	if f.again != "" && (e.Kind == files.WatchOverflow || e.Kind == files.WatchRenamed && e.Dir) {
		f.read()
		if e.Kind == files.WatchOverflow {
			f.overflows++
		}
		return nil
	}
	remove := func(path string) {
		delete(f.tree, path)
		maps.DeleteFunc(f.tree, func(p string, _ bool) bool { return strings.HasPrefix(p, path+"/") })
	}
	switch e.Kind {
	case files.WatchCreated:
		if was, ok := f.tree[e.Path]; ok && was != e.Dir {
			remove(e.Path)
		}
		f.tree[e.Path] = e.Dir
	case files.WatchRemoved:
		remove(e.Path)
	case files.WatchRenamed:
		moved := map[string]bool{e.Path: e.Dir}
		for p, dir := range f.tree {
			if rest, ok := strings.CutPrefix(p, e.OldPath+"/"); ok {
				moved[e.Path+"/"+rest] = dir
			}
		}
		remove(e.OldPath)
		remove(e.Path)
		maps.Copy(f.tree, moved)
	case files.WatchOverflow:
		f.overflows++
	}
	return nil
}

// differs says how the tree that was told is not the one below dir; "": it is.
func (f *follower) differs(t *testing.T, dir string) string {
	t.Helper()
	there := map[string]bool{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && p != dir {
			there[strings.TrimPrefix(p, dir+"/")] = d.IsDir()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, isDir := range there {
		if told, ok := f.tree[p]; !ok || told != isDir {
			return fmt.Sprintf("%q is there and was not told (of %d)", p, len(there))
		}
	}
	for p := range f.tree {
		if _, ok := there[p]; !ok {
			return fmt.Sprintf("%q was told and is not there", p)
		}
	}
	return ""
}

// follow watches dir, in which nothing is yet, until the test ends.
func follow(t *testing.T, fsys files.FS, dir string, o files.WatchOptions) *follower {
	t.Helper()
	f := &follower{tree: map[string]bool{}}
	f.follow(t, fsys, dir, o)
	return f
}

func (f *follower) follow(t *testing.T, fsys files.FS, dir string, o files.WatchOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- files.Watch(ctx, fsys, dir, o, func() { close(ready) }, f.take) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended: %v", err)
		}
	})
}

// agrees waits until the tree that was told is the one that is there.
func (f *follower) agrees(t *testing.T, dir string) {
	t.Helper()
	diff := ""
	for late := time.Now().Add(20 * time.Second); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if diff = f.differs(t, dir); diff == "" {
			return
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Errorf("after %d events, %d overflows: %s", f.events, f.overflows, diff)
	name := strings.Split(strings.Split(diff, "\"")[1], "/")
	n := 0
	for _, e := range f.log {
		if strings.Contains(e.Path, name[len(name)-1]) || strings.Contains(e.OldPath, name[len(name)-1]) {
			if n++; n > 0 {
				t.Logf("%+v", e)
			}
		}
	}
}

// churn does something at random below dir, again and again.
func churn(r *rand.Rand, dir, tag string, steps int) {
	pick := func() string {
		p := dir
		for range 1 + r.IntN(4) {
			p += fmt.Sprintf("/%c", 'a'+rune(r.IntN(4)))
		}
		return p
	}
	for i := range steps {
		a, b := pick(), pick()
		switch r.IntN(12) {
		case 0, 1, 2:
			_ = os.MkdirAll(a, 0o755)
		case 3, 4:
			_ = os.WriteFile(fmt.Sprintf("%s-%s%d", a, tag, i), []byte("x"), 0o644)
		case 5, 6, 7:
			_ = os.Rename(a, b)
		case 8:
			_ = os.RemoveAll(a)
		case 9:
			_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		case 10:
			_ = os.WriteFile(a, []byte("x"), 0o644)
		case 11:
			_ = os.Rename(a, dir+"-outside/"+tag)
			_ = os.Rename(dir+"-outside/"+tag, b)
		}
		if i%50 == 49 {
			time.Sleep(time.Millisecond)
		}
	}
}

// Whatever is done to a tree by several at once - made, removed, renamed into, out of and
// within it, exchanged - who is told of it knows in the end what there is.
func TestWatchAgainstChurn(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for i := range rounds {
		top := tempDir(t)
		dir := top + "/tree"
		for _, d := range []string{dir, dir + "-outside"} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		f := follow(t, localfs.New(top), dir, files.WatchOptions{Recursive: true})
		var all sync.WaitGroup
		for k := range 4 {
			all.Go(func() { churn(rand.New(rand.NewPCG(seed, uint64(i*10+k))), dir, fmt.Sprint("t", k), 400) })
		}
		all.Wait()
		f.agrees(t, dir)
		f.mu.Lock()
		t.Logf("%d events, %d overflows, %d entries", f.events, f.overflows, len(f.tree))
		if f.overflows > 0 {
			t.Error("an overflow")
		}
		f.mu.Unlock()
		if t.Failed() {
			break
		}
	}
	runtime.GC()
}
