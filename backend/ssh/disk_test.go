//go:build linux

package ssh_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files/filestest"
	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/spec"
)

// A small disk on the far side that fills up keeps what was there.
func TestSmallDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	const size = 4 << 20
	dir := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	sess := provision(t, newDriver(t, farOptions(t, sshtest.Start(t, sshtest.Options{}))), spec.Spec{})
	filestest.SmallDisk(t.Context(), t, filestest.Env{FS: sess.Files(), Dir: dir}, size)
}
