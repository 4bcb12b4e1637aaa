package isolate_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// asOrdinary runs the calling test as a user who is not root: what is closed is closed to
// that user.
func asOrdinary(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "program"), program, 0o755)
	}
	for at := dir; err == nil && at != "/" && at != os.TempDir(); at = filepath.Dir(at) {
		err = os.Chmod(at, 0o755)
	}
	tmp := filepath.Join(dir, "tmp")
	if err == nil {
		err = os.Mkdir(tmp, 0o777)
	}
	if err == nil {
		err = os.Chmod(tmp, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "program"), "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = tmp, []string{"TMPDIR=" + tmp, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v:\n%s", err, out)
	}
}
