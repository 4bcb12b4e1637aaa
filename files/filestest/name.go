package filestest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func nameCases() []Case {
	return []Case{
		{Name: "HostileNames", Rule: "Names are bytes; one that is not UTF-8 or holds a newline is as good as any other.", Run: hostileNames},
		{Name: "NamesRefused", Rule: "Only the empty name and one with a NUL byte are refused, with CodeInvalidPath; so is what no file system can hold.", Run: namesRefused},
		{Name: "DotDot", Rule: "The place is the boundary: \"..\" is an ordinary element.", Run: dotDot},
		{Name: "RelativeNames", Rule: "A name is absolute, or relative to the place's workdir.", Run: relativeNames},
		{Name: "DeepPath", Rule: "Remove removes, with Recursive, a directory and all in it.", Run: deepPath},
	}
}

// hostile are names that software stumbles over.
func hostile() []string {
	return []string{
		"plain", " ", "  lead and trail  ", "-", "-n", "--help", "-rf", "~", "$HOME", "$(id)", "`id`", "a;b", "a|b", "a&b", "*", "?", "[a]",
		"new\nline", "\n", "tab\tcr\r", "quote'single", `quote"double`, `back\slash`, "\x01\x1b[31m\x7f", "\xff\xfe", "\xc3\x28", "half\xe2\x82",
		"...", "..a", ".hidden", "a..", "\u00e9", "e\u0301", "日本語", "🚢", "\u202egnp.exe", "CON", "nul:", "%2e%2e", "%00",
		strings.Repeat("x", 255), strings.Repeat("\xfe", 255), strings.Repeat("é", 127),
	}
}

func hostileNames(ctx context.Context, t T, e Env) {
	names := hostile()
	for _, name := range names {
		e.write(ctx, t, e.path("d/"+name), "content of "+name)
	}
	e.contains(ctx, t, e.path("d"), slices.Clone(names)...)
	for i, name := range names {
		full := e.path("d/" + name)
		if info := e.stat(ctx, t, full); info.Name != name {
			t.Errorf("stat of %q names it %q", name, info.Name)
		}
		e.holds(ctx, t, full, "content of "+name)
		dir := e.path(fmt.Sprintf("dirs/%d/%s", i, name))
		e.write(ctx, t, dir+"/inner", name)
		e.holds(ctx, t, dir+"/inner", name)
		moved := e.path("moved/" + name)
		e.mkdir(ctx, t, e.path("moved"))
		if err := e.FS.Rename(ctx, full, moved, files.RenameOptions{}); err != nil {
			t.Errorf("rename %q: %v", name, err)
		}
		if err := e.FS.Remove(ctx, moved, files.RemoveOptions{}); err != nil {
			t.Errorf("remove %q: %v", name, err)
		}
	}
	e.contains(ctx, t, e.path("d"))
	e.contains(ctx, t, e.path("moved"))
}

func namesRefused(ctx context.Context, t T, e Env) {
	for _, name := range []string{
		"", "\x00", e.Dir + "/a\x00b", e.path("\x00/x"),
		e.path(strings.Repeat("x", 256)),
		e.Dir + "/" + strings.Repeat("d/", 2048) + "f",
		strings.Repeat("x", spec.MaxPathBytes+1),
	} {
		wantCode(t, "open", e.open(ctx, name, files.OpenOptions{}), spec.CodeInvalidPath)
		wantCode(t, "write", e.writeString(ctx, name, "x", files.WriteOptions{}), spec.CodeInvalidPath)
		_, err := e.FS.Stat(ctx, name, files.StatOptions{})
		wantCode(t, "stat", err, spec.CodeInvalidPath)
		_, err = files.ReadDir(ctx, e.FS, name, 0)
		wantCode(t, "list", err, spec.CodeInvalidPath)
		wantCode(t, "mkdir", e.FS.Mkdir(ctx, name, files.MkdirOptions{Parents: true}), spec.CodeInvalidPath)
		wantCode(t, "remove", e.FS.Remove(ctx, name, files.RemoveOptions{}), spec.CodeInvalidPath)
		wantCode(t, "rename from", e.FS.Rename(ctx, name, e.path("x"), files.RenameOptions{}), spec.CodeInvalidPath)
	}
	e.write(ctx, t, e.path("f"), "f")
	wantCode(t, "rename to a name with NUL", e.FS.Rename(ctx, e.path("f"), e.path("a\x00"), files.RenameOptions{}), spec.CodeInvalidPath)
	for _, name := range []string{"/", e.path("."), e.path("..")} {
		wantCode(t, "remove "+name, e.FS.Remove(ctx, name, files.RemoveOptions{}), spec.CodeInvalidPath)
		wantCode(t, "rename "+name, e.FS.Rename(ctx, name, e.path("x"), files.RenameOptions{}), spec.CodeInvalidPath)
	}
	e.contains(ctx, t, e.Dir, "f")
}

func dotDot(ctx context.Context, t T, e Env) {
	e.mkdir(ctx, t, e.path("a/b"))
	e.write(ctx, t, e.path("a/b/../../f"), "f")
	e.holds(ctx, t, e.path("f"), "f")
	e.holds(ctx, t, e.path("./a/.././/f"), "f")
	e.holds(ctx, t, "/.."+e.path("f"), "f")
	wantCode(t, "up from what does not exist", e.open(ctx, e.path("missing/../f"), files.OpenOptions{}), spec.CodeFileNotFound)
	wantCode(t, "up from a file", e.open(ctx, e.path("f/../f"), files.OpenOptions{}), spec.CodeNotDirectory)
	for _, name := range []string{e.path("."), e.path("a/.."), e.path("a/b/../.")} {
		info := e.stat(ctx, t, name)
		if !info.IsDir() || info.Name == "" || info.Name == "." || info.Name == ".." {
			t.Errorf("stat of %q gives %+v", name, info)
		}
	}
	if info := e.stat(ctx, t, "/"); !info.IsDir() || info.Name != "/" {
		t.Errorf("stat of / gives %+v", info)
	}
}

func relativeNames(ctx context.Context, t T, e Env) {
	if info := e.stat(ctx, t, "."); !info.IsDir() {
		t.Fatalf("the workdir is %+v", info)
	}
	// The case's directory is reached from the workdir through the root.
	up := strings.Repeat("../", 64) + strings.TrimPrefix(e.Dir, "/")
	e.write(ctx, t, up+"/f", "relative")
	e.holds(ctx, t, e.path("f"), "relative")
	e.contains(ctx, t, up, "f")
}

// deepPath makes a directory deeper than a process may hold open, as far as a name
// reaches.
func deepPath(ctx context.Context, t T, e Env) {
	deep := e.Dir + strings.Repeat("/d", (spec.MaxPathBytes-len(e.Dir)-100)/2)
	e.write(ctx, t, deep+"/f", "deep")
	e.holds(ctx, t, deep+"/f", "deep")
	for i := range 40 {
		e.write(ctx, t, e.path(fmt.Sprintf("d/%d/x", i)), "x")
	}
	if err := e.FS.Remove(ctx, e.path("d"), files.RemoveOptions{Recursive: true}); err != nil {
		t.Errorf("remove a deep tree: %v", err)
	}
	e.contains(ctx, t, e.Dir)
}
