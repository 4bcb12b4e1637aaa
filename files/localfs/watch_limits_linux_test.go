package localfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
// later it is an overflow, and what is watched goes on.
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
