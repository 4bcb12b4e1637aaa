package filestest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/view"
	"github.com/berth-dev/berth/spec"
)

func viewCases() []Case {
	return []Case{
		{Name: "ViewSpellings", Rule: "A View understands a name as mounted, as the FS beneath has it, and relative to Workdir; the mounted name is answered.", Run: viewSpellings},
		{Name: "ViewStaysInside", Rule: "Names are translated by their spelling, so that none is spelled out of the mounts.", Run: viewStaysInside},
		{Name: "ViewReadOnly", Rule: "A mount that is read-only refuses changes with CodeNotWritable; that a mount itself is removed or renamed is CodeNotReplaceable.", Run: viewReadOnly},
		{Name: "ViewSearch", Rule: "It has the optional interfaces and does what the FS beneath can.", Run: viewSearch},
	}
}

// mounted returns a view of two directories of the case: work, writable, and skills.
func (e Env) mounted(ctx context.Context, t T) files.FS {
	t.Helper()
	e.writeAll(ctx, t, "host/work/src/a.go", "host/work/b.txt", "host/skills/one/SKILL.md", "host/secret")
	fsys, err := view.Mounted(view.View{Mounts: []view.Mount{
		{Name: "/seen/workspace", Source: e.path("host/work")},
		{Name: "/seen/skills", Source: e.path("host/skills"), ReadOnly: true},
	}}, e.FS)
	if err != nil {
		t.Fatalf("make a view: %v", err)
	}
	return fsys
}

func wantPath(t T, what string, err error, want string) {
	t.Helper()
	var se *spec.Error
	if errors.As(err, &se) && se.Path != want {
		t.Errorf("%s: the error is about %q, want %q", what, se.Path, want)
	}
}

func viewSpellings(ctx context.Context, t T, e Env) {
	fsys := e.mounted(ctx, t)
	for _, name := range []string{"/seen/workspace/src/a.go", "src/a.go", "./src/../src/a.go", e.path("host/work/src/a.go"), "/seen/workspace//src/./a.go"} {
		got, err := files.ReadFile(ctx, fsys, name, 0)
		if err != nil || string(got) != "content of host/work/src/a.go" {
			t.Errorf("read %q: %q, %v", name, got, err)
		}
		_, err = fsys.Stat(ctx, name+".missing", files.StatOptions{})
		wantCode(t, "stat of what is missing", err, spec.CodeFileNotFound)
		wantPath(t, name, err, "/seen/workspace/src/a.go.missing")
	}
	if got, err := files.ReadFile(ctx, fsys, "/seen/skills/one/SKILL.md", 0); err != nil || string(got) != "content of host/skills/one/SKILL.md" {
		t.Errorf("read in another mount: %q, %v", got, err)
	}
	for i, name := range []string{"/seen/workspace/new/1", "new/2", e.path("host/work/new/3")} {
		if err := files.WriteFile(ctx, fsys, name, fmt.Append(nil, i), files.WriteOptions{}); err != nil {
			t.Errorf("write %q: %v", name, err)
		}
		e.holds(ctx, t, e.path(fmt.Sprintf("host/work/new/%d", i+1)), fmt.Sprint(i))
	}
	for _, name := range []string{"/seen/workspace", ".", e.path("host/work"), "/seen/workspace/"} {
		if info, err := fsys.Stat(ctx, name, files.StatOptions{}); err != nil || info.Name != "workspace" || !info.IsDir() {
			t.Errorf("stat %q: %+v, %v", name, info, err)
		}
	}
	if _, err := files.Resolve(ctx, e.FS, e.Dir); err == nil {
		if got, err := files.Resolve(ctx, fsys, "src"); err != nil || got != "/seen/workspace/src" {
			t.Errorf("resolve: %q, %v", got, err)
		}
	}
}

func viewStaysInside(ctx context.Context, t T, e Env) {
	fsys := e.mounted(ctx, t)
	for _, name := range []string{"/", "/seen/workspace/..", "..", "../secret", "src/../../secret", e.path("host/secret"), e.path("host/work/../secret"), "/seen/workspaces", "/seen", "/etc/passwd"} {
		_, err := fsys.Stat(ctx, name, files.StatOptions{})
		wantCode(t, "stat "+name, err, spec.CodeInvalidPath)
		wantCode(t, "write "+name, files.WriteFile(ctx, fsys, name, nil, files.WriteOptions{}), spec.CodeInvalidPath)
		wantCode(t, "rename to "+name, fsys.Rename(ctx, "b.txt", name, files.RenameOptions{Overwrite: true}), spec.CodeInvalidPath)
		wantCode(t, "copy "+name, files.Copy(ctx, fsys, name, "c", files.CopyOptions{Recursive: true}), spec.CodeInvalidPath)
		for _, err := range fsys.List(ctx, name) {
			wantCode(t, "list "+name, err, spec.CodeInvalidPath)
		}
	}
	for _, name := range []string{"", "a\x00"} {
		_, err := fsys.Stat(ctx, name, files.StatOptions{})
		wantCode(t, "stat of a bad name", err, spec.CodeInvalidPath)
	}
	e.holds(ctx, t, e.path("host/secret"), "content of host/secret")
}

func viewReadOnly(ctx context.Context, t T, e Env) {
	fsys := e.mounted(ctx, t)
	batch := func(name string) error {
		n, err := files.WriteBatch(ctx, fsys, seq(batchFile("/seen/workspace/batch", "x"), batchFile(name, "x")), files.BatchOptions{})
		if n != 0 {
			t.Errorf("%d files of a batch with a read-only one have landed", n)
		}
		return err
	}
	for what, err := range map[string]error{
		"write":     files.WriteFile(ctx, fsys, "/seen/skills/new", nil, files.WriteOptions{}),
		"by source": files.WriteFile(ctx, fsys, e.path("host/skills/new"), nil, files.WriteOptions{}),
		"mkdir":     fsys.Mkdir(ctx, "/seen/skills/new", files.MkdirOptions{Parents: true}),
		"remove":    fsys.Remove(ctx, "/seen/skills/one", files.RemoveOptions{Recursive: true}),
		"rename in": fsys.Rename(ctx, "b.txt", "/seen/skills/b.txt", files.RenameOptions{}),
		"move out":  fsys.Rename(ctx, "/seen/skills/one", "one", files.RenameOptions{}),
		"copy in":   files.Copy(ctx, fsys, "b.txt", "/seen/skills/b.txt", files.CopyOptions{}),
		"chmod":     files.Chmod(ctx, fsys, "/seen/skills/one", 0o700),
		"batch":     batch("/seen/skills/new"),
	} {
		wantCode(t, what, err, spec.CodeNotWritable)
	}
	wantCode(t, "remove a mount", fsys.Remove(ctx, "/seen/workspace", files.RemoveOptions{Recursive: true}), spec.CodeNotReplaceable)
	wantCode(t, "rename a mount", fsys.Rename(ctx, "/seen/workspace/", "/seen/workspace/x", files.RenameOptions{}), spec.CodeNotReplaceable)
	if err := files.Copy(ctx, fsys, "/seen/skills/one", "one", files.CopyOptions{Recursive: true}); err != nil {
		t.Errorf("copy out of a read-only mount: %v", err)
	}
	e.holds(ctx, t, e.path("host/work/one/SKILL.md"), "content of host/skills/one/SKILL.md")
	e.contains(ctx, t, e.path("host/skills"), "one")
	e.contains(ctx, t, e.path("host/work"), "src", "b.txt", "one")
}

func viewSearch(ctx context.Context, t T, e Env) {
	v := Env{FS: e.mounted(ctx, t), Dir: "/seen/workspace"}
	v.finds(ctx, t, files.GlobOptions{}, "b.txt", "src", "src/a.go")
	v.finds(ctx, t, files.GlobOptions{Dir: "src", Pattern: "*.go"}, "a.go")
	v.finds(ctx, t, files.GlobOptions{Dir: "/seen/skills", Pattern: "**/*.md"}, "one/SKILL.md")
	v.grepped(ctx, t, files.GrepOptions{Pattern: "content"}, "b.txt:1:content of host/work/b.txt", "src/a.go:1:content of host/work/src/a.go")
	var names []string
	for info, err := range files.Names(ctx, v.FS, ".", files.NamesOptions{}) {
		if err != nil {
			t.Fatalf("names: %v", err)
		}
		names = append(names, info.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"b.txt", "src"}) {
		t.Errorf("names are %q", names)
	}
	for _, err := range files.Glob(ctx, v.FS, files.GlobOptions{Dir: "missing"}) {
		wantCode(t, "glob where nothing is", err, spec.CodeFileNotFound)
		wantPath(t, "glob", err, "/seen/workspace/missing")
	}
	if needChmod(ctx, v) == "" {
		if err := files.Chmod(ctx, v.FS, "b.txt", 0o600); err != nil {
			t.Errorf("chmod: %v", err)
		}
	}
	if err := v.FS.Rename(ctx, "b.txt", "/seen/workspace/src/b.txt", files.RenameOptions{}); err != nil {
		t.Errorf("rename: %v", err)
	}
	if err := v.batch(ctx, t, 2, batchFile("x/1", "1"), batchFile("/seen/workspace/x/2", "2")); err != nil {
		t.Errorf("batch: %v", err)
	}
	e.contains(ctx, t, e.path("host/work/x"), "1", "2")
	wantPath(t, "batch", v.batch(ctx, t, 0, batchFile("x", "onto a directory")), "/seen/workspace/x")
}
