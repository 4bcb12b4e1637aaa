package filestest

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func writeCases() []Case {
	return []Case{
		{Name: "RoundTripCreatesParents", Rule: "Write makes name a regular file with exactly the bytes of src; missing parents are made (mode 0755).", Run: roundTripCreatesParents},
		{Name: "RoundTripLarge", Rule: "The contract is byte-exact and bounded in its memory.", Run: roundTripLarge},
		{Name: "WriteSizeIsExact", Rule: "A source that delivers fewer or more bytes than size fails the write with CodeInvalid.", Run: writeSizeIsExact},
		{Name: "WriteAnySize", Rule: "AnySize reads src to its end whatever size says.", Run: writeAnySize},
		{Name: "WriteNegativeSize", Rule: "A negative size is refused before src is read and before any directory is made.", Run: writeNegativeSize},
		{Name: "WriteNoSource", Rule: "Write makes name a regular file with exactly the bytes of src (nil: none).", Run: writeNoSource},
		{Name: "WriteBrokenSource", Rule: "Write makes name a file with exactly the bytes of src, or leaves it as it was.", Run: writeBrokenSource},
		{Name: "WriteCancelled", Rule: "A Write that had not been renamed into place leaves the target and no temporary file.", Run: writeCancelled},
		{Name: "WriteUnderNonDirectory", Rule: "CodeNotDirectory: a file stands where a directory is needed, at any distance.", Run: writeUnderNonDirectory},
		{Name: "WriteNoParents", Rule: "NoParents refuses a missing parent with CodeFileNotFound instead of making it.", Run: writeNoParents},
		{Name: "WriteSync", Rule: "Sync makes the write durable before it returns: file and directory.", Run: writeSync},
	}
}

func roundTripCreatesParents(ctx context.Context, t T, e Env) {
	name := e.path("a/b/c/file")
	for _, content := range []string{"\x00\x01\xfe\xff\r\n\x00", "short", "", "x"} {
		e.write(ctx, t, name, content)
		e.holds(ctx, t, name, content)
	}
	e.write(ctx, t, e.path("empty"), "")
	if info := e.stat(ctx, t, e.path("empty")); info.Size != 0 || !info.IsRegular() {
		t.Errorf("an empty file is described as %+v", info)
	}
	for _, dir := range []string{"a", "a/b", "a/b/c"} {
		if info := e.stat(ctx, t, e.path(dir)); info.Mode.Perm() != 0o755 || !info.IsDir() {
			t.Errorf("the parent %s has mode %v, want a directory with 0755", dir, info.Mode)
		}
	}
	e.contains(ctx, t, e.path("a/b/c"), "file")
}

func roundTripLarge(ctx context.Context, t T, e Env) {
	for i, size := range []int{1, 4095, 64 << 10, 128<<10 - 1, 128 << 10, 128<<10 + 1, 1 << 20, 9 << 20} {
		content := noise(size, uint64(i))
		e.write(ctx, t, e.path("f"), content)
		if got := e.read(ctx, t, e.path("f"), files.OpenOptions{}); got != content {
			t.Errorf("%d bytes come back differently: %d bytes", size, len(got))
		}
	}
}

func writeNoSource(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "old")
	wantCode(t, "write 3 bytes of nothing", e.FS.Write(ctx, e.path("f"), nil, 3, files.WriteOptions{}), spec.CodeInvalid)
	e.holds(ctx, t, e.path("f"), "old")
	for _, o := range []files.WriteOptions{{}, {AnySize: true}} {
		e.write(ctx, t, e.path("f"), "old")
		if err := e.FS.Write(ctx, e.path("f"), nil, 0, o); err != nil {
			t.Errorf("write nothing: %v", err)
		}
		e.holds(ctx, t, e.path("f"), "")
	}
}

func writeSizeIsExact(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("old"), "old content")
	for _, large := range []int{0, 300_000} {
		content := noise(large, 6) + "0123456789"
		for _, off := range []int64{-1, -10, 1, 1 << 40} {
			for _, name := range []string{"old", "new"} {
				err := e.FS.Write(ctx, e.path(name), strings.NewReader(content), int64(len(content))+off, files.WriteOptions{})
				wantCode(t, "a source that differs from its size", err, spec.CodeInvalid)
			}
		}
	}
	e.holds(ctx, t, e.path("old"), "old content")
	e.contains(ctx, t, e.Dir, "old")
}

func writeAnySize(ctx context.Context, t T, e Env) {
	content := noise(200_000, 7)
	for _, size := range []int64{-1, 0, 5, 1 << 40} {
		err := e.FS.Write(ctx, e.path("f"), io.LimitReader(strings.NewReader(content), 200_000), size, files.WriteOptions{AnySize: true})
		if err != nil {
			t.Fatalf("write with AnySize and size %d: %v", size, err)
		}
		e.holds(ctx, t, e.path("f"), content)
	}
}

// untouched is a source that must not be read.
type untouched struct{ read bool }

func (u *untouched) Read([]byte) (int, error) {
	u.read = true
	return 0, io.EOF
}

func writeNegativeSize(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "kept")
	for _, name := range []string{"f", "new/parent/f"} {
		src := &untouched{}
		wantCode(t, "a size of -1", e.FS.Write(ctx, e.path(name), src, -1, files.WriteOptions{}), spec.CodeInvalid)
		if src.read {
			t.Errorf("the source was read")
		}
	}
	e.holds(ctx, t, e.path("f"), "kept")
	e.contains(ctx, t, e.Dir, "f")
}

func writeBrokenSource(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("old"), "kept")
	broken := errors.New("the disk of the source is on fire")
	for _, n := range []int{0, 10, 400_000} {
		for _, name := range []string{"old", "new"} {
			src := io.MultiReader(strings.NewReader(noise(n, 8)), &failing{broken})
			err := e.FS.Write(ctx, e.path(name), src, 500_000, files.WriteOptions{})
			if err == nil {
				t.Errorf("a source that fails after %d bytes: no error", n)
			}
		}
	}
	e.holds(ctx, t, e.path("old"), "kept")
	e.contains(ctx, t, e.Dir, "old")
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// writeCancelled cancels a write whose source gives some bytes and then blocks.
func writeCancelled(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("old"), "kept")
	for _, name := range []string{"old", "new"} {
		r, w := io.Pipe()
		call, cancel := context.WithCancel(ctx)
		go func() {
			_, _ = w.Write([]byte(noise(1<<20, 9)))
			cancel()
		}()
		began := time.Now()
		err := e.FS.Write(call, e.path(name), r, 2<<20, files.WriteOptions{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a write cancelled in its middle: %v", err)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("a cancelled write came back after %v", d)
		}
		_ = r.Close() // lets go of whoever still reads or writes
		cancel()
	}
	e.contains(ctx, t, e.Dir, "old")
	e.holds(ctx, t, e.path("old"), "kept")
}

func writeUnderNonDirectory(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("file"), "a file")
	for _, name := range []string{e.path("file/x"), e.path("file/x/y"), e.path("file/x/y/z")} {
		wantCode(t, "write "+name, e.writeString(ctx, name, "small", files.WriteOptions{}), spec.CodeNotDirectory)
		wantCode(t, "write 256 KiB to "+name, e.writeString(ctx, name, noise(256<<10, 10), files.WriteOptions{}), spec.CodeNotDirectory)
		wantCode(t, "open "+name, e.open(ctx, name, files.OpenOptions{}), spec.CodeNotDirectory)
		_, err := e.FS.Stat(ctx, name, files.StatOptions{})
		wantCode(t, "stat "+name, err, spec.CodeNotDirectory)
		_, err = files.ReadDir(ctx, e.FS, name, 0)
		wantCode(t, "list "+name, err, spec.CodeNotDirectory)
		wantCode(t, "mkdir "+name, e.FS.Mkdir(ctx, name, files.MkdirOptions{}), spec.CodeNotDirectory)
		wantCode(t, "mkdir with parents "+name, e.FS.Mkdir(ctx, name, files.MkdirOptions{Parents: true}), spec.CodeNotDirectory)
		wantCode(t, "remove "+name, e.FS.Remove(ctx, name, files.RemoveOptions{}), spec.CodeNotDirectory)
	}
	e.holds(ctx, t, e.path("file"), "a file")
	e.contains(ctx, t, e.Dir, "file")
}

func writeNoParents(ctx context.Context, t T, e Env) {
	o := files.WriteOptions{NoParents: true}
	wantCode(t, "write below a missing directory", e.writeString(ctx, e.path("missing/f"), "x", o), spec.CodeFileNotFound)
	e.contains(ctx, t, e.Dir)
	e.writeMode(ctx, t, e.path("f"), "x", o)
	e.holds(ctx, t, e.path("f"), "x")
}

func writeSync(ctx context.Context, t T, e Env) {
	for _, content := range []string{"first", "second", ""} {
		e.writeMode(ctx, t, e.path("new/dir/f"), content, files.WriteOptions{Sync: true})
		e.holds(ctx, t, e.path("new/dir/f"), content)
	}
	e.contains(ctx, t, e.path("new/dir"), "f")
}
