//go:build linux

package place

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/internal/testutil/swapper"
)

// TestRemoveAgainstASwapper defends: whatever is swapped in a workdir while it is removed,
// nothing outside of the place is removed, opened to anybody or written.
func TestRemoveAgainstASwapper(t *testing.T) {
	r := &Root{Dir: t.TempDir(), Owner: "test"}
	id := ID(r.Owner, "k")
	out := swapper.NewOutside(t, filepath.Join(t.TempDir(), "outside"))
	for range swapper.Attempts() {
		closed := filepath.Join(r.dirOf(id), workspaceName, "closed", "inner")
		if err := errors.Join(os.MkdirAll(closed, 0o700), os.Chmod(closed, 0)); err != nil {
			t.Fatal(err)
		}
		a := swapper.NewArena(t, filepath.Join(r.dirOf(id), workspaceName, "arena"), out)
		err := r.remove(id)
		a.Stop(t)
		if t.Failed() {
			t.Fatal(err)
		}
		if err := r.remove(id); err != nil {
			t.Fatalf("once nobody swaps any more: %v", err)
		}
		if _, err := os.Lstat(r.dirOf(id)); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the place is still there: %v", err)
		}
	}
}
