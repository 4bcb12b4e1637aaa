package filestest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func conditionCases() []Case {
	return []Case{
		{Name: "WriteIfSHA256", Rule: "IfSHA256 writes only if name is a regular file whose bytes have this SHA-256; else CodeExists, or CodeFileNotFound.", Run: writeIf},
		{Name: "WriteIfSHA256Link", Rule: "IfSHA256 writes only if name is a regular file.", need: needLinks, Run: writeIfLink},
	}
}

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

func writeIf(ctx context.Context, t T, e Env) {
	name := e.path("f")
	large := noise(300_000, 21)
	e.writeMode(ctx, t, name, "old", files.WriteOptions{Mode: 0o750})
	wantCode(t, "a write where the file holds something else", e.writeString(ctx, name, large, files.WriteOptions{IfSHA256: sum("older")}), spec.CodeExists)
	e.holds(ctx, t, name, "old")
	if err := e.writeString(ctx, name, large, files.WriteOptions{IfSHA256: sum("old")}); err != nil {
		t.Fatalf("a write where the file holds what it must: %v", err)
	}
	e.holds(ctx, t, name, large)
	if err := e.writeString(ctx, name, "", files.WriteOptions{IfSHA256: sum(large)}); err != nil {
		t.Errorf("a write of nothing: %v", err)
	}
	if info := e.stat(ctx, t, name); info.Mode != fs.FileMode(0o750) || info.Size != 0 {
		t.Errorf("the file is described as %+v, want 0750 and empty", info)
	}
	wantCode(t, "a write where there is no file", e.writeString(ctx, e.path("missing"), "x", files.WriteOptions{IfSHA256: sum("")}), spec.CodeFileNotFound)
	e.mkdir(ctx, t, e.path("d"))
	err := e.writeString(ctx, e.path("d"), "x", files.WriteOptions{IfSHA256: sum("")})
	if spec.CodeOf(err) != spec.CodeExists { // both are true
		wantCode(t, "a write where there is a directory", err, spec.CodeIsDirectory)
	}
	for _, bad := range []string{"x", strings.Repeat("g", 64), sum("")[:63]} {
		wantCode(t, "a write with a hash that is none", e.writeString(ctx, name, "x", files.WriteOptions{IfSHA256: bad}), spec.CodeInvalid)
	}
	e.contains(ctx, t, e.Dir, "f", "d")
}

func writeIfLink(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "kept")
	e.symlink(ctx, t, "f", e.path("link"))
	wantCode(t, "a write where there is a link", e.writeString(ctx, e.path("link"), "x", files.WriteOptions{IfSHA256: sum("kept")}), spec.CodeExists)
	e.holds(ctx, t, e.path("f"), "kept")
	if info := e.stat(ctx, t, e.path("link")); info.Mode.Type() != fs.ModeSymlink {
		t.Errorf("the link has become %v", info.Mode)
	}
	e.contains(ctx, t, e.Dir, "f", "link")
}
