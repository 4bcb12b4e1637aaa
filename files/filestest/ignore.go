package filestest

import (
	"context"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func ignoreCases() []Case {
	return []Case{
		{Name: "GitignoreNested", Rule: "Gitignore leaves out what git would ignore: the last match wins, the .gitignore of each directory counts, and nothing below an ignored directory comes back.", Run: ignoreNested},
		{Name: "GitignoreAbove", Rule: "The .gitignore of each directory from the top of the work tree that Dir lies in.", Run: ignoreAbove},
		{Name: "GitignoreExclude", Rule: ".git/info/exclude counts. Entries named .git are left out.", Run: ignoreExclude},
		{Name: "GitignoreNames", Rule: "Names are bytes; Gitignore goes by git's own rules.", Run: ignoreNames},
		{Name: "GitignoreOdd", Rule: "A .gitignore that git would not read says nothing.", need: both(needLinks, needFIFO), Run: ignoreOdd},
		{Name: "GitignoreTooLarge", Rule: "Nothing is cut silently: a .gitignore over 1 MiB is CodeTooLarge.", Run: ignoreTooLarge},
		{Name: "GitignoreTooMuch", Rule: "So is one that takes, with those above it, more memory than 64 MiB.", Run: ignoreTooMuch},
	}
}

var ignoring = files.GlobOptions{Gitignore: true, Types: files.GlobFiles}

func ignoreNested(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "a.log", "keep.log", "build/x", "build/keep", "src/a.go", "src/a.log", "src/gen/a.go", "src/gen/keep.go", "src/top", "top", "dist/a", "dist/b")
	e.write(ctx, t, e.path(".gitignore"), "# comment\n*.log\n!keep.log\nbuild/\n/top\ndist/*\n!dist/b\n")
	e.write(ctx, t, e.path("build/.gitignore"), "!*\n")
	e.write(ctx, t, e.path("src/.gitignore"), "!a.log\ngen/*\n!gen/keep.go\n")
	e.finds(ctx, t, ignoring, ".gitignore", "dist/b", "keep.log", "src/.gitignore", "src/a.go", "src/a.log", "src/gen/keep.go", "src/top")
	with := ignoring
	with.Pattern, with.Exclude = "src/gen/*", []string{"**/*.log"}
	e.finds(ctx, t, with, "src/gen/keep.go")
	with.Pattern, with.Exclude = "build/x", nil
	e.finds(ctx, t, with)
}

func ignoreAbove(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, ".git/HEAD", "a.log", "sub/a.log", "sub/b.log", "sub/deep/a.log", "sub/deep/c", "out/deep/x")
	e.write(ctx, t, e.path(".gitignore"), "*.log\n/sub/deep/c\nout/\n")
	e.write(ctx, t, e.path("sub/.gitignore"), "!b.log\n")
	e.finds(ctx, t, ignoring, ".gitignore", "sub/.gitignore", "sub/b.log")
	at := ignoring
	at.Dir = e.path("sub")
	e.finds(ctx, t, at, ".gitignore", "b.log")
	at.Dir = e.path("sub/deep")
	e.finds(ctx, t, at)
	at.Dir = e.path("out/deep")
	e.finds(ctx, t, at)
	at.Gitignore = false
	e.finds(ctx, t, at, "x")
}

func ignoreExclude(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, ".git/HEAD", ".git/config", "sub/.git/x", "a", "b", "sub/a", "sub/b")
	e.write(ctx, t, e.path(".git/info/exclude"), "/a\nb\n")
	e.write(ctx, t, e.path("sub/.gitignore"), "!b\n")
	e.finds(ctx, t, ignoring, "sub/.gitignore", "sub/a", "sub/b")
	at := ignoring
	at.Dir = e.path("sub")
	e.finds(ctx, t, at, ".gitignore", "a", "b")
	at.Dir = e.path(".git")
	e.finds(ctx, t, at)
}

func ignoreNames(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "\xff", "\xfe", "é", "new\nline", "trail ", "trail", "#hash", "!bang", "cr", "A", "a")
	e.write(ctx, t, e.path(".gitignore"), "\xff\ntrail\\ \n\\#hash\n\\!bang\ncr\r\nA\n??\n")
	e.finds(ctx, t, ignoring, ".gitignore", "a", "new\nline", "trail", "\xfe")
}

func ignoreOdd(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("patterns"), "f\n")
	e.writeAll(ctx, t, "link/f", "fifo/f", "dir/f", "dir/.gitignore/f")
	e.symlink(ctx, t, "../patterns", e.path("link/.gitignore"))
	e.mkfifo(ctx, t, e.path("fifo/.gitignore"))
	_ = promptly(t, "a glob with a FIFO for a .gitignore", func() error {
		e.finds(ctx, t, ignoring, "dir/.gitignore/f", "dir/f", "fifo/f", "link/f", "patterns")
		return nil
	})
}

func ignoreTooLarge(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path(".gitignore"), strings.Repeat("# nothing\n", 110_000))
	o := ignoring
	o.Dir = e.Dir
	e.globFails(ctx, t, o, spec.CodeTooLarge)
}

func ignoreTooMuch(ctx context.Context, t T, e Env) {
	patterns := strings.Repeat("[a]\n", 1<<18)
	e.write(ctx, t, e.path("one/.gitignore"), patterns)
	e.writeAll(ctx, t, "one/a", "one/b", "two/sub/c")
	o := ignoring
	o.Dir = e.path("one")
	e.finds(ctx, t, o, ".gitignore", "b")
	for _, name := range []string{"two/.gitignore", "two/sub/.gitignore"} {
		e.write(ctx, t, e.path(name), patterns)
	}
	o.Dir, o.Pattern = e.path("two"), "sub/*"
	e.globFails(ctx, t, o, spec.CodeTooLarge)
}
