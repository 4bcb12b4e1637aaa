//go:build unix

package image

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/spec"
)

// A FIFO in a context, or in place of a Dockerfile, holds nobody up.
func TestFIFOs(t *testing.T) {
	for _, name := range []string{"d/fifo", "Dockerfile"} {
		dir := newContext(t, map[string]string{"d/x": "1"})
		if name != "Dockerfile" {
			put(t, filepath.Join(dir, "Dockerfile"), "FROM scratch")
		}
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Name(context.Background(), spec.Build{Context: dir}, "")
		if err == nil || !errors.Is(err, spec.ErrInvalid) && !errors.Is(err, spec.ErrInvalidPath) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
