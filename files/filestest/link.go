package filestest

import (
	"context"
	"io/fs"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func linkCases() []Case {
	return []Case{
		{Name: "LinkStat", Rule: "Stat describes the link itself unless asked to follow.", need: needLinks, Run: linkStat},
		{Name: "LinkOpen", Rule: "Open follows unless told not to; NoFollow refuses a link as the last element with CodeNotRegular.", need: needLinks, Run: linkOpen},
		{Name: "LinkWrite", Rule: "Write replaces the link by a regular file and leaves what it pointed to alone.", need: needLinks, Run: linkWrite},
		{Name: "LinkToDirectory", Rule: "A link to a directory counts as a directory for Write (CodeIsDirectory).", need: needLinks, Run: linkToDirectory},
		{Name: "LinkInTheMiddle", Rule: "A link in the middle of a path is followed, inside the place, by the place.", need: needLinks, Run: linkInTheMiddle},
		{Name: "LinkDangling", Rule: "CodeNotDirectory: a file, or a dangling link, stands where a directory is needed, at any distance.", need: needLinks, Run: linkDangling},
		{Name: "LinkLoop", Rule: "CodeInvalidPath says what it says: links that lead to each other are no path.", need: needLinks, Run: linkLoop},
		{Name: "LinkRemove", Rule: "Remove acts on the link itself; it never follows one.", need: needLinks, Run: linkRemove},
		{Name: "LinkRename", Rule: "Rename acts on the link itself.", need: needLinks, Run: linkRename},
		{Name: "LinkDotDot", Rule: "\"..\" is an ordinary element: behind a link it leads to the parent of where the link points.", need: needLinks, Run: linkDotDot},
	}
}

// kind checks the type of name itself.
func (e Env) kind(ctx context.Context, t T, name string, want fs.FileMode) {
	t.Helper()
	if got := e.stat(ctx, t, name).Mode.Type(); got != want {
		t.Errorf("%q is %v, want %v", name, got, want)
	}
}

func linkStat(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "12345")
	e.mkdir(ctx, t, e.path("d"))
	for target, want := range map[string]fs.FileMode{"f": 0, e.path("d"): fs.ModeDir, "no\nwhere\xff": fs.ModeIrregular} {
		e.symlink(ctx, t, target, e.path("l"))
		info := e.stat(ctx, t, e.path("l"))
		if info.Name != "l" || info.Mode.Type() != fs.ModeSymlink || info.Target != target || info.IsDir() || info.IsRegular() {
			t.Errorf("the link to %q is described as %+v", target, info)
		}
		info, err := e.FS.Stat(ctx, e.path("l"), files.StatOptions{Follow: true})
		if want == fs.ModeIrregular {
			wantCode(t, "follow a dangling link", err, spec.CodeFileNotFound)
		} else if err != nil || info.Name != "l" || info.Mode.Type() != want || info.Target != "" {
			t.Errorf("what the link to %q leads to is described as %+v, %v", target, info, err)
		}
		for info, err := range e.FS.List(ctx, e.Dir) {
			if err != nil {
				t.Fatalf("list: %v", err)
			}
			if info.Name == "l" && (info.Mode.Type() != fs.ModeSymlink || info.Target != target) {
				t.Errorf("the link to %q is listed as %+v", target, info)
			}
		}
		if err := e.FS.Remove(ctx, e.path("l"), files.RemoveOptions{}); err != nil {
			t.Fatalf("remove the link: %v", err)
		}
	}
}

func linkOpen(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("d/f"), "pointee")
	e.symlink(ctx, t, "d/f", e.path("l"))
	e.symlink(ctx, t, e.path("l"), e.path("ll"))
	e.symlink(ctx, t, "nowhere", e.path("dangling"))
	e.symlink(ctx, t, "d", e.path("dir"))
	for _, name := range []string{"l", "ll"} {
		e.holds(ctx, t, e.path(name), "pointee")
		wantCode(t, "open without following "+name, e.open(ctx, e.path(name), files.OpenOptions{NoFollow: true}), spec.CodeNotRegular)
	}
	wantCode(t, "open a dangling link", e.open(ctx, e.path("dangling"), files.OpenOptions{}), spec.CodeFileNotFound)
	wantCode(t, "open a dangling link without following", e.open(ctx, e.path("dangling"), files.OpenOptions{NoFollow: true}), spec.CodeNotRegular)
	wantCode(t, "open a link to a directory", e.open(ctx, e.path("dir"), files.OpenOptions{}), spec.CodeIsDirectory)
	if got := e.read(ctx, t, e.path("dir/f"), files.OpenOptions{NoFollow: true}); got != "pointee" {
		t.Errorf("a link in the middle under NoFollow gives %q", got)
	}
}

func linkWrite(ctx context.Context, t T, e Env) {
	e.writeMode(ctx, t, e.path("pointee"), "secret", files.WriteOptions{Mode: 0o600})
	for _, target := range []string{"pointee", e.path("pointee"), "nowhere"} {
		for _, o := range []files.WriteOptions{{}, {Sync: true}, {Mode: 0o755}} {
			e.symlink(ctx, t, target, e.path("l"))
			wantCode(t, "write a link exclusively", e.writeString(ctx, e.path("l"), "x", files.WriteOptions{Exclusive: true}), spec.CodeExists)
			e.writeMode(ctx, t, e.path("l"), "new", o)
			want := o.Mode
			if want == 0 {
				want = 0o644
			}
			if info := e.stat(ctx, t, e.path("l")); info.Mode != want {
				t.Errorf("the link to %q has become %v, want a regular file %v", target, info.Mode, want)
			}
			e.holds(ctx, t, e.path("l"), "new")
			if err := e.FS.Remove(ctx, e.path("l"), files.RemoveOptions{}); err != nil {
				t.Fatalf("remove: %v", err)
			}
		}
	}
	e.holds(ctx, t, e.path("pointee"), "secret")
	if info := e.stat(ctx, t, e.path("pointee")); info.Mode != 0o600 {
		t.Errorf("what the link pointed to has mode %v, want 0600", info.Mode)
	}
	e.contains(ctx, t, e.Dir, "pointee")
}

func linkToDirectory(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("d/f"), "inner")
	e.symlink(ctx, t, "d", e.path("l"))
	for _, name := range []string{"l", "l/"} {
		wantCode(t, "write "+name, e.writeString(ctx, e.path(name), "x", files.WriteOptions{}), spec.CodeIsDirectory)
		e.contains(ctx, t, e.path(name), "f")
	}
	wantCode(t, "mkdir over a link", e.FS.Mkdir(ctx, e.path("l"), files.MkdirOptions{}), spec.CodeExists)
	if err := e.FS.Mkdir(ctx, e.path("l"), files.MkdirOptions{Parents: true}); err != nil {
		t.Errorf("mkdir with parents of a link to a directory: %v", err)
	}
	e.kind(ctx, t, e.path("l"), fs.ModeSymlink)
	e.kind(ctx, t, e.path("l/"), fs.ModeDir)
	e.contains(ctx, t, e.Dir, "d", "l")
}

func linkInTheMiddle(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("d/sub/f"), "inner")
	e.symlink(ctx, t, "d", e.path("l"))
	e.symlink(ctx, t, e.path("d"), e.path("d/sub/up"))
	e.holds(ctx, t, e.path("l/sub/up/sub/f"), "inner")
	e.write(ctx, t, e.path("l/sub/up/new/g"), "made")
	e.holds(ctx, t, e.path("d/new/g"), "made")
	if err := e.FS.Rename(ctx, e.path("l/new/g"), e.path("l/sub/g"), files.RenameOptions{}); err != nil {
		t.Errorf("rename through links: %v", err)
	}
	if err := e.FS.Remove(ctx, e.path("l/sub/g"), files.RemoveOptions{}); err != nil {
		t.Errorf("remove through a link: %v", err)
	}
	e.contains(ctx, t, e.path("d/sub"), "f", "up")
}

func linkDangling(ctx context.Context, t T, e Env) {
	e.mkdir(ctx, t, e.path("d"))
	e.symlink(ctx, t, "nowhere", e.path("d/l"))
	for _, name := range []string{e.path("d/l/x"), e.path("d/l/x/y/z")} {
		wantCode(t, "write "+name, e.writeString(ctx, name, noise(256<<10, 15), files.WriteOptions{}), spec.CodeNotDirectory)
		wantCode(t, "open "+name, e.open(ctx, name, files.OpenOptions{}), spec.CodeNotDirectory)
		_, err := e.FS.Stat(ctx, name, files.StatOptions{})
		wantCode(t, "stat "+name, err, spec.CodeNotDirectory)
		_, err = files.ReadDir(ctx, e.FS, name, 0)
		wantCode(t, "list "+name, err, spec.CodeNotDirectory)
		wantCode(t, "mkdir with parents "+name, e.FS.Mkdir(ctx, name, files.MkdirOptions{Parents: true}), spec.CodeNotDirectory)
		wantCode(t, "remove "+name, e.FS.Remove(ctx, name, files.RemoveOptions{}), spec.CodeNotDirectory)
	}
	wantCode(t, "mkdir with parents of the link", e.FS.Mkdir(ctx, e.path("d/l"), files.MkdirOptions{Parents: true}), spec.CodeNotDirectory)
	wantCode(t, "mkdir of the link", e.FS.Mkdir(ctx, e.path("d/l"), files.MkdirOptions{}), spec.CodeExists)
	e.kind(ctx, t, e.path("d/l"), fs.ModeSymlink)
	e.contains(ctx, t, e.path("d"), "l")
}

func linkLoop(ctx context.Context, t T, e Env) {
	e.symlink(ctx, t, "b", e.path("a"))
	e.symlink(ctx, t, "a", e.path("b"))
	wantCode(t, "open", e.open(ctx, e.path("a"), files.OpenOptions{}), spec.CodeInvalidPath)
	wantCode(t, "open below", e.open(ctx, e.path("a/x"), files.OpenOptions{}), spec.CodeInvalidPath)
	wantCode(t, "write below", e.writeString(ctx, e.path("a/x"), "x", files.WriteOptions{}), spec.CodeInvalidPath)
	_, err := e.FS.Stat(ctx, e.path("a"), files.StatOptions{Follow: true})
	wantCode(t, "stat", err, spec.CodeInvalidPath)
	e.kind(ctx, t, e.path("a"), fs.ModeSymlink)
	e.write(ctx, t, e.path("a"), "replaced")
	e.holds(ctx, t, e.path("b"), "replaced")
}

func linkRemove(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("outside/f"), "kept")
	e.write(ctx, t, e.path("d/sub/own"), "goes")
	e.symlink(ctx, t, e.path("outside"), e.path("d/sub/l"))
	e.symlink(ctx, t, "../outside/f", e.path("d/lf"))
	e.symlink(ctx, t, "nowhere", e.path("d/dangling"))
	e.symlink(ctx, t, "outside", e.path("top"))
	if err := e.FS.Remove(ctx, e.path("d"), files.RemoveOptions{Recursive: true}); err != nil {
		t.Errorf("remove a tree with links: %v", err)
	}
	wantCode(t, "remove a link with a slash behind it", e.FS.Remove(ctx, e.path("top/"), files.RemoveOptions{Recursive: true}), spec.CodeNotDirectory)
	if err := e.FS.Remove(ctx, e.path("top"), files.RemoveOptions{Recursive: true}); err != nil {
		t.Errorf("remove a link to a directory: %v", err)
	}
	e.holds(ctx, t, e.path("outside/f"), "kept")
	e.contains(ctx, t, e.Dir, "outside")
}

func linkRename(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("d/f"), "kept")
	e.symlink(ctx, t, "d", e.path("l"))
	e.write(ctx, t, e.path("g"), "g")
	wantCode(t, "rename onto a link", e.FS.Rename(ctx, e.path("g"), e.path("l"), files.RenameOptions{}), spec.CodeExists)
	if err := e.FS.Rename(ctx, e.path("l"), e.path("m"), files.RenameOptions{}); err != nil {
		t.Errorf("rename a link: %v", err)
	}
	if info := e.stat(ctx, t, e.path("m")); info.Target != "d" {
		t.Errorf("the renamed link is %+v", info)
	}
	if err := e.FS.Rename(ctx, e.path("g"), e.path("m"), files.RenameOptions{Overwrite: true}); err != nil {
		t.Errorf("rename over a link to a directory: %v", err)
	}
	e.kind(ctx, t, e.path("m"), 0)
	e.contains(ctx, t, e.path("d"), "f")
	e.contains(ctx, t, e.Dir, "d", "m")
}

func linkDotDot(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "beside the link")
	e.write(ctx, t, e.path("d/f"), "beside the directory")
	e.mkdir(ctx, t, e.path("d/sub"))
	e.symlink(ctx, t, "d/sub", e.path("l"))
	e.holds(ctx, t, e.path("l/../f"), "beside the directory")
	e.write(ctx, t, e.path("l/../g"), "g")
	e.holds(ctx, t, e.path("d/g"), "g")
}
