package filestest

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func entryCases() []Case {
	return []Case{
		{Name: "Mkdir", Rule: "Mkdir makes a directory with mode 0755. An existing directory is CodeExists, unless Parents is set, which makes missing parents too.", Run: mkdirRules},
		{Name: "ListMany", Rule: "List yields the entries of a directory, without . and .., each once.", Run: listMany},
		{Name: "ListErrors", Rule: "The first error ends the sequence. Breaking off is allowed.", Run: listErrors},
		{Name: "Remove", Rule: "Remove removes a file, a link or an empty directory; a missing name is CodeFileNotFound, a directory that is not empty CodeExists.", Run: removeRules},
		{Name: "RemoveTree", Rule: "With Recursive a directory and all in it.", Run: removeTree},
		{Name: "RemoveRace", Rule: "An FS is safe for concurrent use.", Run: removeRace},
	}
}

func mkdirRules(ctx context.Context, t T, e Env) {
	plain, parents := files.MkdirOptions{}, files.MkdirOptions{Parents: true}
	for _, name := range []string{e.path("d"), e.path("slash/")} {
		if err := e.FS.Mkdir(ctx, name, plain); err != nil {
			t.Fatalf("mkdir %q: %v", name, err)
		}
		if info := e.stat(ctx, t, name); info.Mode != fs.ModeDir|0o755 {
			t.Errorf("%q has mode %v, want a directory 0755", name, info.Mode)
		}
		wantCode(t, "mkdir again", e.FS.Mkdir(ctx, name, plain), spec.CodeExists)
		if err := e.FS.Mkdir(ctx, name, parents); err != nil {
			t.Errorf("mkdir again with parents: %v", err)
		}
	}
	wantCode(t, "mkdir /", e.FS.Mkdir(ctx, "/", plain), spec.CodeExists)
	wantCode(t, "mkdir .", e.FS.Mkdir(ctx, e.path("."), plain), spec.CodeExists)
	wantCode(t, "mkdir below what is missing", e.FS.Mkdir(ctx, e.path("missing/d"), plain), spec.CodeFileNotFound)
	if err := e.FS.Mkdir(ctx, e.path("p/q/r"), parents); err != nil {
		t.Errorf("mkdir with parents: %v", err)
	}
	for _, name := range []string{"p", "p/q", "p/q/r"} {
		if info := e.stat(ctx, t, e.path(name)); info.Mode != fs.ModeDir|0o755 {
			t.Errorf("%s has mode %v, want a directory 0755", name, info.Mode)
		}
	}
	e.write(ctx, t, e.path("f"), "f")
	wantCode(t, "mkdir over a file", e.FS.Mkdir(ctx, e.path("f"), plain), spec.CodeExists)
	wantCode(t, "mkdir with parents over a file", e.FS.Mkdir(ctx, e.path("f"), parents), spec.CodeNotDirectory)
	e.holds(ctx, t, e.path("f"), "f")
}

func listMany(ctx context.Context, t T, e Env) {
	const entries, writers = 3000, 16
	name := func(i int) string { return fmt.Sprintf("entry with a name of some length, number %04d", i) }
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < entries; i += writers {
				if err := e.writeString(ctx, e.path(name(i)), name(i)[:i%10], files.WriteOptions{}); err != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]int64{}
	for info, err := range e.FS.List(ctx, e.Dir) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if _, twice := seen[info.Name]; twice {
			t.Errorf("%q is listed twice", info.Name)
		}
		seen[info.Name] = info.Size
		if !info.IsRegular() || info.Mode != 0o644 {
			t.Errorf("%q is listed as %v", info.Name, info.Mode)
		}
	}
	if len(seen) != entries {
		t.Errorf("%d entries are listed, want %d", len(seen), entries)
	}
	for i := range entries {
		if size, ok := seen[name(i)]; !ok || size != int64(i%10) {
			t.Fatalf("%q: listed %v with size %d, want %d", name(i), ok, size, i%10)
		}
	}
	n := 0
	for range e.FS.List(ctx, e.Dir) {
		if n++; n == 5 {
			break
		}
	}
	_, err := files.ReadDir(ctx, e.FS, e.Dir, 100)
	wantCode(t, "collect more entries than asked for", err, spec.CodeTooLarge)
	if err := e.FS.Remove(ctx, e.Dir, files.RemoveOptions{Recursive: true}); err != nil {
		t.Errorf("remove the directory: %v", err)
	}
}

func listErrors(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "f")
	e.mkdir(ctx, t, e.path("empty"))
	for name, want := range map[string]spec.Code{"f": spec.CodeNotDirectory, "f/": spec.CodeNotDirectory, "missing": spec.CodeFileNotFound} {
		n := 0
		for _, err := range e.FS.List(ctx, e.path(name)) {
			n++
			wantCode(t, "list "+name, err, want)
		}
		if n != 1 {
			t.Errorf("list of %s yields %d times, want one error", name, n)
		}
	}
	for info, err := range e.FS.List(ctx, e.path("empty")) {
		t.Errorf("list of an empty directory yields %+v, %v", info, err)
	}
	e.contains(ctx, t, e.path("empty/"))
	e.contains(ctx, t, e.path("empty/.."), "f", "empty")
}

func removeRules(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "f")
	e.writeMode(ctx, t, e.path("shut"), "f", files.WriteOptions{Mode: 0o400})
	e.mkdir(ctx, t, e.path("empty"))
	e.write(ctx, t, e.path("full/f"), "kept")
	plain, recursive := files.RemoveOptions{}, files.RemoveOptions{Recursive: true}
	wantCode(t, "remove a missing name", e.FS.Remove(ctx, e.path("missing"), plain), spec.CodeFileNotFound)
	wantCode(t, "remove a missing name with all in it", e.FS.Remove(ctx, e.path("missing"), recursive), spec.CodeFileNotFound)
	wantCode(t, "remove a full directory", e.FS.Remove(ctx, e.path("full"), plain), spec.CodeExists)
	wantCode(t, "remove a file with a slash behind it", e.FS.Remove(ctx, e.path("f/"), recursive), spec.CodeNotDirectory)
	e.holds(ctx, t, e.path("full/f"), "kept")
	for name, o := range map[string]files.RemoveOptions{"f": plain, "empty/": plain, "shut": recursive, "full": recursive} {
		if err := e.FS.Remove(ctx, e.path(name), o); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
	}
	e.contains(ctx, t, e.Dir)
}

func removeTree(ctx context.Context, t T, e Env) {
	for i := range 20 {
		for j := range 20 {
			e.write(ctx, t, e.path(fmt.Sprintf("tree/%d/%d/%d", i, j%3, j)), "x")
		}
	}
	e.mkdir(ctx, t, e.path("tree/empty/also empty"))
	e.write(ctx, t, e.path("beside"), "kept")
	if err := e.FS.Remove(ctx, e.path("tree"), files.RemoveOptions{Recursive: true}); err != nil {
		t.Errorf("remove a tree: %v", err)
	}
	e.contains(ctx, t, e.Dir, "beside")
	e.absent(ctx, t, e.path("tree"))
}

// removeRace lets several remove one tree: together they do it, and those who come
// too late hear that it is gone.
func removeRace(ctx context.Context, t T, e Env) {
	for i := range 100 {
		e.write(ctx, t, e.path(fmt.Sprintf("tree/%d/%d", i%7, i)), "x")
	}
	const removers = 4
	errs := make([]error, removers)
	var wg sync.WaitGroup
	for i := range removers {
		wg.Go(func() { errs[i] = e.FS.Remove(ctx, e.path("tree"), files.RemoveOptions{Recursive: true}) })
	}
	wg.Wait()
	won := false
	for _, err := range errs {
		if err == nil {
			won = true
			continue
		}
		wantCode(t, "a remover that came too late", err, spec.CodeFileNotFound)
	}
	if !won {
		t.Errorf("nobody has removed the tree")
	}
	e.contains(ctx, t, e.Dir)
}
