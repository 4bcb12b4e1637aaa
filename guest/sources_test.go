//go:build linux

package guest_test

import (
	"context"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/spec"
)

// A source that is nil is an empty one, wherever one is taken; where that cannot be what was
// meant it is the caller's error, before anything is sent. It never ends the program.
func TestNoSource(t *testing.T) {
	s, ctx := newPlace(t).open(nil), context.Background()
	fsys := s.Files()
	empty := func(name string) {
		t.Helper()
		if data, err := files.ReadFile(ctx, fsys, name, 0); err != nil || len(data) != 0 {
			t.Errorf("%s: %q, %v; want an empty file", name, data, err)
		}
	}
	if err := fsys.Write(ctx, "a", nil, 0, files.WriteOptions{}); err != nil {
		t.Errorf("write: %v", err)
	}
	empty("a")
	if err := fsys.Write(ctx, "b", nil, 7, files.WriteOptions{AnySize: true}); err != nil {
		t.Errorf("write of any size: %v", err)
	}
	empty("b")
	wantCode(t, fsys.Write(ctx, "c", nil, 7, files.WriteOptions{}), spec.CodeInvalid)
	if _, err := fsys.Stat(ctx, "c", files.StatOptions{}); spec.CodeOf(err) != spec.CodeFileNotFound {
		t.Errorf("after a write that was refused: %v", err)
	}

	if n, err := files.WriteBatch(ctx, fsys, sequence(files.BatchFile{Name: "d"}, named("e", "x")), files.BatchOptions{}); err != nil || n != 2 {
		t.Errorf("batch: %d files, %v", n, err)
	}
	empty("d")
	_, err := files.WriteBatch(ctx, fsys, sequence(files.BatchFile{Name: "f", Size: 7}), files.BatchOptions{})
	wantCode(t, err, spec.CodeInvalid)

	_, err = tree.Import(ctx, fsys, "g", nil, tree.ImportOptions{})
	wantCode(t, err, spec.CodeInvalid)
}
