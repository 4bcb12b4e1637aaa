package filestest

import (
	"context"
	"io/fs"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func symlinkCases() []Case {
	return []Case{
		{Name: "SymlinkMade", Rule: "MakeSymlink makes name a symbolic link to target, any text without a NUL, and its missing parents.", need: needSymlinker, Run: symlinkMade},
		{Name: "SymlinkOnto", Rule: "An existing name is CodeExists unless o.Overwrite is set, which replaces what Write replaces.", need: needSymlinker, Run: symlinkOnto},
	}
}

func symlinkMade(ctx context.Context, t T, e Env) {
	for name, target := range map[string]string{"a/b/l": "no\nwhere\xff", "abs": "/etc/passwd", "up": "../../..", "\xff": "x"} {
		if err := files.MakeSymlink(ctx, e.FS, target, e.path(name), files.SymlinkOptions{}); err != nil {
			t.Errorf("link %q -> %q: %v", name, target, err)
			continue
		}
		if info := e.stat(ctx, t, e.path(name)); info.Mode.Type() != fs.ModeSymlink || info.Target != target {
			t.Errorf("%q is described as %+v", name, info)
		}
	}
	for _, target := range []string{"", "a\x00b"} {
		wantCode(t, "a target that is none", files.MakeSymlink(ctx, e.FS, target, e.path("l"), files.SymlinkOptions{}), spec.CodeInvalid)
	}
	wantCode(t, "a name that is none", files.MakeSymlink(ctx, e.FS, "x", "", files.SymlinkOptions{}), spec.CodeInvalidPath)
	e.contains(ctx, t, e.Dir, "a", "abs", "up", "\xff")
}

func symlinkOnto(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "1")
	e.mkdir(ctx, t, e.path("d/full"))
	e.symlink(ctx, t, "f", e.path("l"))
	e.symlink(ctx, t, "d", e.path("ld"))
	for _, name := range []string{"f", "d", "l", "ld"} {
		wantCode(t, "onto "+name, files.MakeSymlink(ctx, e.FS, "x", e.path(name), files.SymlinkOptions{}), spec.CodeExists)
	}
	over := files.SymlinkOptions{Overwrite: true}
	for _, name := range []string{"d", "ld"} {
		wantCode(t, "over "+name, files.MakeSymlink(ctx, e.FS, "x", e.path(name), over), spec.CodeIsDirectory)
	}
	wantCode(t, "below a file", files.MakeSymlink(ctx, e.FS, "x", e.path("f/l"), over), spec.CodeNotDirectory)
	for _, name := range []string{"f", "l"} {
		if err := files.MakeSymlink(ctx, e.FS, "x", e.path(name), over); err != nil {
			t.Errorf("over %s: %v", name, err)
		}
		if info := e.stat(ctx, t, e.path(name)); info.Target != "x" {
			t.Errorf("%s is described as %+v", name, info)
		}
	}
	e.contains(ctx, t, e.Dir, "f", "d", "l", "ld")
}
