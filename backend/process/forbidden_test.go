//go:build linux

package process_test

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// withoutNamespaces is set, in the environment of a test program, where it is a root that may
// do everything but make a user namespace.
const withoutNamespaces = "BERTH_TEST_NO_NAMESPACES"

// TestNamespacesForbidden defends what root is told where no user namespace can be made; see
// TestForbidden.
func TestNamespacesForbidden(t *testing.T) {
	dropping(t)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c",
		`mount --make-rprivate / && mount -t proc proc /proc && echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"`,
		"sh", mustExecutable(t), "-test.run", "^TestForbidden$", "-test.v", "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), withoutNamespaces+"=1")
	all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: math.MaxUint32}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true,
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestForbidden")) {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestForbidden defends: a probe promises no wall that never comes up, and it and the refusal
// say what is missing and what cures it.
func TestForbidden(t *testing.T) {
	if os.Getenv(withoutNamespaces) == "" {
		t.Skip("TestNamespacesForbidden runs it")
	}
	d := open(t, options(t))
	caps, err := d.Probe(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []spec.Isolation{spec.IsolationGuard, spec.IsolationJail} {
		if caps.Isolation.Has(level) {
			t.Errorf("%s is promised", level)
		}
		_, err := d.Provision(within(t), &spec.Spec{Isolation: level}, driver.ProvisionOptions{})
		wantCode(t, err, spec.CodeUnsupported)
		for what, text := range map[string]string{"probe": caps.Why(string(level)), "provision": err.Error() + spec.HintOf(err)} {
			if !strings.Contains(text, "max_user_namespaces is 0") || !strings.Contains(text, "sysctl -w") {
				t.Errorf("%s: %s says %q", level, what, text)
			}
		}
	}
}
