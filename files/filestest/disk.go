package filestest

import (
	"context"
	"io"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// SmallDisk tries what becomes of files when a disk fills up: a file that is replaced
// keeps its content, a new one is not there, no temporary file is left, and the space is
// free again. It is no case, since it needs what not every place has: e.Dir is on a disk
// of size bytes that nobody else writes to.
func SmallDisk(ctx context.Context, t T, e Env, size int64) {
	t.Helper()
	fill := func(name string, n int64, o files.WriteOptions) error {
		return e.FS.Write(ctx, e.path(name), io.LimitReader(zeros{}, n), n, o)
	}
	e.write(ctx, t, e.path("f"), "kept")
	for range 2 { // the second time there is as much space as the first
		wantCode(t, "replace a file by more than fits", fill("f", size+1, files.WriteOptions{}), spec.CodeNoSpace)
		wantCode(t, "a new file of more than fits", fill("new", size+1, files.WriteOptions{}), spec.CodeNoSpace)
		wantCode(t, "an exclusive one", fill("new", size+1, files.WriteOptions{Exclusive: true}), spec.CodeNoSpace)
		e.contains(ctx, t, e.Dir, "f")
	}
	piece := strings.Repeat("x", int(size/4)+1)
	_, err := files.WriteBatch(ctx, e.FS, func(yield func(files.BatchFile, error) bool) {
		for _, name := range []string{"f", "1", "2", "3", "4"} {
			if !yield(batchFile(e.path(name), piece), nil) {
				return
			}
		}
	}, files.BatchOptions{})
	wantCode(t, "a batch of more than fits", err, spec.CodeNoSpace)
	e.contains(ctx, t, e.Dir, "f")
	if err := fill("most", size/5*3, files.WriteOptions{}); err != nil {
		t.Errorf("write what fits: %v", err)
	}
	wantCode(t, "a copy of more than fits", e.copy(ctx, "most", "f", files.CopyOptions{Overwrite: true}), spec.CodeNoSpace)
	e.contains(ctx, t, e.Dir, "f", "most")
	e.holds(ctx, t, e.path("f"), "kept")
	for _, name := range []string{"f", "most"} {
		if err := e.FS.Remove(ctx, e.path(name), files.RemoveOptions{}); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	e.contains(ctx, t, e.Dir)
}

// zeros is a source that never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
