package localfs_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// insideEnv marks a run of this test binary inside a place of a test's own: a mount
// namespace, another user, another limit. Its value is "what=argument".
const insideEnv = "BERTH_LOCALFS_INSIDE"

// inside runs the calling test again in a process that attr describes, with an
// environment that says so. It returns the argument if it is the inner run.
func inside(t *testing.T, what, argument string, attr *syscall.SysProcAttr) (got string, inner bool) {
	t.Helper()
	if name, value, ok := strings.Cut(os.Getenv(insideEnv), "="); ok && name == what {
		return value, true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"="+what+"="+argument)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the inner run: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("the inner run has not passed:\n%s", out)
	}
	return "", false
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can set this up")
	}
}

// anybody is a user without any rights.
const anybody = 65534

// asNobody makes dir belong to a user without rights, whom the process is then.
func asNobody(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if err := os.Chown(dir, anybody, anybody); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: anybody, Gid: anybody}}
}

// openTempDir is a directory that every user can reach, unlike t.TempDir.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "localfs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// privateMounts makes what the process mounts its own affair.
func privateMounts(t *testing.T) {
	t.Helper()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
}

func mountTmpfs(t *testing.T, dir string, options string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// openFiles is how many descriptors the process holds.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func octal(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.ParseInt(s, 8, 32)
	if err != nil {
		t.Fatal(fmt.Errorf("umask %q: %w", s, err))
	}
	return int(n)
}
