package filestest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func entriesCases() []Case {
	return []Case{
		{Name: "EntriesStat", Rule: "Stat says absent, file or dir; a link counts as a file and is never followed.", Run: entriesStat},
		{Name: "EntriesStatLink", Rule: "A link counts as a file and is never followed.", need: needLinks, Run: entriesStatLink},
		{Name: "EntriesNeverOverwrite", Rule: "None of them overwrites: where something stands already the answer is CodeExists.", Run: entriesNeverOverwrite},
		{Name: "EntriesRace", Rule: "Also if it has appeared a moment before, the answer is CodeExists.", Run: entriesRace},
		{Name: "EntriesRoundTrip", Rule: "WriteNew, Mkdir, Copy, Move, List and Remove do what they are called.", Run: entriesRoundTrip},
		{Name: "EntriesHooks", Rule: "Resolve and Entry say what names mean, Writable refuses by its error, Trash takes what is removed.", Run: entriesHooks},
		{Name: "EntriesEmptyDirs", Rule: "EmptyDirs returns at most limit of the empty directories below dir; what is in a .git or a node_modules is left out.", Run: entriesEmptyDirs},
		{Name: "EntriesEmptyDirsSeen", Rule: "A directory that has vanished or cannot be read is none of them.", Run: entriesEmptyDirsSeen},
	}
}

func (e Env) entryIs(ctx context.Context, t T, name string, want files.EntryKind) {
	t.Helper()
	if got, err := (files.Entries{FS: e.FS}).Stat(ctx, e.path(name)); err != nil || got != want {
		t.Errorf("%s is %q, %v; want %q", name, got, err, want)
	}
}

func entriesStat(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "d/f")
	e.entryIs(ctx, t, "d", files.EntryDir)
	e.entryIs(ctx, t, "d/f", files.EntryFile)
	e.entryIs(ctx, t, "missing", files.EntryAbsent)
	e.entryIs(ctx, t, "d/f/below", files.EntryAbsent)
	_, err := (files.Entries{FS: e.FS}).Stat(ctx, "a\x00b")
	wantCode(t, "stat of a bad name", err, spec.CodeInvalidPath)
}

func entriesStatLink(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "d/f")
	e.symlink(ctx, t, "d", e.path("link"))
	e.symlink(ctx, t, "nowhere", e.path("dangling"))
	e.entryIs(ctx, t, "link", files.EntryFile)
	e.entryIs(ctx, t, "dangling", files.EntryFile)
}

func entriesNeverOverwrite(ctx context.Context, t T, e Env) {
	ent := files.Entries{FS: e.FS}
	e.writeAll(ctx, t, "f", "d/x", "from", "fromdir/x")
	for _, to := range []string{"f", "d"} {
		wantCode(t, "write new onto "+to, ent.WriteNew(ctx, e.path(to), strings.NewReader("new"), 3), spec.CodeExists)
		for _, from := range []string{"from", "fromdir"} {
			wantCode(t, "copy "+from+" onto "+to, ent.Copy(ctx, e.path(from), e.path(to)), spec.CodeExists)
			wantCode(t, "move "+from+" onto "+to, ent.Move(ctx, e.path(from), e.path(to)), spec.CodeExists)
		}
	}
	if err := ent.Mkdir(ctx, e.path("f")); err == nil {
		t.Errorf("mkdir onto a file: no error")
	}
	if err := ent.Mkdir(ctx, e.path("d")); err != nil {
		t.Errorf("mkdir of what is a directory: %v", err)
	}
	for _, name := range []string{"f", "d/x", "from", "fromdir/x"} {
		e.holds(ctx, t, e.path(name), "content of "+name)
	}
	e.contains(ctx, t, e.Dir, "f", "d", "from", "fromdir")
	e.contains(ctx, t, e.path("d"), "x")
}

func entriesRace(ctx context.Context, t T, e Env) {
	ent := files.Entries{FS: e.FS}
	for round := range 5 {
		to := e.path(fmt.Sprintf("to%d", round))
		from := e.path(fmt.Sprintf("from%d", round))
		e.write(ctx, t, from, "moved")
		e.write(ctx, t, from+"c", "copied")
		calls := []func() error{
			func() error { return ent.WriteNew(ctx, to, strings.NewReader("written"), 7) },
			func() error { return ent.Move(ctx, from, to) },
			func() error { return ent.Copy(ctx, from+"c", to) },
		}
		errs := make([]error, len(calls))
		var wg sync.WaitGroup
		for i, call := range calls {
			wg.Go(func() { errs[i] = call() })
		}
		wg.Wait()
		won := 0
		for i, err := range errs {
			if err == nil {
				won++
				e.holds(ctx, t, to, []string{"written", "moved", "copied"}[i])
				continue
			}
			wantCode(t, "who came too late", err, spec.CodeExists)
		}
		if won != 1 {
			t.Errorf("%d have won, want 1", won)
		}
	}
}

func entriesRoundTrip(ctx context.Context, t T, e Env) {
	ent := files.Entries{FS: e.FS}
	for _, err := range []error{
		ent.Mkdir(ctx, e.path("a/b")),
		ent.WriteNew(ctx, e.path("a/b/f"), strings.NewReader("new"), 3),
		ent.Copy(ctx, e.path("a"), e.path("c")),
		ent.Move(ctx, e.path("a/b/f"), e.path("a/g")),
		ent.Remove(ctx, e.path("a/b")),
	} {
		if err != nil {
			t.Errorf("%v", err)
		}
	}
	e.holds(ctx, t, e.path("c/b/f"), "new")
	e.holds(ctx, t, e.path("a/g"), "new")
	infos, err := ent.List(ctx, e.path("a"))
	if err != nil || len(infos) != 1 || infos[0].Name != "g" {
		t.Errorf("list: %+v, %v", infos, err)
	}
	if err := ent.Remove(ctx, e.path("c")); err != nil {
		t.Errorf("remove: %v", err)
	}
	wantCode(t, "remove again", ent.Remove(ctx, e.path("c")), spec.CodeFileNotFound)
	e.contains(ctx, t, e.Dir, "a")
}

func entriesHooks(ctx context.Context, t T, e Env) {
	refused := errors.New("not here")
	var trashed []string
	ent := files.Entries{
		FS:      e.FS,
		Resolve: func(_ context.Context, name string) (string, error) { return e.path("root/" + name), nil },
		Entry: func(_ context.Context, name string) (string, error) {
			if name == "bad" {
				return "", refused
			}
			return e.path("root/" + name), nil
		},
		Writable: func(_ context.Context, name string) error {
			if strings.HasPrefix(name, e.path("root/ro/")) {
				return refused
			}
			return nil
		},
		Trash: func(ctx context.Context, name string) error {
			trashed = append(trashed, name)
			return e.FS.Rename(ctx, name, e.path("trash"), files.RenameOptions{})
		},
	}
	e.writeAll(ctx, t, "root/f", "root/ro/f", "root/d/x")
	for what, err := range map[string]error{
		"write into what is read-only":  ent.WriteNew(ctx, "ro/g", strings.NewReader(""), 0),
		"mkdir in what is read-only":    ent.Mkdir(ctx, "ro/d"),
		"move out of what is read-only": ent.Move(ctx, "ro/f", "g"),
		"move into what is read-only":   ent.Move(ctx, "f", "ro/g"),
		"copy into what is read-only":   ent.Copy(ctx, "f", "ro/g"),
		"remove what is read-only":      ent.Remove(ctx, "ro/f"),
		"a name that is refused":        ent.Copy(ctx, "bad", "g"),
	} {
		if !errors.Is(err, refused) {
			t.Errorf("%s: %v, want the hook's error", what, err)
		}
	}
	if err := ent.Copy(ctx, "ro/f", "g"); err != nil {
		t.Errorf("copy out of what is read-only: %v", err)
	}
	e.holds(ctx, t, e.path("root/g"), "content of root/ro/f")
	if err := ent.Remove(ctx, "d"); err != nil || !slices.Equal(trashed, []string{e.path("root/d")}) {
		t.Errorf("remove: %v, trashed %q", err, trashed)
	}
	e.holds(ctx, t, e.path("trash/x"), "content of root/d/x")
	if infos, err := ent.List(ctx, "ro"); err != nil || len(infos) != 1 {
		t.Errorf("list: %+v, %v", infos, err)
	}
}

func entriesEmptyDirs(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "full/f", "a/full/f", ".git/f", "web/node_modules/x/f")
	for _, dir := range []string{"a/empty", "b/c/d", "full/sub", ".git/refs", "web/node_modules/y", "z", "only/.git", "\xff\n"} {
		e.mkdir(ctx, t, e.path(dir))
	}
	ent := files.Entries{FS: e.FS}
	all := []string{"a/empty", "b/c/d", "full/sub", "z", "\xff\n"}
	for limit := range len(all) + 2 {
		want := all
		if limit > 0 && limit < len(all) {
			want = all[:limit]
		}
		if got, err := ent.EmptyDirs(ctx, e.Dir, limit); err != nil || !slices.Equal(got, want) {
			t.Errorf("at most %d empty directories are %q, %v; want %q", limit, got, err, want)
		}
	}
	if got, err := ent.EmptyDirs(ctx, e.path("b"), 0); err != nil || !slices.Equal(got, []string{"c/d"}) {
		t.Errorf("the empty directories in b are %q, %v", got, err)
	}
	_, err := ent.EmptyDirs(ctx, e.path("missing"), 0)
	wantCode(t, "the empty directories of what is missing", err, spec.CodeFileNotFound)
}

// unlisted is an FS one of whose directories cannot be read.
type unlisted struct {
	files.FS
	dir  string
	code spec.Code
}

func (u unlisted) List(ctx context.Context, dir string) iter.Seq2[files.Info, error] {
	if dir != u.dir {
		return u.FS.List(ctx, dir)
	}
	return func(yield func(files.Info, error) bool) {
		yield(files.Info{}, &spec.Error{Path: dir, Code: u.code})
	}
}

func entriesEmptyDirsSeen(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "full/f")
	e.mkdir(ctx, t, e.path("empty"))
	for _, code := range []spec.Code{spec.CodePermission, spec.CodeFileNotFound} {
		ent := files.Entries{FS: unlisted{e.FS, e.path("full"), code}}
		if got, err := ent.EmptyDirs(ctx, e.Dir, 0); err != nil || !slices.Equal(got, []string{"empty"}) {
			t.Errorf("%s of a directory: %q are empty, %v", code, got, err)
		}
	}
}
