//go:build linux

package process_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// groupsOf lists the control groups of a place, in any hierarchy.
func groupsOf(t *testing.T, id string) []string {
	t.Helper()
	var out []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), id) {
			out = append(out, path)
		}
		return nil
	})
	return out
}

// limitedSpec asks for every limit, or skips the test where there are none to be had.
func limitedSpec(t *testing.T, d driver.Driver) spec.Spec {
	t.Helper()
	s := spec.Spec{Key: "limited", Isolation: spec.IsolationNone, Limits: spec.Limits{MemoryBytes: 256 << 20, PIDs: 200, CPUMillis: 1500}}
	caps, err := d.Probe(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := caps.Check(&s); err != nil {
		t.Skip(err)
	}
	return s
}

// TestLimitsLeaveNothing defends: the control group of a place goes with it, however it
// ends, and is there again when it is started.
func TestLimitsLeaveNothing(t *testing.T) {
	gone := func(t *testing.T, id string) {
		t.Helper()
		if left := groupsOf(t, id); len(left) > 0 {
			t.Errorf("left over: %q", left)
		}
	}
	for name, end := range map[string]func(t *testing.T, o process.Options, d driver.Driver, s spec.Spec, id string){
		"reaped": func(t *testing.T, _ process.Options, d driver.Driver, s spec.Spec, _ string) {
			if err := d.Reap(within(t), s.Key, driver.ReapOptions{}); err != nil {
				t.Error(err)
			}
		},
		"stopped": func(t *testing.T, _ process.Options, d driver.Driver, s spec.Spec, _ string) {
			if err := d.(driver.Stopper).Stop(within(t), s.Key, driver.ReapOptions{}); err != nil {
				t.Error(err)
			}
		},
		"ended by itself": func(t *testing.T, o process.Options, d driver.Driver, s spec.Spec, id string) {
			endGuest(t, o, id)
			eventually(t, "a listing tidies up", func() error {
				if _, err := d.Owned(within(t)); err != nil {
					return err
				}
				if left := groupsOf(t, id); len(left) > 0 {
					return fmt.Errorf("left over: %q", left)
				}
				return nil
			})
		},
		"without its record": func(t *testing.T, o process.Options, d driver.Driver, s spec.Spec, id string) {
			if err := os.WriteFile(filepath.Join(o.StateDir, "process", id, "record.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := d.Reap(within(t), s.Key, driver.ReapOptions{}); err != nil {
				t.Error(err)
			}
		},
		"with another spec": func(t *testing.T, _ process.Options, d driver.Driver, s spec.Spec, id string) {
			s.Limits = spec.Limits{}
			session, err := d.Provision(within(t), &s, driver.ProvisionOptions{Replace: true})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close(within(t))
			gone(t, id)
			if err := d.Reap(within(t), s.Key, driver.ReapOptions{}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			d, err := process.New(o)
			if err != nil {
				t.Fatal(err)
			}
			s := limitedSpec(t, d)
			t.Cleanup(func() { _ = d.Reap(within(t), s.Key, driver.ReapOptions{}) })
			for range 2 {
				session, err := d.Provision(within(t), &s, driver.ProvisionOptions{})
				if err != nil {
					t.Fatal(err)
				}
				id := session.ID()
				if st, err := session.Status(within(t)); err != nil || st.Limits != s.Limits || st.MemoryBytes <= 0 {
					t.Errorf("it says %+v, %v", st, err)
				}
				if len(groupsOf(t, id)) == 0 {
					t.Error("there is no group")
				}
				if err := session.Close(within(t)); err != nil {
					t.Error(err)
				}
				end(t, o, d, s, id)
				gone(t, id)
			}
		})
	}
}

// endGuest kills the guest of a place, as a machine that runs out of memory does.
func endGuest(t *testing.T, o process.Options, id string) {
	t.Helper()
	for _, dir := range groupsOf(t, id) {
		data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, pid := range strings.Fields(string(data)) {
			var n int
			if _, err := fmt.Sscan(pid, &n); err == nil && n > 1 {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
	}
}

// TestLimitsAsUser defends: where this user can make no control group, that is said with
// its cause, and a spec that asks for limits is unsupported before anything is made.
func TestLimitsAsUser(t *testing.T) {
	if os.Geteuid() == 0 {
		self, err := os.Open("/proc/self/exe") // the way to it is closed to others
		if err != nil {
			t.Fatal(err)
		}
		defer self.Close()
		const user = 1001
		cmd := exec.CommandContext(within(t), "/proc/self/fd/3", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.ExtraFiles = []*os.File{self}
		cmd.Dir = "/"
		cmd.Env = []string{"HOME=/", "PATH=" + os.Getenv("PATH"), "TMPDIR=/tmp"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("as uid %d: %v\n%s", user, err, out)
		}
		return
	}
	o := options(t)
	d, err := process.New(o)
	if err != nil {
		t.Fatal(err)
	}
	caps, err := d.Probe(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if caps.LimitMemory || caps.LimitPIDs || caps.LimitCPU {
		t.Skip("this user can make control groups")
	}
	for name, l := range map[string]spec.Limits{"limit_memory": {MemoryBytes: 256 << 20}, "limit_pids": {PIDs: 100}, "limit_cpu": {CPUMillis: 500}} {
		if why := caps.Why(name); !strings.Contains(why, "control group") {
			t.Errorf("%s is missing because of %q", name, why)
		}
		_, err := d.Provision(within(t), &spec.Spec{Isolation: spec.IsolationNone, Limits: l}, driver.ProvisionOptions{})
		if spec.CodeOf(err) != spec.CodeUnsupported || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(o.StateDir); err == nil {
		t.Error("something was made")
	}
}
