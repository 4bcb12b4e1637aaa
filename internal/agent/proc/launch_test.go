//go:build linux

package proc

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// TestOpenDirAtALimit defends: that the guest has no descriptor left is said of the place,
// which may answer later, and not of the directory, which is as good as before.
func TestOpenDirAtALimit(t *testing.T) {
	dir := t.TempDir()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &none, nil); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(dir, "")
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	if err == nil {
		d.Close()
	}
	var e *spec.Error
	if !errors.As(err, &e) || e.Code != spec.CodeUnavailable || e.Path != "" || e.Hint == "" || !errors.Is(err, unix.EMFILE) {
		t.Errorf("%v", err)
	}
	if d, err = OpenDir(dir, ""); err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	d.Close()
}
