//go:build linux

package process_test

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// TestDiskFull defends: a command that fills the file system of its workdir is told so by
// the system, the file API answers no_space and leaves what was there, and the place goes
// on and is as good as new once there is room again.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	levels(t, func(t *testing.T, level spec.Isolation) {
		work := t.TempDir()
		if err := unix.Mount("none", work, "tmpfs", 0, "size=2m,mode=0777"); err != nil {
			t.Skipf("no file system of its own: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(work, unix.MNT_DETACH) })
		s := provision(t, open(t, options(t)), spec.Spec{Isolation: level, Workdir: work})
		fsys := s.Files()
		if err := files.WriteFile(within(t), fsys, "kept", []byte("old"), files.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		refused(t, s, "cat /dev/zero >full 2>/dev/null")
		err := files.WriteFile(within(t), fsys, "kept", bytes.Repeat([]byte("new"), 100_000), files.WriteOptions{})
		wantCode(t, err, spec.CodeNoSpace)
		if data, err := files.ReadFile(within(t), fsys, "kept", 0); err != nil || string(data) != "old" {
			t.Errorf("what was there is %.20q, %v", data, err)
		}
		if got := must(t, s, "echo works"); got != "works" {
			t.Errorf("a command says %q", got)
		}
		if err := fsys.Remove(within(t), "full", files.RemoveOptions{}); err != nil {
			t.Error(err)
		}
		if err := files.WriteFile(within(t), fsys, "kept", bytes.Repeat([]byte("new"), 100_000), files.WriteOptions{}); err != nil {
			t.Errorf("once there is room again: %v", err)
		}
	})
}
