//go:build linux

package cli

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/testutil/dockertest"
)

// The command is the same on a container: status, bytes, limits, timeout. A sandbox is
// found by its key alone, whatever backend has it.
func TestContainer(t *testing.T) {
	var engine dockertest.Engine
	host := engine.Host(t)
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	image := engine.Image(t, dockertest.Image{Kind: dockertest.Busybox})
	model, dir := berthCommand(t)
	t.Cleanup(func() { nothingLeft(t, filepath.Dir(dir)) })
	run := func(stdin string, args ...string) (stdout, stderr string, status int) {
		t.Helper()
		cmd := exec.Command("berth", args...)
		cmd.Dir = model.Dir
		// The toolchain that builds the guest has its caches in the home directory.
		cmd.Env = append(cmd.Environ(), "DOCKER_HOST="+host, "BERTH_STATE_DIR="+filepath.Join(dir, "state"), "SANDBOX_PIDS=99")
		cmd.Stdin = strings.NewReader(stdin)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		status = statusOf(t, cmd.Run())
		return out.String(), errs.String(), status
	}
	for _, test := range []struct {
		stdin  string
		args   []string
		stdout string
		status int
	}{
		{"", []string{"run", "--backend", "docker", "--image", image, "--", "sh", "-c", "echo $A; exit 7"}, "\n", 7},
		{"a\x00\xff", []string{"run", "--backend", "docker", "--image", image, "--", "cat"}, "a\x00\xff", 0},
		{"", []string{"run", "--backend", "docker", "--image", image, "--env", "A=b", "--cwd", "/tmp", "sh", "-c", "echo $A; pwd"}, "b\n/tmp\n", 0},
		{"", []string{"run", "--backend", "docker", "--image", image, "--timeout", "1s", "--", "sleep", "1000"}, "", 124},
		{"", []string{"run", "--backend", "docker", "--image", image, "--", "absent"}, "", 127},
		{"", []string{"run", "--backend", "docker", "--image", image, "--", "cat", "/sys/fs/cgroup/pids/pids.max"}, "99\n", 0},
		{"", []string{"run", "--backend", "docker", "--image", image, "--pids", "77", "--", "cat", "/sys/fs/cgroup/pids/pids.max"}, "77\n", 0},
		{"", []string{"run", "--backend", "docker", "--image", image, "--isolation", "guard", "--", "true"}, "", 125},
		{"", []string{"up", "--backend", "docker", "--image", image, "--key", "far"}, "far\n", 0},
		{"", []string{"exec", "--key", "far", "--", "echo", "found"}, "found\n", 0},
		{"", []string{"exec", "--backend", "process", "--key", "far", "--", "true"}, "", 125},
		{"a\x00\xff", []string{"write", "far:/tmp/d/f"}, "", 0},
		{"", []string{"cat", "far:/tmp/d/f"}, "a\x00\xff", 0},
		{"", []string{"cp", "far:/tmp/d", "out"}, "", 0},
		{"", []string{"cp", "out/.", "far:/tmp/e"}, "", 0},
		{"", []string{"files", "find", "far:/tmp/e"}, "/tmp/e/f\n", 0},
		{"", []string{"jobs", "start", "--key", "far", "--", "sh", "-c", "echo job; exit 6"}, "job-1\n", 0},
		{"", []string{"jobs", "wait", "--key", "far", "job-1"}, "", 6},
		{"", []string{"jobs", "logs", "--key", "far", "job-1"}, "job\n", 0},
		{"", []string{"down", "--key", "far"}, "removed far\n", 0},
		{"", []string{"ls", "--json"}, "", 0},
	} {
		if test.args[len(test.args)-1] == "/sys/fs/cgroup/pids/pids.max" {
			if _, err := exec.Command("test", "-e", "/sys/fs/cgroup/pids").Output(); err != nil {
				continue // another generation of cgroups
			}
		}
		stdout, stderr, status := run(test.stdin, test.args...)
		if stdout != test.stdout || status != test.status {
			t.Errorf("%q: status %d, stdout %q, want %d, %q; stderr:\n%s", test.args, status, stdout, test.status, test.stdout, stderr)
		}
	}
}
