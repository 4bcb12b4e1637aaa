package filestest

import (
	"context"
	"io/fs"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func modeCases() []Case {
	return []Case{
		{Name: "Chmod", Rule: "Chmod sets the nine permission bits of name. Other bits in mode are CodeInvalid.", need: needChmod, Run: chmodRules},
		{Name: "ChmodFollows", Rule: "Chmod follows a link.", need: both(needChmod, needLinks), Run: chmodFollows},
	}
}

func needChmod(ctx context.Context, e Env) string {
	if spec.CodeOf(files.Chmod(ctx, e.FS, e.Dir, 0o755)) == spec.CodeUnsupported {
		return "a way to change modes"
	}
	return ""
}

// both wants what both want.
func both(a, b need) need {
	return func(ctx context.Context, e Env) string {
		if missing := a(ctx, e); missing != "" {
			return missing
		}
		return b(ctx, e)
	}
}

func chmodRules(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "kept")
	e.mkdir(ctx, t, e.path("d"))
	for _, mode := range []fs.FileMode{0o600, 0o755, 0o444, 0o700, 0o777, 0o644} {
		for name, typ := range map[string]fs.FileMode{"f": 0, "d": fs.ModeDir} {
			if err := files.Chmod(ctx, e.FS, e.path(name), mode); err != nil {
				t.Fatalf("chmod %v %s: %v", mode, name, err)
			}
			if info := e.stat(ctx, t, e.path(name)); info.Mode != typ|mode {
				t.Errorf("%s has mode %v, want %v", name, info.Mode, typ|mode)
			}
		}
	}
	for _, mode := range []fs.FileMode{fs.ModeSetuid | 0o755, fs.ModeDir | 0o755, fs.ModeSticky} {
		wantCode(t, "chmod "+mode.String(), files.Chmod(ctx, e.FS, e.path("f"), mode), spec.CodeInvalid)
	}
	wantCode(t, "chmod of what is missing", files.Chmod(ctx, e.FS, e.path("missing"), 0o644), spec.CodeFileNotFound)
	wantCode(t, "chmod below a file", files.Chmod(ctx, e.FS, e.path("f/x"), 0o644), spec.CodeNotDirectory)
	wantCode(t, "chmod of no name", files.Chmod(ctx, e.FS, "", 0o644), spec.CodeInvalidPath)
	e.holds(ctx, t, e.path("f"), "kept")
}

func chmodFollows(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "f")
	e.symlink(ctx, t, "f", e.path("link"))
	e.symlink(ctx, t, "nowhere", e.path("dangling"))
	if err := files.Chmod(ctx, e.FS, e.path("link"), 0o640); err != nil {
		t.Fatalf("chmod a link: %v", err)
	}
	if info := e.stat(ctx, t, e.path("f")); info.Mode != 0o640 {
		t.Errorf("what the link leads to has mode %v, want 0640", info.Mode)
	}
	if info := e.stat(ctx, t, e.path("link")); info.Mode.Type() != fs.ModeSymlink {
		t.Errorf("the link has become %v", info.Mode)
	}
	wantCode(t, "chmod of a link that leads nowhere", files.Chmod(ctx, e.FS, e.path("dangling"), 0o644), spec.CodeFileNotFound)
}
