package filestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func batchCases() []Case {
	return []Case{
		{Name: "BulkWriteRoundTrip", Rule: "WriteBatch writes the files that next yields, in their order, and returns how many have landed. Missing parents are made with mode 0755.", Run: bulkRoundTrip},
		{Name: "BulkWriteStopsAtTheFirstFailure", Rule: "The first that fails ends it, those before stay, those after are absent, and the error's Path is its name.", Run: bulkStops},
		{Name: "BulkWriteUnderNonDirectory", Rule: "A batch that needs a directory where something else stands changes no file at all.", Run: bulkUnderNonDirectory},
		{Name: "BulkWriteKeepsTheTargetsMode", Rule: "The mode of a file that is replaced is kept.", Run: bulkKeepsMode},
		{Name: "BulkWriteDeliveredShort", Rule: "A batch that is delivered short, holds a bad name or size changes no file at all. A failed batch leaves no temporary file.", Run: bulkShort},
		{Name: "BulkWriteTwice", Rule: "The later of two files of one name wins.", Run: bulkTwice},
		{Name: "BulkWriteOntoSymlink", Rule: "The rules of Write apply: a link is replaced; a link to a directory counts as a directory.", need: needLinks, Run: bulkOntoSymlink},
		{Name: "BulkWriteSync", Rule: "Sync makes the files durable before WriteBatch returns.", Run: bulkSync},
		{Name: "BulkWriteMany", Rule: "All contents travel in one stream.", Run: bulkMany},
	}
}

// batchFile is a file of a batch with this content.
func batchFile(name, content string) files.BatchFile {
	return files.BatchFile{Name: name, Size: int64(len(content)), Src: strings.NewReader(content)}
}

// seq yields files without an error.
func seq(all ...files.BatchFile) iter.Seq2[files.BatchFile, error] {
	return func(yield func(files.BatchFile, error) bool) {
		for _, f := range all {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// batch writes a batch and checks how many have landed.
func (e Env) batch(ctx context.Context, t T, want int, all ...files.BatchFile) error {
	t.Helper()
	n, err := files.WriteBatch(ctx, e.FS, seq(all...), files.BatchOptions{})
	if n != want {
		t.Errorf("%d files of the batch have landed, want %d", n, want)
	}
	return err
}

func bulkRoundTrip(ctx context.Context, t T, e Env) {
	if err := e.batch(ctx, t, 0); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
	e.write(ctx, t, e.path("d3/f3"), "old content, longer than the new one")
	var all []files.BatchFile
	content := func(i int) string { return noise([]int{0, 1, 100, 1 << 20, 70_000}[i%5], uint64(i)) }
	for i := range 24 {
		all = append(all, batchFile(e.path(fmt.Sprintf("d%d/f%d", i%7, i)), content(i)))
	}
	if err := e.batch(ctx, t, 24, all...); err != nil {
		t.Fatalf("write a batch: %v", err)
	}
	for i, f := range all {
		e.holds(ctx, t, f.Name, content(i))
		if info := e.stat(ctx, t, f.Name); info.Mode != 0o644 {
			t.Errorf("%s has mode %v, want 0644", f.Name, info.Mode)
		}
	}
	for i := range 7 {
		dir := e.path(fmt.Sprintf("d%d", i))
		if info := e.stat(ctx, t, dir); info.Mode != fs.ModeDir|0o755 {
			t.Errorf("%s has mode %v, want a directory 0755", dir, info.Mode)
		}
		e.noResidue(ctx, t, dir)
	}
	e.contains(ctx, t, e.path("d3"), "f3", "f10", "f17")
	f := batchFile(e.path("run"), "#!")
	f.Mode = 0o750
	if err := e.batch(ctx, t, 1, f); err != nil {
		t.Fatalf("write one: %v", err)
	}
	if info := e.stat(ctx, t, f.Name); info.Mode != 0o750 {
		t.Errorf("a new file of mode 0750 has %v", info.Mode)
	}
}

func bulkStops(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("dir/kept"), "kept")
	err := e.batch(ctx, t, 1, batchFile(e.path("first"), "1"), batchFile(e.path("dir"), "2"), batchFile(e.path("third"), "3"))
	wantCode(t, "a batch onto a directory", err, spec.CodeIsDirectory)
	var se *spec.Error
	if errors.As(err, &se) && se.Path != e.path("dir") {
		t.Errorf("the error is about %q, want %q", se.Path, e.path("dir"))
	}
	e.holds(ctx, t, e.path("first"), "1")
	e.holds(ctx, t, e.path("dir/kept"), "kept")
	e.contains(ctx, t, e.Dir, "first", "dir")
}

func bulkUnderNonDirectory(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("file"), "a file")
	e.write(ctx, t, e.path("first"), "old")
	for _, name := range []string{"file/x", "file/x/y"} {
		err := e.batch(ctx, t, 0, batchFile(e.path("first"), "new"), batchFile(e.path(name), noise(300_000, 1)), batchFile(e.path("third"), "3"))
		wantCode(t, "a batch under a file", err, spec.CodeNotDirectory)
	}
	e.holds(ctx, t, e.path("first"), "old")
	e.holds(ctx, t, e.path("file"), "a file")
	e.contains(ctx, t, e.Dir, "first", "file")
}

func bulkKeepsMode(ctx context.Context, t T, e Env) {
	e.writeMode(ctx, t, e.path("run"), "old", files.WriteOptions{Mode: 0o755})
	e.writeMode(ctx, t, e.path("secret"), "old", files.WriteOptions{Mode: 0o600})
	f := batchFile(e.path("secret"), "new")
	f.Mode = 0o777
	if err := e.batch(ctx, t, 2, batchFile(e.path("run"), "new"), f); err != nil {
		t.Fatalf("write a batch: %v", err)
	}
	for name, want := range map[string]fs.FileMode{"run": 0o755, "secret": 0o600} {
		e.holds(ctx, t, e.path(name), "new")
		if info := e.stat(ctx, t, e.path(name)); info.Mode != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode, want)
		}
	}
}

func bulkShort(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("a"), "old")
	broken := errors.New("the caller's list breaks off")
	size := func(n int64) files.BatchFile {
		return files.BatchFile{Name: e.path("b"), Size: n, Src: strings.NewReader("0123456789")}
	}
	for what, bad := range map[string]files.BatchFile{
		"short":             size(11),
		"long":              size(9),
		"without a size":    size(-1),
		"of a failing file": {Name: e.path("b"), Size: 10, Src: io.MultiReader(strings.NewReader("01"), &failing{broken})},
	} {
		err := e.batch(ctx, t, 0, batchFile(e.path("a"), "new"), bad, batchFile(e.path("c"), "new"))
		wantCode(t, "a batch "+what, err, spec.CodeInvalid)
	}
	for _, name := range []string{"", e.path("a\x00b")} {
		wantCode(t, "a batch with a bad name", e.batch(ctx, t, 0, batchFile(e.path("a"), "new"), batchFile(name, "x")), spec.CodeInvalidPath)
	}
	n, err := files.WriteBatch(ctx, e.FS, func(yield func(files.BatchFile, error) bool) {
		if yield(batchFile(e.path("a"), "new"), nil) {
			yield(files.BatchFile{}, broken)
		}
	}, files.BatchOptions{})
	if n != 0 || err == nil {
		t.Errorf("a list that breaks off: %d files, error %v; want none and its error", n, err)
	}
	call, cancel := context.WithCancel(ctx)
	n, err = files.WriteBatch(call, e.FS, func(yield func(files.BatchFile, error) bool) {
		if yield(batchFile(e.path("a"), "new"), nil) {
			cancel()
			yield(batchFile(e.path("d"), "new"), nil)
		}
	}, files.BatchOptions{})
	cancel()
	if n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("a batch that is cancelled: %d files, error %v", n, err)
	}
	e.holds(ctx, t, e.path("a"), "old")
	e.contains(ctx, t, e.Dir, "a")
}

func bulkTwice(ctx context.Context, t T, e Env) {
	if err := e.batch(ctx, t, 3, batchFile(e.path("f"), "first"), batchFile(e.path("g"), "g"), batchFile(e.path("f"), "second")); err != nil {
		t.Fatalf("write a batch: %v", err)
	}
	e.holds(ctx, t, e.path("f"), "second")
	e.contains(ctx, t, e.Dir, "f", "g")
}

func bulkOntoSymlink(ctx context.Context, t T, e Env) {
	e.writeMode(ctx, t, e.path("pointee"), "kept", files.WriteOptions{Mode: 0o600})
	e.mkdir(ctx, t, e.path("dir"))
	e.symlink(ctx, t, "pointee", e.path("link"))
	e.symlink(ctx, t, "nowhere", e.path("dangling"))
	e.symlink(ctx, t, "dir", e.path("dirlink"))
	if err := e.batch(ctx, t, 2, batchFile(e.path("link"), "new"), batchFile(e.path("dangling"), "new")); err != nil {
		t.Fatalf("write a batch: %v", err)
	}
	for _, name := range []string{"link", "dangling"} {
		if info := e.stat(ctx, t, e.path(name)); info.Mode != 0o644 {
			t.Errorf("%s has mode %v, want a regular file 0644", name, info.Mode)
		}
	}
	e.holds(ctx, t, e.path("pointee"), "kept")
	wantCode(t, "a batch onto a link to a directory", e.batch(ctx, t, 0, batchFile(e.path("dirlink"), "x")), spec.CodeIsDirectory)
	e.contains(ctx, t, e.path("dir"))
	e.contains(ctx, t, e.Dir, "pointee", "dir", "link", "dangling", "dirlink")
}

func bulkSync(ctx context.Context, t T, e Env) {
	n, err := files.WriteBatch(ctx, e.FS, seq(batchFile(e.path("d/a"), "a"), batchFile(e.path("b"), "b")), files.BatchOptions{Sync: true})
	if spec.CodeOf(err) == spec.CodeUnsupported {
		e.contains(ctx, t, e.Dir) // an FS may have no way to do it; then it does nothing
		return
	}
	if n != 2 || err != nil {
		t.Errorf("%d files, error %v", n, err)
	}
	e.holds(ctx, t, e.path("d/a"), "a")
}

func bulkMany(ctx context.Context, t T, e Env) {
	count := e.scaled(500, 10_000)
	name := func(i int) string { return e.path(fmt.Sprintf("d%02d/f%05d", i%50, i)) }
	n, err := files.WriteBatch(ctx, e.FS, func(yield func(files.BatchFile, error) bool) {
		for i := range count {
			if !yield(batchFile(name(i), name(i)), nil) {
				return
			}
		}
	}, files.BatchOptions{})
	if n != count || err != nil {
		t.Fatalf("%d files of %d, error %v", n, count, err)
	}
	for i := 0; i < count; i += 97 {
		e.holds(ctx, t, name(i), name(i))
	}
}

// scaled is how much of something a case does.
func (e Env) scaled(usual, soak int) int {
	if e.Soak {
		return soak
	}
	return usual
}
