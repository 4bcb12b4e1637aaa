package localfs_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs"
	"github.com/berth-dev/berth/spec"
)

// A short file never looks whole, and one that grows gives no more than it had.
func TestFileChangesWhileItIsRead(t *testing.T) {
	dir := tempDir(t)
	fsys := localfs.New(dir)
	open := func(content string) files.File {
		if err := os.WriteFile(dir+"/f", []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := fsys.Open(t.Context(), "f", files.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	for _, to := range []int64{0, 3, 99_999} {
		f := open(strings.Repeat("x", 100_000))
		if err := os.Truncate(dir+"/f", to); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		wantCode(t, fmt.Sprintf("read a file that shrank to %d", to), err, spec.CodeUnavailable)
		if int64(len(got)) != to {
			t.Errorf("a file that shrank to %d bytes gives %d", to, len(got))
		}
	}
	f := open("before")
	if err := os.WriteFile(dir+"/f", []byte("before and after"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || string(got) != "before" {
		t.Errorf("a file that grew gives %q, %v", got, err)
	}
}

// A file that the kernel makes up has the size that it turns out to have, and one
// that would have to be waited for is no regular file.
func TestKernelFiles(t *testing.T) {
	fsys := localfs.New("/")
	for _, name := range []string{"/proc/self/status", "/proc/meminfo", "/sys/kernel/mm/transparent_hugepage/enabled"} {
		want, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		f, err := fsys.Open(t.Context(), name, files.OpenOptions{})
		if err != nil {
			t.Errorf("open %s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(f)
		if err != nil || len(got) == 0 || int64(len(got)) != f.Info().Size {
			t.Errorf("%s: %d bytes, Info says %d, error %v; cat gives %d", name, len(got), f.Info().Size, err, len(want))
		}
		_ = f.Close()
		_, err = fsys.Open(t.Context(), name, files.OpenOptions{MaxBytes: 3})
		wantCode(t, "a limit on "+name, err, spec.CodeTooLarge)
	}
	began := time.Now()
	for range 3 { // the first looks may find old messages
		f, err := fsys.Open(t.Context(), "/proc/kmsg", files.OpenOptions{})
		if err == nil {
			_ = f.Close()
		}
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("opening a kernel file that waits took %v", d)
	}
}

// A directory of 100,000 entries costs no memory that grows with it.
func TestListIsBounded(t *testing.T) {
	entries := 100_000
	if testing.Short() {
		entries = 20_000
	}
	dir := tempDir(t)
	for i := range entries {
		fd, err := unix.Open(fmt.Sprintf("%s/%06d", dir, i), unix.O_CREAT|unix.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, most, n := heap(), int64(0), 0
	for _, err := range localfs.New(dir).List(t.Context(), ".") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%20_000 == 0 {
			most = max(most, heap()-before)
		}
	}
	if n != entries {
		t.Errorf("%d entries, want %d", n, entries)
	}
	if most > 4<<20 {
		t.Errorf("listing holds %d bytes", most)
	}
}

// Entries that vanish while a directory is listed are left out, and are no error.
func TestListWhileEntriesVanish(t *testing.T) {
	dir := tempDir(t)
	const entries = 3000
	for i := range entries {
		if err := os.Symlink("x", fmt.Sprintf("%s/%d", dir, i)); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range entries {
			_ = os.Remove(fmt.Sprintf("%s/%d", dir, i))
		}
	})
	for range 20 {
		for _, err := range localfs.New(dir).List(t.Context(), ".") {
			if err != nil {
				t.Errorf("list: %v", err)
			}
		}
	}
	wg.Wait()
}

// Whoever swaps directories for links while a tree is removed does not make Remove
// leave the tree.
func TestRemoveWhileDirectoriesBecomeLinks(t *testing.T) {
	dir := tempDir(t)
	fsys := localfs.New(dir)
	const canaries = 50
	for i := range canaries {
		if err := writeString(t, fsys, fmt.Sprintf("outside/%d", i), "canary", files.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, dir+"/tree/a", unix.AT_FDCWD, dir+"/tree/b", unix.RENAME_EXCHANGE)
			}
		}
	})
	end := time.Now().Add(2 * time.Second)
	for round := 0; time.Now().Before(end); round++ {
		for i := range 5 {
			_ = writeString(t, fsys, fmt.Sprintf("tree/a/%d/x", i), "x", files.WriteOptions{})
		}
		_ = os.Symlink(dir+"/outside", dir+"/tree/b")
		// It may well fail when what was a directory is a link a moment later.
		_ = fsys.Remove(t.Context(), "tree", files.RemoveOptions{Recursive: true})
	}
	close(done)
	wg.Wait()
	_ = fsys.Remove(t.Context(), "tree", files.RemoveOptions{Recursive: true})
	if got := len(names(t, dir+"/outside")); got < canaries {
		t.Errorf("%d of %d files outside the tree are left", got, canaries)
	}
}
