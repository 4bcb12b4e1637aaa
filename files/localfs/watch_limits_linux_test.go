package localfs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs"
	"github.com/berth-dev/berth/spec"
)

// watchLimit sets a limit that this user namespace has to itself.
func watchLimit(t *testing.T, name string, most int) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/user/"+name, fmt.Append(nil, most), 0); err != nil {
		t.Fatal(err)
	}
}

// mkdirs makes directories d0, d1, ... in top.
func mkdirs(t *testing.T, top string, count int) {
	t.Helper()
	for i := range count {
		if err := os.Mkdir(fmt.Sprintf("%s/d%d", top, i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// wantOverflow waits until more than n overflows have been told.
func (f *follower) wantOverflow(t *testing.T, n int) {
	t.Helper()
	f.await(t, "an overflow", func() bool { return f.overflows > n })
}

// overflowed is how many overflows have been told.
func (f *follower) overflowed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.overflows
}

// wantTold makes files in a directory until one is told: an overflow that is still to come
// stands for those that were made before it.
func (f *follower) wantTold(t *testing.T, top, dir string) {
	t.Helper()
	n := 0
	f.await(t, "a file in "+dir, func() bool {
		if err := os.WriteFile(fmt.Sprintf("%s/%s/file%d", top, dir, n), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		n++
		for path := range f.tree {
			if strings.HasPrefix(path, dir+"/file") {
				return true
			}
		}
		return false
	})
}

// await waits until something has been told.
func (f *follower) await(t *testing.T, what string, told func() bool) {
	t.Helper()
	now := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return told()
	}
	for late := time.Now().Add(20 * time.Second); !now(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s was not told", what)
		}
	}
}

// Where the kernel has no watch left the error says so and what cures it, before ready;
// later it is an overflow, and what is watched goes on. What was refused is watched once
// there is room, and another overflow says that it has not been until then.
func TestWatchMeetsTheKernelsLimits(t *testing.T) {
	own := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	group := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	dir, inner := inside(t, "watches", tempDir(t), &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: own, GidMappings: group})
	if !inner {
		return
	}
	fsys := localfs.New(dir)
	refused := func(what, hint string) {
		t.Helper()
		err := files.Watch(t.Context(), fsys, dir, files.WatchOptions{Recursive: true}, func() { t.Errorf("%s: it is ready", what) }, func(files.WatchEvent) error { return nil })
		if spec.CodeOf(err) != spec.CodeUnavailable || !strings.Contains(spec.HintOf(err), hint) {
			t.Errorf("%s: %v (hint: %s); want unavailable with a hint of %s", what, err, spec.HintOf(err), hint)
		}
	}
	mkdirs(t, dir, 20)
	watchLimit(t, "max_inotify_instances", 0)
	refused("no instance", "max_user_instances")
	watchLimit(t, "max_inotify_instances", 4)
	watchLimit(t, "max_inotify_watches", 10)
	refused("no watch", "max_user_watches")

	watchLimit(t, "max_inotify_watches", 30)
	f := follow(t, fsys, dir, files.WatchOptions{Recursive: true})
	mkdirs(t, filepath.Join(dir, "d0"), 20)
	f.wantOverflow(t, 0)
	f.wantTold(t, dir, "d19")

	refusals := f.overflowed()
	watchLimit(t, "max_inotify_watches", 1000)
	f.wantOverflow(t, refusals)
	for i := range 20 {
		f.wantTold(t, dir, fmt.Sprintf("d0/d%d", i))
	}
}

// Where the kernel's watches do not suffice for what is done to a tree, who reads it again at
// each overflow knows in the end what there is, once they do.
func TestWatchWithoutRoomAgainstChurn(t *testing.T) {
	own := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	group := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	top, inner := inside(t, "churn", tempDir(t), &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: own, GidMappings: group})
	if !inner {
		return
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) { // its watch ends with it
			dir := fmt.Sprintf("%s/tree%d", top, i)
			for _, d := range []string{dir, dir + "-outside"} {
				if err := os.Mkdir(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			watchLimit(t, "max_inotify_watches", 10+10*i)
			f := &follower{again: dir, tree: map[string]bool{}}
			f.follow(t, localfs.New(top), dir, files.WatchOptions{Recursive: true})
			var all sync.WaitGroup
			for k := range 4 {
				all.Go(func() { churn(rand.New(rand.NewPCG(seed, uint64(i*10+k))), dir, fmt.Sprint("t", k), 400) })
			}
			all.Wait()
			watchLimit(t, "max_inotify_watches", 10_000)
			f.agrees(t, dir)
			t.Logf("%d overflows", f.overflowed())
			for _, d := range f.directories() {
				f.wantTold(t, dir, d)
			}
		})
	}
}

// directories are those that have been told.
func (f *follower) directories() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path, isDir := range f.tree {
		if isDir {
			all = append(all, path)
		}
	}
	return all
}

// spareDescriptors leaves the process so many descriptors until back is called.
func spareDescriptors(t *testing.T, count int) (back func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	least, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(least)
	few := was
	few.Cur = uint64(least + count)
	set := func(l unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(few)
	return func() { set(was) }
}

// A directory that cannot be opened for want of descriptors is refused before ready; later
// it is an overflow, and it is watched once there are some.
func TestWatchRunsOutOfDescriptors(t *testing.T) {
	dir, inner := inside(t, "descriptors", tempDir(t), &syscall.SysProcAttr{})
	if !inner {
		return
	}
	for spare := range 4 { // at each of them another step fails, and none at last
		top := fmt.Sprintf("%s/later%d", dir, spare)
		if err := os.Mkdir(top, 0o755); err != nil {
			t.Fatal(err)
		}
		f := follow(t, localfs.New(top), top, files.WatchOptions{Recursive: true})
		back := spareDescriptors(t, spare)
		if err := os.MkdirAll(top+"/new/sub", 0o755); err != nil {
			t.Fatal(err)
		}
		f.await(t, "what has appeared, or an overflow,", func() bool { return f.overflows > 0 || f.tree["new/sub"] })
		back()
		f.wantTold(t, top, "new")
		f.wantTold(t, top, "new/sub")
	}
	top := dir + "/before"
	if err := os.MkdirAll(top+"/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	for spare, watched := 0, false; !watched; spare++ {
		f := &follower{tree: map[string]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		ready, done := make(chan struct{}), make(chan error, 1)
		back := spareDescriptors(t, spare)
		go func() {
			done <- files.Watch(ctx, localfs.New(top), top, files.WatchOptions{Recursive: true}, func() { close(ready) }, f.take)
		}()
		select {
		case err := <-done:
			if spec.CodeOf(err) != spec.CodeUnavailable {
				t.Errorf("with %d descriptors: %v, want %s", spare, err, spec.CodeUnavailable)
			}
			back()
		case <-ready:
			watched = true
			back()
			f.wantTold(t, top, "a")
			f.wantTold(t, top, "a/b")
			cancel()
			<-done
		}
		cancel()
	}
}

// A tree that holds what no call can name when a watch of it begins is an overflow, and all
// else is told.
func TestWatchOfNamesTooLong(t *testing.T) {
	dir := tempDir(t)
	chain := strings.Repeat("/"+strings.Repeat("d", 200), 11)
	for _, top := range []string{"top", "spare"} {
		if err := os.MkdirAll(filepath.Join(dir, top+chain), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(dir+"/spare", dir+"/top"+chain+"/spare"); err != nil {
		t.Fatal(err)
	}
	for _, o := range []files.WatchOptions{{Recursive: true}, {Recursive: true, Exclude: []string{"**/spare/**"}}} {
		f := follow(t, localfs.New(dir), dir+"/top", o)
		f.wantTold(t, dir+"/top", strings.Repeat("d", 200))
		if o.Exclude == nil {
			f.wantOverflow(t, 0)
		} else if n := f.overflowed(); n > 0 {
			t.Errorf("%d overflows for what is left out", n)
		}
	}
}

// A mount that goes away shows what it covered: everything is to be read again, and what
// was covered is watched.
func TestWatchSeesAMountGo(t *testing.T) {
	needRoot(t)
	dir, inner := inside(t, "unmount", tempDir(t), &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
	if !inner {
		return
	}
	privateMounts(t)
	mkdirs(t, dir, 1)
	covered := filepath.Join(dir, "d0")
	mkdirs(t, covered, 1)
	mountTmpfs(t, covered, "")
	f := follow(t, localfs.New(dir), dir, files.WatchOptions{Recursive: true})
	f.wantTold(t, dir, "d0")
	if err := unix.Unmount(covered, 0); err != nil {
		t.Fatal(err)
	}
	f.wantOverflow(t, 0)
	f.wantTold(t, dir, "d0/d0")
}
