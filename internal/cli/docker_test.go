//go:build linux

package cli

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	const matches = -1 // status 0, and an output that holds the text
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
		{"", []string{"suspend", "--key", "far"}, "suspended far\n", 0},
		{"", []string{"ls", "--json"}, `"state":"paused"`, matches},
		{"", []string{"resume", "--key", "far"}, "resumed far\n", 0},
		{"", []string{"snapshot", "--key", "far", "--id", "s1"}, "s1\n", 0},
		{"", []string{"snapshots", "--json"}, `"id":"s1"`, matches},
		{"", []string{"restore", "s1", "--key", "near"}, "near\n", 0},
		{"", []string{"cat", "near:/tmp/d/f"}, "a\x00\xff", 0},
		{"", []string{"snapshots", "rm", "s1"}, "removed s1\n", 0},
		{"", []string{"restore", "s1", "--key", "other"}, "", 4},
		{"", []string{"fork", "near", "--key", "nearer", "--read-only-root"}, "nearer\n", 0},
		{"", []string{"down", "--key", "near", "--key", "nearer"}, "removed near\nremoved nearer\n", 0},
		{"", []string{"suspend", "--key", "none"}, "", 4},
		{"", []string{"down", "--key", "far"}, "removed far\n", 0},
		{"", []string{"ls", "--json"}, "", 0},
		{"", []string{"up", "--backend", "docker", "--image", image, "--key", "web", "--network", "open", "--publish", "127.0.0.1::8080", "--mount", "out:/m:ro", "--label", "team=blue", "--env", "TOKEN=hunter2hunter2", "--secret", "TOKEN"}, "web\n", 0},
		{"", []string{"ports", "--key", "web", "--json"}, `{"network":"tcp","address":":8080","published":"127.0.0.1:`, matches},
		{"", []string{"exec", "--key", "web", "--", "sh", "-c", "echo $TOKEN; ls /m; touch /m/x 2>/dev/null || echo kept"}, "hunter2hunter2\nf\nkept\n", 0},
	} {
		if test.args[len(test.args)-1] == "/sys/fs/cgroup/pids/pids.max" {
			if _, err := exec.Command("test", "-e", "/sys/fs/cgroup/pids").Output(); err != nil {
				continue // another generation of cgroups
			}
		}
		stdout, stderr, status := run(test.stdin, test.args...)
		if test.status == matches && status == 0 && strings.Contains(stdout, test.stdout) {
			continue
		}
		if stdout != test.stdout || status != test.status {
			t.Errorf("%q: status %d, stdout %q, want %d, %q; stderr:\n%s", test.args, status, stdout, test.status, test.stdout, stderr)
		}
	}
	// Nobody uses it now: it is soon suspended with all that is idle, and found by its use.
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		stdout, stderr, status := run("", "suspend", "--idle", "1s")
		if stdout == "suspended web\n" && status == 0 {
			break
		}
		if stdout != "" || status != 0 || time.Since(begun) > time.Minute {
			t.Fatalf("suspend --idle: status %d, %q; stderr:\n%s", status, stdout, stderr)
		}
	}
	if stdout, stderr, _ := run("", "exec", "--key", "web", "--", "echo", "awake"); stdout != "awake\n" {
		t.Errorf("exec in a suspended sandbox: %q%s", stdout, stderr)
	}
	// What a container has of the machine and shows there is said, its secrets are not.
	for _, test := range []struct {
		args string
		want []string
	}{
		{"info --key web --json", []string{`"mounts":[{"source":"` + filepath.Join(model.Dir, "out") + `","target":"/m","read_only":true}]`, `"ports":[{"container":8080,"host":`}},
		{"info --key web", []string{"/out at /m, read-only", "8080/tcp at 127.0.0.1:"}},
		{"ls --json", []string{`"key":"web"`}},
		{"down --key web", []string{"removed web"}},
	} {
		stdout, stderr, status := run("", strings.Fields(test.args)...)
		for _, text := range test.want {
			if !strings.Contains(stdout, text) {
				t.Errorf("berth %s: status %d, no %s in %s%s", test.args, status, text, stdout, stderr)
			}
		}
		if strings.Contains(stdout+stderr, "hunter2") {
			t.Errorf("berth %s shows a secret: %s%s", test.args, stdout, stderr)
		}
	}
	tryImages(t, model.Dir, image, run)
}
