package localfs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files/filestest"
	"github.com/berth-dev/berth/files/localfs"
)

// shell runs a script on this machine.
func shell(ctx context.Context, script string) (string, error) {
	out, err := exec.CommandContext(ctx, "/bin/sh", "-c", script).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

// tempDir is an empty directory under a name without links.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// localfs keeps the whole contract, and holds no descriptor afterwards.
func TestContract(t *testing.T) {
	before := openFiles(t)
	filestest.Run(t, func(t *testing.T) filestest.Env {
		dir := tempDir(t)
		return filestest.Env{FS: localfs.New(dir), Dir: dir, Shell: shell, Soak: os.Getenv("BERTH_TEST_SOAK") != ""}
	})
	runtime.GC() // a File that a case forgot to close would be counted only until then
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

// The same for a user without rights, whose umask takes away everything: what
// Berth promises of modes holds whatever the umask.
func TestContractAsNobodyUnderAnyUmask(t *testing.T) {
	umasks := []string{"0777", "0000"}
	if testing.Short() {
		umasks = umasks[:1]
	}
	for _, umask := range umasks {
		if os.Getenv(insideEnv) != "" {
			break
		}
		needRoot(t)
		dir := openTempDir(t)
		inside(t, "nobody", umask+" "+dir, asNobody(t, dir))
	}
	if os.Getenv(insideEnv) == "" {
		return
	}
	argument, _ := inside(t, "nobody", "", nil)
	var umask, dir string
	if _, err := fmt.Sscan(argument, &umask, &dir); err != nil {
		t.Fatal(err)
	}
	n := 0
	filestest.Run(t, func(t *testing.T) filestest.Env {
		n++
		own := fmt.Sprintf("%s/%d", dir, n)
		if err := os.Mkdir(own, 0o755); err != nil {
			t.Fatal(err)
		}
		previous := unix.Umask(octal(t, umask))
		t.Cleanup(func() { unix.Umask(previous) })
		return filestest.Env{FS: localfs.New(own), Dir: own, Shell: func(ctx context.Context, script string) (string, error) {
			return shell(ctx, "umask 022; "+script)
		}}
	})
}
