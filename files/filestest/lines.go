package filestest

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func linesCases() []Case {
	return []Case{
		{Name: "ReadLines", Rule: "ReadLines returns a window of the lines of a regular file. The last line counts as one whether or not a newline ends it. A window past the end is empty and no error.", Run: readLines},
		{Name: "ReadLinesBounds", Rule: "MaxBytes bounds the text of all lines, MaxLineBytes cuts a longer line; the first line is there in any case.", Run: readLinesBounds},
		{Name: "ReadLinesErrors", Rule: "Every error is a *spec.Error.", Run: readLinesErrors},
		{Name: "ReadHead", Rule: "ReadHead returns the first n bytes of a regular file, or fewer if it has no more.", Run: readHead},
		{Name: "Hash", Rule: "Hash returns the SHA-256 of a regular file as 64 hex digits.", Run: hashRules},
		{Name: "Size", Rule: "Size says of nothing but a regular file that it exists.", Run: sizeRules},
	}
}

// window checks a window of lines, each as "number:text" with a "+" where it is cut.
func (e Env) window(ctx context.Context, t T, name string, o files.LinesOptions, more bool, want ...string) {
	t.Helper()
	got, err := files.ReadLines(ctx, e.FS, e.path(name), o)
	if err != nil {
		t.Errorf("lines %+v of %s: %v", o, name, err)
		return
	}
	var lines []string
	for _, l := range got.Lines {
		line := fmt.Sprintf("%d:%s", l.Number, l.Text)
		if l.Cut {
			line += "+"
		}
		lines = append(lines, line)
	}
	if fmt.Sprint(lines) != fmt.Sprint(want) || got.More != more {
		t.Errorf("lines %+v of %s: %.300q, more %v; want %.300q, more %v", o, name, lines, got.More, want, more)
	}
}

func readLines(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "one\ntwo\n\nfour\r\n\xff\nsix")
	e.write(ctx, t, e.path("ended"), "one\n")
	e.write(ctx, t, e.path("empty"), "")
	e.window(ctx, t, "f", files.LinesOptions{}, false, "1:one", "2:two", "3:", "4:four\r", "5:\xff", "6:six")
	e.window(ctx, t, "f", files.LinesOptions{From: 2, Count: 2}, true, "2:two", "3:")
	e.window(ctx, t, "f", files.LinesOptions{From: 5, Count: 2}, false, "5:\xff", "6:six")
	e.window(ctx, t, "f", files.LinesOptions{From: 6, Count: 1}, false, "6:six")
	e.window(ctx, t, "f", files.LinesOptions{From: 7}, false)
	e.window(ctx, t, "f", files.LinesOptions{From: 1 << 40}, false)
	e.window(ctx, t, "ended", files.LinesOptions{Count: 1}, false, "1:one")
	e.window(ctx, t, "empty", files.LinesOptions{}, false)
	var all strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&all, "line %d\n", i+1)
	}
	e.write(ctx, t, e.path("many"), all.String())
	got, err := files.ReadLines(ctx, e.FS, e.path("many"), files.LinesOptions{})
	if err != nil || len(got.Lines) != files.DefaultLines || !got.More {
		t.Errorf("many lines: %d, more %v, %v", len(got.Lines), got.More, err)
	}
	e.window(ctx, t, "many", files.LinesOptions{From: 2999, Count: 5}, false, "2999:line 2999", "3000:line 3000")
}

func readLinesBounds(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "0123456789\nabcdefghij\nxyz")
	e.window(ctx, t, "f", files.LinesOptions{MaxLineBytes: 4}, false, "1:0123+", "2:abcd+", "3:xyz")
	e.window(ctx, t, "f", files.LinesOptions{MaxLineBytes: 10}, false, "1:0123456789", "2:abcdefghij", "3:xyz")
	e.window(ctx, t, "f", files.LinesOptions{MaxBytes: 3}, true, "1:012+")
	e.window(ctx, t, "f", files.LinesOptions{MaxBytes: 19}, true, "1:0123456789")
	e.window(ctx, t, "f", files.LinesOptions{MaxBytes: 20}, true, "1:0123456789", "2:abcdefghij")
	e.window(ctx, t, "f", files.LinesOptions{MaxBytes: 23}, false, "1:0123456789", "2:abcdefghij", "3:xyz")
	huge := strings.Repeat("z", 3<<20)
	e.write(ctx, t, e.path("huge"), huge+"\nnext")
	e.window(ctx, t, "huge", files.LinesOptions{}, false, "1:"+huge[:files.DefaultLineBytes]+"+", "2:next")
	e.window(ctx, t, "huge", files.LinesOptions{From: 2}, false, "2:next")
	e.write(ctx, t, e.path("one"), huge)
	e.window(ctx, t, "one", files.LinesOptions{MaxLineBytes: 5}, false, "1:zzzzz+")
}

func readLinesErrors(ctx context.Context, t T, e Env) {
	e.mkdir(ctx, t, e.path("d"))
	e.write(ctx, t, e.path("f"), "x")
	for name, want := range map[string]spec.Code{"missing": spec.CodeFileNotFound, "d": spec.CodeIsDirectory, "f/x": spec.CodeNotDirectory} {
		_, err := files.ReadLines(ctx, e.FS, e.path(name), files.LinesOptions{})
		wantCode(t, "lines of "+name, err, want)
	}
	for _, o := range []files.LinesOptions{{From: -1}, {Count: -1}, {MaxBytes: -1}, {MaxLineBytes: -1}} {
		_, err := files.ReadLines(ctx, e.FS, e.path("f"), o)
		wantCode(t, fmt.Sprintf("lines %+v", o), err, spec.CodeInvalid)
	}
}

func readHead(ctx context.Context, t T, e Env) {
	content := noise(100_000, 30)
	e.write(ctx, t, e.path("f"), content)
	for _, n := range []int{0, 1, 4096, 99_999, 100_000, 100_001, 1 << 20} {
		got, err := files.ReadHead(ctx, e.FS, e.path("f"), int64(n))
		if want := content[:min(n, len(content))]; err != nil || string(got) != want {
			t.Errorf("the first %d bytes are %d, %v; want %d", n, len(got), err, len(want))
		}
	}
	_, err := files.ReadHead(ctx, e.FS, e.path("missing"), 0)
	wantCode(t, "the head of what is missing", err, spec.CodeFileNotFound)
	_, err = files.ReadHead(ctx, e.FS, e.Dir, 10)
	wantCode(t, "the head of a directory", err, spec.CodeIsDirectory)
	_, err = files.ReadHead(ctx, e.FS, e.path("f"), -1)
	wantCode(t, "a head of -1 bytes", err, spec.CodeInvalid)
}

func hashRules(ctx context.Context, t T, e Env) {
	for i, size := range []int{0, 1, 300_000, 5 << 20} {
		content := noise(size, uint64(i))
		e.write(ctx, t, e.path("f"), content)
		if got, err := files.Hash(ctx, e.FS, e.path("f")); err != nil || got != sum(content) {
			t.Errorf("the hash of %d bytes is %q, %v; want %q", size, got, err, sum(content))
		}
	}
	_, err := files.Hash(ctx, e.FS, e.path("missing"))
	wantCode(t, "the hash of what is missing", err, spec.CodeFileNotFound)
}

func sizeRules(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "12345")
	if size, ok := files.Size(ctx, e.FS, e.path("f")); size != 5 || !ok {
		t.Errorf("the size of 5 bytes is %d, %v", size, ok)
	}
	for _, name := range []string{e.path("missing"), e.Dir, e.path("f/x"), "", "a\x00"} {
		if size, ok := files.Size(ctx, e.FS, name); size != 0 || ok {
			t.Errorf("%q has size %d, %v", name, size, ok)
		}
	}
}
