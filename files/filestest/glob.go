package filestest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func globCases() []Case {
	return []Case{
		{Name: "GlobPatterns", Rule: "Pattern is matched against the path of a file relative to Dir; * ? [] {} ** and a backslash have their meaning, and a name that begins with a dot is like any other.", Run: globPatterns},
		{Name: "GlobOrder", Rule: "Results come in the order of a walk that takes the entries of each directory in the order of their bytes, a directory before what is in it.", Run: globOrder},
		{Name: "GlobTypes", Rule: "Types, if not 0, are what is wanted.", need: both(needLinks, needFIFO), Run: globTypes},
		{Name: "GlobLinks", Rule: "A link to a directory is followed as Dir and nowhere below.", need: needLinks, Run: globLinks},
		{Name: "GlobMetadata", Rule: "Metadata fills in the whole Info of a Match; otherwise it has Name and the type bits of Mode only.", Run: globMetadata},
		{Name: "GlobExclude", Rule: "Exclude are patterns of what is left out; a directory that matches one is not entered.", Run: globExclude},
		{Name: "GlobLimit", Rule: "Limit ends the sequence after so many matches. Breaking off is allowed.", Run: globLimit},
		{Name: "GlobInvalid", Rule: "A pattern that is malformed, absolute or holds \"..\" is CodeInvalid before anything is read.", Run: globInvalid},
		{Name: "GlobErrors", Rule: "A directory that cannot be read is passed over, but for the first one. The first error ends the sequence.", Run: globErrors},
		{Name: "GlobNames", Rule: "Names are bytes; one that is not UTF-8 or holds a newline is as good as any other.", Run: globNames},
		{Name: "Names", Rule: "Names yields the entries of a directory as List does, but only Name and the type bits of Mode are filled in.", Run: namesRules},
		{Name: "NamesNoFollow", Rule: "NoFollow answers a symbolic link as the last element of the directory's name with CodeNotDirectory.", need: needLinks, Run: namesNoFollow},
		{Name: "Resolve", Rule: "Resolve returns the absolute name, without links, . and .., of what name leads to. A missing one is CodeFileNotFound.", need: needResolve, Run: resolveRules},
		{Name: "ResolveLinks", Rule: "Resolve returns the absolute name, without links.", need: both(needResolve, needLinks), Run: resolveLinks},
	}
}

// glob returns the paths that o finds.
func (e Env) glob(ctx context.Context, t T, o files.GlobOptions) []string {
	t.Helper()
	paths := []string{}
	for m, err := range files.Glob(ctx, e.FS, o) {
		if err != nil {
			t.Errorf("glob %+v: %v", o, err)
			return nil
		}
		paths = append(paths, m.Path)
	}
	return paths
}

// finds checks what o finds in the case's directory, in this order.
func (e Env) finds(ctx context.Context, t T, o files.GlobOptions, want ...string) {
	t.Helper()
	if o.Dir == "" {
		o.Dir = e.Dir
	}
	if got := e.glob(ctx, t, o); !slices.Equal(got, want) {
		t.Errorf("glob of pattern %q, exclude %q finds\n%q, want\n%q", o.Pattern, o.Exclude, got, want)
	}
}

func (e Env) writeAll(ctx context.Context, t T, names ...string) {
	t.Helper()
	for _, name := range names {
		e.write(ctx, t, e.path(name), "content of "+name)
	}
}

func globPatterns(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "a.go", "b.txt", ".dot", "x/a.go", "x/y/a.go", "x/y/b.c", "x/.hid/z", "{x}", "*", "[a]", "é")
	for pattern, want := range map[string][]string{
		"":                  {"*", ".dot", "[a]", "a.go", "b.txt", "x", "x/.hid", "x/.hid/z", "x/a.go", "x/y", "x/y/a.go", "x/y/b.c", "{x}", "é"},
		"**":                {"*", ".dot", "[a]", "a.go", "b.txt", "x", "x/.hid", "x/.hid/z", "x/a.go", "x/y", "x/y/a.go", "x/y/b.c", "{x}", "é"},
		"*":                 {"*", ".dot", "[a]", "a.go", "b.txt", "x", "{x}", "é"},
		"*.go":              {"a.go"},
		"**/*.go":           {"a.go", "x/a.go", "x/y/a.go"},
		"x/**":              {"x", "x/.hid", "x/.hid/z", "x/a.go", "x/y", "x/y/a.go", "x/y/b.c"},
		"x/**/*.go":         {"x/a.go", "x/y/a.go"},
		"x/*/*":             {"x/.hid/z", "x/y/a.go", "x/y/b.c"},
		"?":                 {"*", "x", "é"},
		`\*`:                {"*"},
		`\[a\]`:             {"[a]"},
		`\{x\}`:             {"{x}"},
		"[a-b].*":           {"a.go", "b.txt"},
		"[a-b]*.*":          {"a.go", "b.txt"},
		"[^a]*.*":           {"b.txt"},
		"*.{go,txt}":        {"a.go", "b.txt"},
		"**/*.{c,{go,txt}}": {"a.go", "b.txt", "x/a.go", "x/y/a.go", "x/y/b.c"},
		"{x/y,x}/a.go":      {"x/a.go", "x/y/a.go"},
		".*":                {".dot"},
		"x/y/a.go":          {"x/y/a.go"},
		"x/y":               {"x/y"},
		"missing/x":         nil,
		"a.go/x":            nil,
		"**/y/**":           {"x/y", "x/y/a.go", "x/y/b.c"},
		"./a.go":            {"a.go"},
		"*/":                {"x"},
		"**/":               {"x", "x/.hid", "x/y"},
	} {
		e.finds(ctx, t, files.GlobOptions{Pattern: pattern}, want...)
	}
	e.finds(ctx, t, files.GlobOptions{Dir: e.path("x"), Pattern: "*.go"}, "a.go")
	e.finds(ctx, t, files.GlobOptions{Dir: e.path("x/../x/"), Pattern: "y/*.go"}, "y/a.go")
}

func globOrder(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "b/c", "b.x", "b-x", "a", "b/a/z", "b/a.x", "B", "\xff/x", "\x01", "é")
	e.finds(ctx, t, files.GlobOptions{}, "\x01", "B", "a", "b", "b/a", "b/a/z", "b/a.x", "b/c", "b-x", "b.x", "é", "\xff", "\xff/x")
}

func globTypes(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "f", "d/f")
	e.symlink(ctx, t, "d", e.path("dirlink"))
	e.symlink(ctx, t, "f", e.path("link"))
	e.symlink(ctx, t, "nowhere", e.path("dangling"))
	e.mkfifo(ctx, t, e.path("fifo"))
	for types, want := range map[files.GlobTypes][]string{
		0:                                 {"d", "d/f", "dangling", "dirlink", "f", "fifo", "link"},
		files.GlobFiles:                   {"d/f", "f"},
		files.GlobDirs:                    {"d"},
		files.GlobLinks:                   {"dangling", "dirlink", "link"},
		files.GlobOther:                   {"fifo"},
		files.GlobFiles | files.GlobOther: {"d/f", "f", "fifo"},
		files.GlobDirs | files.GlobLinks:  {"d", "dangling", "dirlink", "link"},
		files.GlobFiles | files.GlobOther | files.GlobLinks | files.GlobDirs: {"d", "d/f", "dangling", "dirlink", "f", "fifo", "link"},
	} {
		for _, metadata := range []bool{false, true} {
			e.finds(ctx, t, files.GlobOptions{Types: types, Metadata: metadata}, want...)
		}
	}
}

func globLinks(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "d/f", "d/sub/f")
	e.symlink(ctx, t, "d", e.path("link"))
	e.symlink(ctx, t, ".", e.path("d/loop"))
	e.finds(ctx, t, files.GlobOptions{Dir: e.path("link")}, "f", "loop", "sub", "sub/f")
	e.finds(ctx, t, files.GlobOptions{Dir: e.path("link/sub")}, "f")
	for _, pattern := range []string{"link/f", "link/*", "link/**/f", "*/loop/f", "d/loop/f"} {
		want := []string{}
		e.finds(ctx, t, files.GlobOptions{Pattern: pattern}, want...)
	}
	e.finds(ctx, t, files.GlobOptions{Pattern: "**/f"}, "d/f", "d/sub/f")
}

func globMetadata(ctx context.Context, t T, e Env) {
	e.writeMode(ctx, t, e.path("d/f"), "12345", files.WriteOptions{Mode: 0o640})
	for m, err := range files.Glob(ctx, e.FS, files.GlobOptions{Dir: e.Dir, Metadata: true}) {
		if err != nil {
			t.Fatalf("glob: %v", err)
		}
		want := e.stat(ctx, t, e.path(m.Path))
		if !m.Info.ModTime.Equal(want.ModTime) {
			t.Errorf("%s: time %v, want %v", m.Path, m.Info.ModTime, want.ModTime)
		}
		m.Info.ModTime = want.ModTime
		if m.Info != want {
			t.Errorf("%s is described as %+v, want %+v", m.Path, m.Info, want)
		}
	}
	for m, err := range files.Glob(ctx, e.FS, files.GlobOptions{Dir: e.Dir}) {
		if err != nil {
			t.Fatalf("glob: %v", err)
		}
		want := files.Info{Name: m.Path[strings.LastIndexByte(m.Path, '/')+1:]}
		if m.Path == "d" {
			want.Mode = fs.ModeDir
		}
		m.Info.ModTime = want.ModTime
		if m.Info != want {
			t.Errorf("%s is described as %+v, want %+v", m.Path, m.Info, want)
		}
	}
}

func globExclude(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "a.go", "vendor/x/a.go", "x/vendor/a.go", "x/a_test.go", "x/b.go", "vendor.go")
	e.finds(ctx, t, files.GlobOptions{Pattern: "**/*.go", Exclude: []string{"vendor"}}, "a.go", "vendor.go", "x/a_test.go", "x/b.go", "x/vendor/a.go")
	e.finds(ctx, t, files.GlobOptions{Pattern: "**/*.go", Exclude: []string{"**/vendor"}}, "a.go", "vendor.go", "x/a_test.go", "x/b.go")
	e.finds(ctx, t, files.GlobOptions{Pattern: "**/*.go", Exclude: []string{"**/vendor/", "**/*_test.go"}}, "a.go", "vendor.go", "x/b.go")
	e.finds(ctx, t, files.GlobOptions{Exclude: []string{"**/vendor/**", "x/*"}}, "a.go", "vendor.go", "x")
	e.finds(ctx, t, files.GlobOptions{Exclude: []string{"*"}})
	e.finds(ctx, t, files.GlobOptions{Pattern: "vendor/x/a.go", Exclude: []string{"vendor"}})
}

func globLimit(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "a", "b", "c/d", "e")
	e.finds(ctx, t, files.GlobOptions{Limit: 1}, "a")
	e.finds(ctx, t, files.GlobOptions{Limit: 4}, "a", "b", "c", "c/d")
	e.finds(ctx, t, files.GlobOptions{Limit: 5}, "a", "b", "c", "c/d", "e")
	e.finds(ctx, t, files.GlobOptions{Limit: 6, Types: files.GlobFiles}, "a", "b", "c/d", "e")
	for range files.Glob(ctx, e.FS, files.GlobOptions{Dir: e.Dir}) {
		break
	}
	e.finds(ctx, t, files.GlobOptions{Pattern: "?"}, "a", "b", "c", "e")
}

// fails checks that a sequence is one error.
func (e Env) globFails(ctx context.Context, t T, o files.GlobOptions, want spec.Code) {
	t.Helper()
	n := 0
	for _, err := range files.Glob(ctx, e.FS, o) {
		n++
		wantCode(t, fmt.Sprintf("glob %.60q in %.60q", o.Pattern, o.Dir), err, want)
	}
	if n != 1 {
		t.Errorf("glob %.60q in %.60q yields %d times, want one error", o.Pattern, o.Dir, n)
	}
}

func globInvalid(ctx context.Context, t T, e Env) {
	missing := e.path("missing") // which is not even looked for
	for _, pattern := range []string{"[", "[a", "{a", "a}", `a\`, "/a", "/", "..", "../a", "a/../b", "a//b", "{..,a}/b", "a\x00", "[]", strings.Repeat("a", 5000)} {
		e.globFails(ctx, t, files.GlobOptions{Dir: missing, Pattern: pattern}, spec.CodeInvalid)
		e.globFails(ctx, t, files.GlobOptions{Dir: missing, Exclude: []string{"a", pattern}}, spec.CodeInvalid)
	}
	e.globFails(ctx, t, files.GlobOptions{Dir: missing, Limit: -1}, spec.CodeInvalid)
	e.globFails(ctx, t, files.GlobOptions{Dir: missing, Types: 1 << 7}, spec.CodeInvalid)
}

func globErrors(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "f")
	for _, pattern := range []string{"", "*", "a/b", "f"} {
		for _, gitignore := range []bool{false, true} {
			e.globFails(ctx, t, files.GlobOptions{Dir: e.path("missing"), Pattern: pattern, Gitignore: gitignore}, spec.CodeFileNotFound)
			e.globFails(ctx, t, files.GlobOptions{Dir: e.path("f"), Pattern: pattern, Gitignore: gitignore}, spec.CodeNotDirectory)
			e.globFails(ctx, t, files.GlobOptions{Dir: e.path("f/x"), Pattern: pattern, Gitignore: gitignore}, spec.CodeNotDirectory)
		}
	}
	e.globFails(ctx, t, files.GlobOptions{Dir: "a\x00b"}, spec.CodeInvalidPath)
	e.globFails(ctx, t, files.GlobOptions{Dir: strings.Repeat("x", spec.MaxPathBytes+1)}, spec.CodeInvalidPath)
	call, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range files.Glob(call, e.FS, files.GlobOptions{Dir: e.Dir}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled glob: %v", err)
		}
	}
}

func globNames(ctx context.Context, t T, e Env) {
	long := strings.Repeat("é", 127) + "x"
	names := []string{"new\nline", "\xff\xfe", "sp ace", "-dash", `back\slash`, "quote'\"", "\x7f", long}
	for _, name := range names {
		e.write(ctx, t, e.path("d/"+name+"/"+name), name)
	}
	slices.Sort(names)
	var want []string
	for _, name := range names {
		want = append(want, "d/"+name, "d/"+name+"/"+name)
	}
	e.finds(ctx, t, files.GlobOptions{Pattern: "d/*/**"}, want...)
	e.finds(ctx, t, files.GlobOptions{Pattern: "d/\xff*/?\xfe"}, "d/\xff\xfe/\xff\xfe")
	e.finds(ctx, t, files.GlobOptions{Pattern: "d/new?line"}, "d/new\nline")
	e.finds(ctx, t, files.GlobOptions{Pattern: "d/[\xfe-\xff]?"}, "d/\xff\xfe")
	e.finds(ctx, t, files.GlobOptions{Pattern: `d/back\\slash`}, `d/back\slash`)
	for m, err := range files.Glob(ctx, e.FS, files.GlobOptions{Dir: e.path("d"), Pattern: "*/*", Metadata: true}) {
		if err != nil {
			t.Fatalf("glob: %v", err)
		}
		e.holds(ctx, t, e.path("d/"+m.Path), m.Info.Name)
	}
}

func namesRules(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "f", "d/x", "\xff\n")
	got := map[string]fs.FileMode{}
	for info, err := range files.Names(ctx, e.FS, e.Dir, files.NamesOptions{}) {
		if err != nil {
			t.Fatalf("names: %v", err)
		}
		got[info.Name] = info.Mode.Type()
	}
	want := map[string]fs.FileMode{"f": 0, "d": fs.ModeDir, "\xff\n": 0}
	if len(got) != len(want) {
		t.Errorf("names are %v, want %v", got, want)
	}
	for name, mode := range want {
		if got[name] != mode {
			t.Errorf("%q has type %v, want %v", name, got[name], mode)
		}
	}
	for name, code := range map[string]spec.Code{"missing": spec.CodeFileNotFound, "f": spec.CodeNotDirectory, "f/x": spec.CodeNotDirectory} {
		for _, o := range []files.NamesOptions{{}, {NoFollow: true}} {
			for _, err := range files.Names(ctx, e.FS, e.path(name), o) {
				wantCode(t, "names of "+name, err, code)
			}
		}
	}
	for range files.Names(ctx, e.FS, e.Dir, files.NamesOptions{}) {
		break
	}
}

func namesNoFollow(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "d/x")
	e.symlink(ctx, t, "d", e.path("link"))
	n := 0
	for info, err := range files.Names(ctx, e.FS, e.path("link"), files.NamesOptions{}) {
		if n++; err != nil || info.Name != "x" {
			t.Errorf("names by a link: %q, %v", info.Name, err)
		}
	}
	if n != 1 {
		t.Errorf("names by a link: %d, want 1", n)
	}
	for _, err := range files.Names(ctx, e.FS, e.path("link"), files.NamesOptions{NoFollow: true}) {
		wantCode(t, "names of a link that is not followed", err, spec.CodeNotDirectory)
	}
}

func needResolve(ctx context.Context, e Env) string {
	if _, err := files.Resolve(ctx, e.FS, e.Dir); spec.CodeOf(err) == spec.CodeUnsupported {
		return "a way to say where a name leads"
	}
	return ""
}

func (e Env) resolves(ctx context.Context, t T, name, want string) {
	t.Helper()
	if got, err := files.Resolve(ctx, e.FS, name); err != nil || got != want {
		t.Errorf("resolve %q: %q, %v; want %q", name, got, err, want)
	}
}

func resolveRules(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "d/f", "\xff\n/f")
	e.resolves(ctx, t, e.Dir, e.Dir)
	e.resolves(ctx, t, e.path("d/f"), e.path("d/f"))
	e.resolves(ctx, t, e.path("d/"), e.path("d"))
	e.resolves(ctx, t, e.path(".//d/../d/./f"), e.path("d/f"))
	e.resolves(ctx, t, e.path("\xff\n/f"), e.path("\xff\n/f"))
	for name, want := range map[string]spec.Code{"missing": spec.CodeFileNotFound, "missing/x": spec.CodeFileNotFound, "d/f/x": spec.CodeNotDirectory, "d/f/": spec.CodeNotDirectory} {
		_, err := files.Resolve(ctx, e.FS, e.path(name))
		wantCode(t, "resolve "+name, err, want)
	}
}

func resolveLinks(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "d/f")
	e.symlink(ctx, t, "d", e.path("link"))
	e.symlink(ctx, t, "../link/f", e.path("d/self"))
	e.symlink(ctx, t, e.path("link"), e.path("abs"))
	e.symlink(ctx, t, "nowhere", e.path("dangling"))
	e.resolves(ctx, t, e.path("link"), e.path("d"))
	e.resolves(ctx, t, e.path("link/"), e.path("d"))
	e.resolves(ctx, t, e.path("abs/f"), e.path("d/f"))
	e.resolves(ctx, t, e.path("abs/self"), e.path("d/f"))
	e.resolves(ctx, t, e.path("link/.."), e.Dir)
	_, err := files.Resolve(ctx, e.FS, e.path("dangling"))
	wantCode(t, "resolve a link that leads nowhere", err, spec.CodeFileNotFound)
}
