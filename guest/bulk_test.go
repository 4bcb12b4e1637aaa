//go:build linux

package guest_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/testutil/race"
	"github.com/berth-dev/berth/spec"
)

// peak is the most memory that a process has held.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// noise is an endless source without a period.
func noise(seed uint64) io.Reader { return rand.NewChaCha8([32]byte{byte(seed)}) }

// A hundred megabytes go each way at once, as one file and as a batch, byte for byte,
// and neither side holds more than a few of them.
func TestLargeFilesInFlatMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it moves 300 MB")
	}
	const size, most = 100 << 20, 64 << 20
	pl := newPlace(t)
	fsys := pl.open(nil).Files()
	ctx := context.Background()
	sum := func(r io.Reader) string {
		h := sha256.New()
		if n, err := io.Copy(h, r); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		return fmt.Sprintf("%x", h.Sum(nil))
	}
	want := sum(io.LimitReader(noise(1), size))
	if err := fsys.Write(ctx, "there", io.LimitReader(noise(1), size), size, files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	before := peak(t, os.Getpid())
	var both sync.WaitGroup
	both.Go(func() {
		if err := fsys.Write(ctx, "in", io.LimitReader(noise(1), size), size, files.WriteOptions{}); err != nil {
			t.Errorf("write: %v", err)
		}
	})
	both.Go(func() {
		f, err := fsys.Open(ctx, "there", files.OpenOptions{})
		if err != nil {
			t.Errorf("open: %v", err)
			return
		}
		defer f.Close()
		if got := sum(f); got != want {
			t.Error("what is read differs")
		}
	})
	both.Go(func() {
		n, err := files.WriteBatch(ctx, fsys, func(yield func(files.BatchFile, error) bool) {
			_ = yield(named("small", "x"), nil) && yield(files.BatchFile{Name: "large", Size: size, Src: io.LimitReader(noise(1), size)}, nil) && yield(named("last", "y"), nil)
		}, files.BatchOptions{})
		if n != 3 || err != nil {
			t.Errorf("batch: %d, %v", n, err)
		}
	})
	both.Wait()
	for _, name := range []string{"in", "large"} {
		f, err := os.Open(pl.workdir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := sum(f); got != want {
			t.Errorf("%s: what was written differs", name)
		}
		f.Close()
	}
	if held := peak(t, pl.cmd.Process.Pid); held > most*race.MemoryFactor {
		t.Errorf("the guest held %d MiB", held>>20)
	}
	if grown := peak(t, os.Getpid()) - before; grown > most*race.MemoryFactor {
		t.Errorf("the host has grown by %d MiB", grown>>20)
	}
	_, err := fsys.Open(ctx, "in", files.OpenOptions{MaxBytes: size - 1})
	wantCode(t, err, spec.CodeTooLarge)
	f, err := fsys.Open(ctx, "in", files.OpenOptions{Offset: size - 3, Length: 100, MaxBytes: size})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if tail, err := io.ReadAll(f); err != nil || len(tail) != 3 || f.Info().Size != size {
		t.Errorf("the last bytes: %x, %v", tail, err)
	}
}

// Directories of 50,000 entries are searched and copied, and a search that nobody
// reads on costs neither side memory.
func TestLargeDirectoryInFlatMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 50,000 files")
	}
	const count, most = 50_000, 64 << 20
	pl := newPlace(t)
	fsys := pl.open(nil).Files()
	ctx := context.Background()
	n, err := files.WriteBatch(ctx, fsys, func(yield func(files.BatchFile, error) bool) {
		for i := range count {
			if !yield(files.BatchFile{Name: fmt.Sprintf("d/%050d\xff\n", i)}, nil) {
				return
			}
		}
	}, files.BatchOptions{})
	if n != count || err != nil {
		t.Fatalf("%d files, %v", n, err)
	}
	if n := len(names(t, fsys, files.GlobOptions{Dir: "d", Metadata: true})); n != count {
		t.Errorf("%d matches", n)
	}
	if n := len(names(t, fsys, files.GlobOptions{Dir: "d", Pattern: "*77\xff\n", Limit: 100})); n != 100 {
		t.Errorf("%d matches", n)
	}
	for m, err := range files.Glob(ctx, fsys, files.GlobOptions{Dir: "d"}) {
		if m.Path == "" || err != nil {
			t.Errorf("%+v, %v", m, err)
		}
		break
	}
	listed := 0
	for _, err := range fsys.List(ctx, "d") {
		if err != nil {
			t.Fatal(err)
		}
		listed++
	}
	if listed != count {
		t.Errorf("%d entries", listed)
	}
	if held := peak(t, pl.cmd.Process.Pid); held > most*race.MemoryFactor {
		t.Errorf("the guest held %d MiB", held>>20)
	}
}

func names(t *testing.T, fsys files.FS, o files.GlobOptions) []files.Match {
	t.Helper()
	all, err := collect(files.Glob(t.Context(), fsys, o))
	if err != nil {
		t.Fatal(err)
	}
	return all
}
