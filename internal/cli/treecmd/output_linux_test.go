package treecmd

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// write makes name hold text as an export would.
func write(t *testing.T, name, text string) error {
	t.Helper()
	out, err := openOutput(t.Context(), name)
	if err != nil {
		return err
	}
	defer out.discard()
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	return out.keep()
}

// A link stays where it is, and what it leads to is replaced, or made.
func TestOutputBehindLinks(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{
		"there": "sub/old", "missing": "sub/new", "twice": "there", "absolute": dir + "/sub/absolute",
		// ".." leads up from where in leads, which is sub/in, not from here.
		"in": "sub/in", "up": "in/../above",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "sub/in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub/old"), []byte("longer than the new one"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, file := range map[string]string{
		"there": "sub/old", "missing": "sub/new", "twice": "sub/old", "absolute": "sub/absolute", "up": "sub/above", "in/in": "sub/in/in",
	} {
		if err := write(t, filepath.Join(dir, link), link); err != nil {
			t.Errorf("%s: %v", link, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, file)); string(got) != link {
			t.Errorf("%s leads to %q, %v", link, got, err)
		}
		if info, err := os.Lstat(filepath.Join(dir, link)); err != nil || link != "in/in" && info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s is %v, %v", link, info, err)
		}
	}
	noneLeft(t, dir)
	noneLeft(t, dir+"/sub")
}

// noneLeft checks that no file without a name of its own is in dir.
func noneLeft(t *testing.T, dir string) {
	t.Helper()
	if left, _ := filepath.Glob(dir + "/.berth-export-*"); left != nil {
		t.Errorf("left: %q", left)
	}
}

// A device is written to and stays one; where it is full the file is not replaced either.
func TestOutputToADevice(t *testing.T) {
	for name, minor := range map[string]uint32{"null": 3, "full": 7} {
		name = filepath.Join(t.TempDir(), name)
		if err := unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(1, minor))); err != nil {
			t.Skipf("no device can be made: %v", err)
		}
		err := write(t, name, "1")
		if errors.Is(err, unix.EACCES) || spec.CodeOf(err) == spec.CodePermission {
			t.Skipf("devices do not work here: %v", err)
		}
		if want := minor == 7; errors.Is(err, unix.ENOSPC) != want || !want && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Lstat(name); err != nil || info.Mode()&fs.ModeCharDevice == 0 {
			t.Errorf("it is %v, %v", info, err)
		}
	}
}

// The wait for the reader of a FIFO ends with the caller's patience.
func TestOutputToAFIFOWithoutAReader(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := openOutput(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("opened: %v", err)
	}
}

// What cannot be written to is refused at once, and is as it was.
func TestOutputRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("loop", dir+"/loop"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, dir+"/dir"); err != nil {
		t.Fatal(err)
	}
	usage := spec.CodeOf(verb.Usage("a directory"))
	for name, want := range map[string]spec.Code{
		dir: usage, dir + "/dir": usage, dir + "/loop": spec.CodeUnavailable,
		dir + "/none/f": spec.CodeFileNotFound, dir + "/none/": spec.CodeFileNotFound, "/dev/fd/987": spec.CodeFileNotFound,
	} {
		if err := write(t, name, "1"); spec.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	noneLeft(t, dir)
}
