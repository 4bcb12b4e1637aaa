package filestest

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func readCases() []Case {
	return []Case{
		{Name: "ReadAtTheCap", Rule: "A larger file is CodeTooLarge, never cut.", Run: readAtTheCap},
		{Name: "ReadOverTheCap", Rule: "MaxBytes refuses a file that is larger, with CodeTooLarge, before any byte travels.", Run: readOverTheCap},
		{Name: "ReadRange", Rule: "Offset: first byte; past the end reads nothing. Length: at most so many bytes; 0: to the end.", Run: readRange},
		{Name: "ReadMissing", Rule: "CodeFileNotFound: missing.", Run: readMissing},
		{Name: "ReadDirectory", Rule: "Open opens a regular file for reading.", Run: readDirectory},
		{Name: "ReadOpenedStaysWhole", Rule: "A reader of a file that Write replaces sees the old bytes or the new ones, never a mixture.", Run: readOpenedStaysWhole},
		{Name: "ReadInfo", Rule: "Info describes the file as it was when it was opened.", Run: readInfo},
		{Name: "CancelledContext", Rule: "A cancelled ctx ends the call with the context's error.", Run: cancelledContext},
	}
}

func readAtTheCap(ctx context.Context, t T, e Env) {
	content := noise(files.DefaultReadLimit, 1)
	e.write(ctx, t, e.path("cap"), content)
	got, err := files.ReadFile(ctx, e.FS, e.path("cap"), 0)
	if err != nil {
		t.Fatalf("read a file of exactly the limit: %v", err)
	}
	if string(got) != content {
		t.Errorf("a file of exactly the limit reads differently: %d bytes", len(got))
	}
	e.write(ctx, t, e.path("over"), content+"x")
	_, err = files.ReadFile(ctx, e.FS, e.path("over"), 0)
	wantCode(t, "read a file of one byte more", err, spec.CodeTooLarge)
}

func readOverTheCap(ctx context.Context, t T, e Env) {
	const size = 5 << 20
	content := noise(size, 2)
	e.write(ctx, t, e.path("f"), content)
	wantCode(t, "open with a smaller limit", e.open(ctx, e.path("f"), files.OpenOptions{MaxBytes: size - 1}), spec.CodeTooLarge)
	wantCode(t, "open a range with a smaller limit", e.open(ctx, e.path("f"), files.OpenOptions{MaxBytes: 10, Offset: 5, Length: 3}), spec.CodeTooLarge)
	if got := e.read(ctx, t, e.path("f"), files.OpenOptions{MaxBytes: size}); got != content {
		t.Errorf("a stream of %d bytes reads differently: %d bytes", size, len(got))
	}
	if got := e.read(ctx, t, e.path("f"), files.OpenOptions{}); got != content {
		t.Errorf("a stream without a limit reads differently: %d bytes", len(got))
	}
}

func readRange(ctx context.Context, t T, e Env) {
	content := noise(300_000, 3)
	e.write(ctx, t, e.path("f"), content)
	size := int64(len(content))
	for _, r := range []struct{ offset, length, from, to int64 }{
		{0, 0, 0, size},
		{0, 10, 0, 10},
		{299_990, 0, 299_990, size},
		{100, 200_000, 100, 200_100},
		{299_990, 1000, 299_990, size},
		{size, 0, size, size},
		{size + 5, 7, size, size},
		{1 << 62, 1 << 62, size, size},
		{5, 1<<63 - 1, 5, size},
	} {
		got := e.read(ctx, t, e.path("f"), files.OpenOptions{Offset: r.offset, Length: r.length})
		if got != content[r.from:r.to] {
			t.Errorf("offset %d length %d: %d bytes, want [%d:%d]", r.offset, r.length, len(got), r.from, r.to)
		}
	}
	wantCode(t, "a negative offset", e.open(ctx, e.path("f"), files.OpenOptions{Offset: -1}), spec.CodeInvalid)
	wantCode(t, "a negative length", e.open(ctx, e.path("f"), files.OpenOptions{Length: -1}), spec.CodeInvalid)
}

func readMissing(ctx context.Context, t T, e Env) {
	for _, name := range []string{e.path("missing"), e.path("missing/below/it")} {
		err := e.open(ctx, name, files.OpenOptions{})
		wantCode(t, "open "+name, err, spec.CodeFileNotFound)
		if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, spec.ErrFileNotFound) {
			t.Errorf("open %q: %v is neither fs.ErrNotExist nor spec.ErrFileNotFound", name, err)
		}
		var se *spec.Error
		if errors.As(err, &se) && se.Path != name {
			t.Errorf("the error names %q, want the name as given, %q", se.Path, name)
		}
		_, err = e.FS.Stat(ctx, name, files.StatOptions{})
		wantCode(t, "stat "+name, err, spec.CodeFileNotFound)
		_, err = files.ReadDir(ctx, e.FS, name, 0)
		wantCode(t, "list "+name, err, spec.CodeFileNotFound)
		wantCode(t, "remove "+name, e.FS.Remove(ctx, name, files.RemoveOptions{Recursive: true}), spec.CodeFileNotFound)
		wantCode(t, "rename "+name, e.FS.Rename(ctx, name, e.path("other"), files.RenameOptions{}), spec.CodeFileNotFound)
	}
	e.contains(ctx, t, e.Dir)
}

func readDirectory(ctx context.Context, t T, e Env) {
	e.mkdir(ctx, t, e.path("d"))
	for _, name := range []string{e.path("d"), e.path("d/"), e.path("d/."), "/"} {
		wantCode(t, "open "+name, e.open(ctx, name, files.OpenOptions{}), spec.CodeIsDirectory)
	}
	e.write(ctx, t, e.path("f"), "f")
	wantCode(t, "open a file with a slash behind it", e.open(ctx, e.path("f/"), files.OpenOptions{}), spec.CodeNotDirectory)
}

func readOpenedStaysWhole(ctx context.Context, t T, e Env) {
	before, after := noise(1<<20, 4), noise(700_000, 5)
	e.write(ctx, t, e.path("f"), before)
	f, err := e.FS.Open(ctx, e.path("f"), files.OpenOptions{})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer f.Close()
	head := make([]byte, 1000)
	if _, err := io.ReadFull(f, head); err != nil {
		t.Fatalf("read the first bytes: %v", err)
	}
	e.write(ctx, t, e.path("f"), after)
	rest, err := io.ReadAll(f)
	if err != nil {
		t.Fatalf("read the rest: %v", err)
	}
	if string(head)+string(rest) != before {
		t.Errorf("a file that was replaced while it was read gives other bytes than the old ones")
	}
	e.holds(ctx, t, e.path("f"), after)
}

func readInfo(ctx context.Context, t T, e Env) {
	e.writeMode(ctx, t, e.path("f"), "12345", files.WriteOptions{Mode: 0o640})
	f, err := e.FS.Open(ctx, e.path("f"), files.OpenOptions{Offset: 2, Length: 1})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer f.Close()
	stated := e.stat(ctx, t, e.path("f"))
	for source, info := range map[string]files.Info{"open": f.Info(), "stat": stated} {
		if info.Name != "f" || info.Size != 5 || info.Mode != 0o640 || !info.IsRegular() || info.IsDir() || info.Target != "" || info.Links != 1 {
			t.Errorf("%s: %+v, want f with 5 bytes, mode 0640, one link", source, info)
		}
		if info.ModTime.IsZero() || info.ModTime.Unix() <= 0 {
			t.Errorf("%s: no modification time", source)
		}
	}
	if dir := e.stat(ctx, t, e.Dir); !dir.IsDir() || dir.IsRegular() {
		t.Errorf("the directory is described as %+v", dir)
	}
}

func cancelledContext(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "kept")
	e.mkdir(ctx, t, e.path("d"))
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, statErr := e.FS.Stat(gone, e.path("f"), files.StatOptions{})
	_, listErr := files.ReadDir(gone, e.FS, e.Dir, 0)
	for what, err := range map[string]error{
		"open":   e.open(gone, e.path("f"), files.OpenOptions{}),
		"write":  e.writeString(gone, e.path("f"), "new", files.WriteOptions{}),
		"stat":   statErr,
		"list":   listErr,
		"mkdir":  e.FS.Mkdir(gone, e.path("new"), files.MkdirOptions{}),
		"remove": e.FS.Remove(gone, e.path("f"), files.RemoveOptions{}),
		"rename": e.FS.Rename(gone, e.path("f"), e.path("g"), files.RenameOptions{}),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context: %v", what, err)
		}
	}
	e.holds(ctx, t, e.path("f"), "kept")
	e.contains(ctx, t, e.Dir, "f", "d")
}
