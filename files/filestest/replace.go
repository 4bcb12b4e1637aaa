package filestest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func replaceCases() []Case {
	return []Case{
		{Name: "WriteOntoDirectory", Rule: "CodeIsDirectory: a directory where a file was asked for.", Run: writeOntoDirectory},
		{Name: "WriteModes", Rule: "Mode is the mode of a file that is new, 0 meaning 0644, whatever the umask. A regular file that is replaced keeps its mode unless SetMode. Only the nine permission bits are used.", Run: writeModes},
		{Name: "WriteExclusive", Rule: "Exclusive refuses an existing name with CodeExists, atomically.", Run: writeExclusive},
		{Name: "WriteExclusiveRace", Rule: "Exclusive refuses an existing name with CodeExists, atomically.", Run: writeExclusiveRace},
		{Name: "WriteIsAtomic", Rule: "A reader of a file that Write replaces sees the old bytes or the new ones, never a mixture.", Run: writeIsAtomic},
		{Name: "WriteParentsRace", Rule: "An FS is safe for concurrent use.", Run: writeParentsRace},
	}
}

func writeOntoDirectory(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("d/inner"), "kept")
	e.mkdir(ctx, t, e.path("empty"))
	for _, name := range []string{e.path("d"), e.path("d/"), e.path("d/."), e.path("d/inner/.."), e.path("empty"), "/"} {
		err := e.writeString(ctx, name, "x", files.WriteOptions{})
		if name == e.path("d/inner/..") {
			wantCode(t, "write "+name, err, spec.CodeNotDirectory)
			continue
		}
		wantCode(t, "write "+name, err, spec.CodeIsDirectory)
		wantCode(t, "write 256 KiB to "+name, e.writeString(ctx, name, noise(256<<10, 11), files.WriteOptions{}), spec.CodeIsDirectory)
	}
	wantCode(t, "write a new name with a slash behind it", e.writeString(ctx, e.path("new/"), "x", files.WriteOptions{}), spec.CodeIsDirectory)
	wantCode(t, "write a file with a slash behind it", e.writeString(ctx, e.path("d/inner/"), "x", files.WriteOptions{}), spec.CodeNotDirectory)
	e.holds(ctx, t, e.path("d/inner"), "kept")
	e.contains(ctx, t, e.path("d"), "inner")
	e.contains(ctx, t, e.path("empty"))
	e.contains(ctx, t, e.Dir, "d", "empty")
}

func writeModes(ctx context.Context, t T, e Env) {
	steps := []struct {
		name string
		o    files.WriteOptions
		want fs.FileMode
	}{
		{"new", files.WriteOptions{}, 0o644},
		{"new", files.WriteOptions{Mode: 0o755}, 0o644},
		{"new", files.WriteOptions{Mode: 0o755, SetMode: true}, 0o755},
		{"new", files.WriteOptions{}, 0o755},
		{"new", files.WriteOptions{Sync: true}, 0o755},
		{"new", files.WriteOptions{SetMode: true}, 0o644},
		{"open", files.WriteOptions{Mode: 0o666}, 0o666},
		{"shut", files.WriteOptions{Mode: 0o400}, 0o400},
		{"shut", files.WriteOptions{}, 0o400},
		{"bits", files.WriteOptions{Mode: fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky | 0o711}, 0o711},
		{"type", files.WriteOptions{Mode: fs.ModeDir | 0o700}, 0o700},
	}
	for i, s := range steps {
		e.writeMode(ctx, t, e.path(s.name), fmt.Sprint(i), s.o)
		if got := e.stat(ctx, t, e.path(s.name)).Mode; got != s.want {
			t.Errorf("step %d, %s with %+v: mode %v, want %v", i, s.name, s.o, got, s.want)
		}
	}
}

func writeExclusive(ctx context.Context, t T, e Env) {
	o := files.WriteOptions{Exclusive: true}
	e.writeMode(ctx, t, e.path("f"), "first", o)
	e.mkdir(ctx, t, e.path("d"))
	for _, name := range []string{"f", "d"} {
		err := e.writeString(ctx, e.path(name), "second", o)
		wantCode(t, "write "+name, err, spec.CodeExists)
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("%v is not fs.ErrExist", err)
		}
	}
	e.holds(ctx, t, e.path("f"), "first")
	e.contains(ctx, t, e.Dir, "f", "d")
}

func writeExclusiveRace(ctx context.Context, t T, e Env) {
	const writers, rounds = 8, 10
	for round := range rounds {
		name := e.path(fmt.Sprintf("f%d", round))
		errs := make([]error, writers)
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				errs[i] = e.writeString(ctx, name, fmt.Sprintf("writer %d", i), files.WriteOptions{Exclusive: true})
			})
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Errorf("round %d: writers %d and %d have both won", round, winner, i)
			case err == nil:
				winner = i
			default:
				wantCode(t, "a loser", err, spec.CodeExists)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody has won", round)
		}
		e.holds(ctx, t, name, fmt.Sprintf("writer %d", winner))
		if err := e.FS.Remove(ctx, name, files.RemoveOptions{}); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	e.contains(ctx, t, e.Dir)
}

// writeIsAtomic lets readers look while a file is replaced by others of one letter
// each, and of a length that goes with the letter.
func writeIsAtomic(ctx context.Context, t T, e Env) {
	content := func(i int) string { return strings.Repeat(string(rune('a'+i)), 100_000+i*10_000) }
	e.write(ctx, t, e.path("f"), content(0))
	replacements := e.scaled(30, 1000)
	done := make(chan struct{})
	var readers sync.WaitGroup
	var reads atomic.Int64
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := files.ReadFile(ctx, e.FS, e.path("f"), 0)
				if err != nil {
					t.Errorf("read while the file is replaced: %v", err)
					return
				}
				if len(got) == 0 || string(got) != content(int(got[0]-'a')) {
					t.Errorf("a reader saw %d bytes that nobody wrote", len(got))
					return
				}
				reads.Add(1)
			}
		})
	}
	began := time.Now()
	for i := range replacements {
		if err := e.writeString(ctx, e.path("f"), content(i%5), files.WriteOptions{}); err != nil {
			t.Errorf("replacement %d: %v", i, err)
			break
		}
	}
	took := time.Since(began)
	close(done)
	readers.Wait()
	t.Logf("%d replacements in %v, %d reads meanwhile", replacements, took, reads.Load())
	e.contains(ctx, t, e.Dir, "f")
}

func writeParentsRace(ctx context.Context, t T, e Env) {
	const writers = 8
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			name := e.path(fmt.Sprintf("a/b/c/d/f%d", i))
			if err := e.writeString(ctx, name, name, files.WriteOptions{}); err != nil {
				t.Errorf("write: %v", err)
			}
		})
	}
	wg.Wait()
	for i := range writers {
		name := e.path(fmt.Sprintf("a/b/c/d/f%d", i))
		e.holds(ctx, t, name, name)
	}
	for _, dir := range []string{"a", "a/b", "a/b/c", "a/b/c/d"} {
		if info := e.stat(ctx, t, e.path(dir)); info.Mode.Perm() != 0o755 {
			t.Errorf("%s has mode %v, want 0755", dir, info.Mode)
		}
	}
}
