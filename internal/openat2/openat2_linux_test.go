package openat2_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/openat2"
)

// TestOpen defends: with words and without it is the kernel's call, which takes no notice of
// them.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	base, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(base)
	defer openat2.Pass(0, 0)
	for _, words := range [][2]uint64{{0, 0}, {1 << 63, 7}} {
		openat2.Pass(words[0], words[1])
		how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH}
		fd, err := openat2.Open(base, "f", &how)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 8)
		if n, err := unix.Read(fd, buf); string(buf[:max(n, 0)]) != "text" {
			t.Errorf("read %q, %v", buf[:max(n, 0)], err)
		}
		unix.Close(fd)
		for name, want := range map[string]error{"none": unix.ENOENT, "../f": unix.EXDEV, "f\x00": unix.EINVAL} {
			if fd, err := openat2.Open(base, name, &how); err != want {
				t.Errorf("%q: %d, %v; want %v", name, fd, err, want)
			}
		}
	}
}
