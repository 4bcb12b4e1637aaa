package filestest

import (
	"context"
	"fmt"
	"sync"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func renameCases() []Case {
	return []Case{
		{Name: "RenameRefuses", Rule: "An existing newname is CodeExists, checked atomically, unless Overwrite is set.", Run: renameRefuses},
		{Name: "RenameOverwrites", Rule: "An existing newname is CodeExists, unless Overwrite is set.", Run: renameOverwrites},
		{Name: "RenameDirectory", Rule: "Rename moves oldname to newname.", Run: renameDirectory},
		{Name: "RenameRace", Rule: "An existing newname is CodeExists, checked atomically.", Run: renameRace},
	}
}

func renameRefuses(ctx context.Context, t T, e Env) {
	plain := files.RenameOptions{}
	e.write(ctx, t, e.path("a"), "a")
	e.write(ctx, t, e.path("b"), "b")
	e.mkdir(ctx, t, e.path("d"))
	for _, over := range []string{"b", "d", "d/", "a"} {
		err := e.FS.Rename(ctx, e.path("a"), e.path(over), plain)
		if over == "d/" { // only a directory may take a name with a slash behind it
			wantCode(t, "rename a file to "+over, err, spec.CodeNotDirectory)
			continue
		}
		wantCode(t, "rename onto "+over, err, spec.CodeExists)
	}
	wantCode(t, "rename to below a file", e.FS.Rename(ctx, e.path("a"), e.path("b/x"), plain), spec.CodeNotDirectory)
	wantCode(t, "rename to below what is missing", e.FS.Rename(ctx, e.path("a"), e.path("missing/x"), plain), spec.CodeFileNotFound)
	wantCode(t, "rename a file with a slash behind it", e.FS.Rename(ctx, e.path("a/"), e.path("c"), plain), spec.CodeNotDirectory)
	e.holds(ctx, t, e.path("a"), "a")
	e.holds(ctx, t, e.path("b"), "b")
	if err := e.FS.Rename(ctx, e.path("a"), e.path("d/c"), plain); err != nil {
		t.Errorf("rename into another directory: %v", err)
	}
	e.holds(ctx, t, e.path("d/c"), "a")
	e.contains(ctx, t, e.Dir, "b", "d")
}

func renameOverwrites(ctx context.Context, t T, e Env) {
	over := files.RenameOptions{Overwrite: true}
	e.writeMode(ctx, t, e.path("a"), "a", files.WriteOptions{Mode: 0o600})
	e.write(ctx, t, e.path("b"), "b")
	e.mkdir(ctx, t, e.path("empty"))
	e.write(ctx, t, e.path("full/f"), "kept")
	wantCode(t, "a missing name", e.FS.Rename(ctx, e.path("missing"), e.path("b"), over), spec.CodeFileNotFound)
	wantCode(t, "a file over a directory", e.FS.Rename(ctx, e.path("a"), e.path("empty"), over), spec.CodeIsDirectory)
	wantCode(t, "a directory over a file", e.FS.Rename(ctx, e.path("empty"), e.path("a"), over), spec.CodeNotDirectory)
	wantCode(t, "a directory over a full one", e.FS.Rename(ctx, e.path("empty"), e.path("full"), over), spec.CodeExists)
	if err := e.FS.Rename(ctx, e.path("a"), e.path("a"), over); err != nil {
		t.Errorf("rename a file to itself: %v", err)
	}
	e.holds(ctx, t, e.path("a"), "a")
	if err := e.FS.Rename(ctx, e.path("a"), e.path("b"), over); err != nil {
		t.Errorf("rename over a file: %v", err)
	}
	e.holds(ctx, t, e.path("b"), "a")
	if info := e.stat(ctx, t, e.path("b")); info.Mode != 0o600 {
		t.Errorf("the renamed file has mode %v, want its own 0600", info.Mode)
	}
	if err := e.FS.Rename(ctx, e.path("full"), e.path("empty"), over); err != nil {
		t.Errorf("rename a directory over an empty one: %v", err)
	}
	e.holds(ctx, t, e.path("empty/f"), "kept")
	e.contains(ctx, t, e.Dir, "b", "empty")
}

func renameDirectory(ctx context.Context, t T, e Env) {
	plain := files.RenameOptions{}
	e.write(ctx, t, e.path("d/sub/f"), "f")
	wantCode(t, "a directory into itself", e.FS.Rename(ctx, e.path("d"), e.path("d/sub/x"), plain), spec.CodeInvalid)
	wantCode(t, "a directory onto itself", e.FS.Rename(ctx, e.path("d"), e.path("d"), plain), spec.CodeExists)
	if err := e.FS.Rename(ctx, e.path("d/"), e.path("e/"), plain); err != nil {
		t.Errorf("rename a directory: %v", err)
	}
	e.holds(ctx, t, e.path("e/sub/f"), "f")
	if err := e.FS.Rename(ctx, e.path("e/sub"), e.path("sub"), plain); err != nil {
		t.Errorf("rename a directory to elsewhere: %v", err)
	}
	e.holds(ctx, t, e.path("sub/../sub/f"), "f")
	e.contains(ctx, t, e.Dir, "e", "sub")
}

func renameRace(ctx context.Context, t T, e Env) {
	const movers = 8
	for i := range movers {
		e.write(ctx, t, e.path(fmt.Sprintf("from%d", i)), fmt.Sprint(i))
	}
	errs := make([]error, movers)
	var wg sync.WaitGroup
	for i := range movers {
		wg.Go(func() {
			errs[i] = e.FS.Rename(ctx, e.path(fmt.Sprintf("from%d", i)), e.path("to"), files.RenameOptions{})
		})
	}
	wg.Wait()
	winners := 0
	for i, err := range errs {
		if err == nil {
			winners++
			e.holds(ctx, t, e.path("to"), fmt.Sprint(i))
			continue
		}
		wantCode(t, "a loser", err, spec.CodeExists)
		e.holds(ctx, t, e.path(fmt.Sprintf("from%d", i)), fmt.Sprint(i))
	}
	if winners != 1 {
		t.Errorf("%d movers have won, want one", winners)
	}
}
