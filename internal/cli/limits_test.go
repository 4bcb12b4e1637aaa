//go:build linux

package cli

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/spec"
)

// hog takes more memory than the tests give it.
const hog = "exec dd if=/dev/zero of=/dev/null bs=512M count=1"

// needLimits skips a test where no control group can be made.
func needLimits(t *testing.T) {
	t.Helper()
	cmd, _ := berthCommand(t, "info", "--backend", "process", "--json")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var line struct{ Caps spec.Caps }
	if err := json.Unmarshal(out, &line); err != nil {
		t.Fatal(err)
	}
	if !line.Caps.LimitMemory {
		t.Skip(line.Caps.Why("limit_memory"))
	}
}

// A command that was killed for want of memory says so, to a program and to a person,
// with the limit and what cures it.
func TestOOMIsExplained(t *testing.T) {
	needLimits(t)
	t.Run("json", func(t *testing.T) {
		cmd, _ := berthCommand(t, "run", "-n", "--json", "--isolation", "none", "--memory", "192m", "--", "sh", "-c", hog)
		out, err := cmd.Output()
		var o struct {
			ExitCode int       `json:"exit_code"`
			OOM      *spec.OOM `json:"oom"`
		}
		if jsonErr := json.Unmarshal(out, &o); jsonErr != nil {
			t.Fatalf("%v: %q %v", jsonErr, out, err)
		}
		if o.ExitCode != 137 || statusOf(t, err) != 137 || o.OOM == nil || o.OOM.LimitBytes != 192<<20 || o.OOM.Retryable || !strings.Contains(o.OOM.Hint, "192 MiB") {
			t.Errorf("it says %q", out)
		}
	})
	t.Run("text", func(t *testing.T) {
		cmd, _ := berthCommand(t, "run", "-n", "--isolation", "none", "--memory", "192m", "--", "sh", "-c", hog)
		out, err := cmd.CombinedOutput()
		if statusOf(t, err) != 137 || !strings.Contains(string(out), "memory") || !strings.Contains(string(out), "--memory") {
			t.Errorf("it says %q", out)
		}
	})
}

// Info shows the limits in force, what is used, and what was killed for want of memory.
func TestInfoShowsLimits(t *testing.T) {
	needLimits(t)
	up, dir := berthCommand(t, "up", "--key", "limited", "--isolation", "none", "--memory", "192m", "--pids", "100", "--cpus", "1.5")
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(args ...string) string {
		cmd := exec.Command("berth", args...)
		cmd.Env, cmd.Dir = up.Env, dir
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	t.Cleanup(func() { run("down", "--key", "limited") })
	run("exec", "--key", "limited", "-n", "--", "sh", "-c", hog)
	text := run("info", "--key", "limited")
	for _, want := range []string{"of 192.0 MiB", "1 processes killed", "at most 100", "at most 1.5"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var line capsLine
	if err := json.Unmarshal([]byte(run("info", "--key", "limited", "--json")), &line); err != nil {
		t.Fatal(err)
	}
	want := spec.Limits{MemoryBytes: 192 << 20, PIDs: 100, CPUMillis: 1500}
	if st := line.Status; st == nil || st.Limits != want || st.OOMKills != 1 || st.MemoryBytes <= 0 {
		t.Errorf("status %+v", line.Status)
	}
	if again := run("up", "--key", "limited", "--isolation", "none", "--memory", "256m"); !strings.Contains(again, "limits") {
		t.Errorf("with another limit it says %q", again)
	}
	run("down", "--key", "limited")
	if left, _ := filepath.Glob("/sys/fs/cgroup/memory/*/berth-" + line.ID + "*"); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}
