package filestest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func grepCases() []Case {
	return []Case{
		{Name: "GrepLines", Rule: "Grep yields the lines of regular files that match.", Run: grepLines},
		{Name: "GrepPattern", Rule: "Literal takes Pattern as plain text; IgnoreCase ignores case. A malformed one is CodeInvalid.", Run: grepPattern},
		{Name: "GrepLimits", Rule: "Limit ends the sequence after so many matching lines, LimitPerFile each file.", Run: grepLimits},
		{Name: "GrepContext", Rule: "Context is how many lines before and after a match are yielded too.", Run: grepContext},
		{Name: "GrepLongLines", Rule: "MaxLineBytes cuts what is yielded of a long line. Of a longer one only the first 1 MiB is searched.", Run: grepLongLines},
		{Name: "GrepBinary", Rule: "Files that cannot be read and binary ones (a NUL in the first 8 KiB) are passed over.", Run: grepBinary},
		{Name: "GrepSpecial", Rule: "Grep yields the lines of regular files.", need: both(needLinks, needFIFO), Run: grepSpecial},
		{Name: "GrepNames", Rule: "Names and contents are bytes.", Run: grepNames},
	}
}

// grepped checks what a search of the case's directory yields, each line as
// "path:number:text", with "-" for the colons of a line of context.
func (e Env) grepped(ctx context.Context, t T, o files.GrepOptions, want ...string) {
	t.Helper()
	if o.Files.Dir == "" {
		o.Files.Dir = e.Dir
	}
	got := []string{}
	for line, err := range files.Grep(ctx, e.FS, o) {
		if err != nil {
			t.Errorf("grep %q: %v", o.Pattern, err)
			return
		}
		sep := ":"
		if !line.Match {
			sep = "-"
		}
		text := string(line.Text)
		if line.Cut {
			text = fmt.Sprintf("%d bytes of more", len(text))
		}
		got = append(got, fmt.Sprintf("%s%s%d%s%s", line.Path, sep, line.Number, sep, text))
	}
	if !slices.Equal(got, want) {
		t.Errorf("grep %q yields\n%q, want\n%q", o.Pattern, got, want)
	}
}

func grepLines(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("a.txt"), "one\ntwo\nthree\n\ntwo again\n")
	e.write(ctx, t, e.path("b/c.txt"), "no\ntwo without an end")
	e.write(ctx, t, e.path("b/c.go"), "two\r\n")
	e.write(ctx, t, e.path("empty"), "")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "two"}, "a.txt:2:two", "a.txt:5:two again", "b/c.go:1:two\r", "b/c.txt:2:two without an end")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "two", Files: files.GlobOptions{Pattern: "**/*.txt", Limit: 1, Types: files.GlobDirs}}, "a.txt:2:two", "a.txt:5:two again", "b/c.txt:2:two without an end")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "two", Files: files.GlobOptions{Dir: e.path("b"), Exclude: []string{"*.go"}}}, "c.txt:2:two without an end")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "^$"}, "a.txt:4:")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "absent"})
	for range files.Grep(ctx, e.FS, files.GrepOptions{Pattern: "", Files: files.GlobOptions{Dir: e.Dir}}) {
		break
	}
}

func grepPattern(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "a.c\nabc\nA.C\nÄ\nfoo(bar)\n\xff\xfe\n")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "a.c"}, "f:1:a.c", "f:2:abc")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "a.c", Literal: true}, "f:1:a.c")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "a.c", Literal: true, IgnoreCase: true}, "f:1:a.c", "f:3:A.C")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "^ä$", IgnoreCase: true}, "f:4:Ä")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "foo(", Literal: true}, "f:5:foo(bar)")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "\xfe", Literal: true}, "f:6:\xff\xfe")
	for _, o := range []files.GrepOptions{{Pattern: "foo("}, {Pattern: "a)(b", IgnoreCase: true}, {Pattern: "x", Limit: -1}, {Pattern: "x", Context: 101}, {Pattern: "x", Files: files.GlobOptions{Pattern: "["}}} {
		o.Files.Dir = e.Dir
		n := 0
		for _, err := range files.Grep(ctx, e.FS, o) {
			n++
			wantCode(t, fmt.Sprintf("grep %+v", o), err, spec.CodeInvalid)
		}
		if n != 1 {
			t.Errorf("grep %+v yields %d times, want one error", o, n)
		}
	}
	for _, err := range files.Grep(ctx, e.FS, files.GrepOptions{Pattern: "x", Files: files.GlobOptions{Dir: e.path("missing")}}) {
		wantCode(t, "grep where nothing is", err, spec.CodeFileNotFound)
	}
}

func grepLimits(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("a"), "x1\nx2\nx3\n")
	e.write(ctx, t, e.path("b"), "x4\ny\nx5\n")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "x", Limit: 2}, "a:1:x1", "a:2:x2")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "x", Limit: 4}, "a:1:x1", "a:2:x2", "a:3:x3", "b:1:x4")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "x", LimitPerFile: 1}, "a:1:x1", "b:1:x4")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "x", LimitPerFile: 2, Limit: 3}, "a:1:x1", "a:2:x2", "b:1:x4")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "x4", Limit: 1, Context: 1}, "b:1:x4", "b-2-y")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "x", LimitPerFile: 1, Context: 1}, "a:1:x1", "a-2-x2", "b:1:x4", "b-2-y")
}

func grepContext(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "1\n2\n3\nx\n5\nx\n7\n8\n9\n10\nx")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "x", Context: 1}, "f-3-3", "f:4:x", "f-5-5", "f:6:x", "f-7-7", "f-10-10", "f:11:x")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "x", Context: 2}, "f-2-2", "f-3-3", "f:4:x", "f-5-5", "f:6:x", "f-7-7", "f-8-8", "f-9-9", "f-10-10", "f:11:x")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "^1$", Context: 100}, "f:1:1", "f-2-2", "f-3-3", "f-4-x", "f-5-5", "f-6-x", "f-7-7", "f-8-8", "f-9-9", "f-10-10", "f-11-x")
}

func grepLongLines(ctx context.Context, t T, e Env) {
	long := strings.Repeat("a", 5000)
	huge := strings.Repeat("b", 1<<20)
	e.write(ctx, t, e.path("f"), long+"x\n"+huge+"x\n"+huge[1:]+"x\nx"+huge+huge+"\nlast x")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "x"}, "f:1:4096 bytes of more", "f:3:4096 bytes of more", "f:4:4096 bytes of more", "f:5:last x")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "x", MaxLineBytes: 3}, "f:1:3 bytes of more", "f:3:3 bytes of more", "f:4:3 bytes of more", "f:5:3 bytes of more")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "a", MaxLineBytes: 5001}, "f:1:"+long+"x", "f:5:last x")
}

func grepBinary(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("binary"), "x\x00\n")
	e.write(ctx, t, e.path("at the end"), strings.Repeat("y", 8191)+"\x00\nx")
	e.write(ctx, t, e.path("beyond"), strings.Repeat("y", 8192)+"\x00\nx")
	e.write(ctx, t, e.path("text"), "x")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "^x"}, "beyond:2:x", "text:1:x")
}

func grepSpecial(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("d/f"), "x")
	e.symlink(ctx, t, "f", e.path("d/link"))
	e.symlink(ctx, t, "d", e.path("dirlink"))
	e.mkfifo(ctx, t, e.path("fifo"))
	_ = promptly(t, "a search where a FIFO is", func() error {
		e.grepped(ctx, t, files.GrepOptions{Pattern: "x"}, "d/f:1:x")
		return nil
	})
}

func grepNames(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("new\nline/\xff"), "x \xff\n")
	e.grepped(ctx, t, files.GrepOptions{Pattern: "x"}, "new\nline/\xff:1:x \xff")
}
