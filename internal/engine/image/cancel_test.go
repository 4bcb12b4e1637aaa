package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-dev/berth/spec"
)

// A context whose files take hours to read can be cancelled while one of them is read.
func TestHugeFileIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int64{"Dockerfile": 0, "huge": 1 << 40} { // a hole
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name), nil, 0o600), os.Truncate(filepath.Join(dir, name), size)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Name(ctx, spec.Build{Context: dir}, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want the context's error", err)
	}
}
