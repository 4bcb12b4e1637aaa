//go:build linux

package docker_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/client"
)

// Every knob that is asked for by name is in force in the kernel, and stands in the
// engine's description of the container.
func TestKnobs(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	o.Hardening = &spec.Hardening{}
	d := newDriver(t, o)
	s := busybox(t)
	s.Env = map[string]string{"PLAIN": "p"}
	s.Secrets = map[string]string{"TOKEN": "hunter2 $(x)\n"}
	s.Labels = map[string]string{"team": "blue", "empty": ""}
	s.Hardening = spec.Hardening{
		NoNewPrivileges: true, Runtime: "runc",
		Seccomp: `{ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["symlink", "symlinkat"], "action": "SCMP_ACT_ERRNO"}] }`,
	}
	sb := provision(t, d, s)
	if got := sh(t, sb, `printf '%s|%s|' "$PLAIN" "$TOKEN"; ln -s a b 2>/dev/null || echo refused; grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\t\n'`); got != "p|hunter2 $(x)\n|refused\nNoNewPrivs:1Seccomp:2" {
		t.Errorf("inside: %q", got)
	}
	c, err := engine.Client(t).ContainerInspect(ctx, sb.ID(), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	labels := c.Container.Config.Labels
	if labels["team"] != "blue" || labels["empty"] != "" || labels["dev.berth.key"] != "k" {
		t.Errorf("labels %q", labels)
	}
	if text := strings.Join(append(c.Container.Config.Entrypoint, labels["dev.berth.spec-parts"], labels["dev.berth.env"]), " "); strings.Contains(text, "hunter2") {
		t.Errorf("a secret is in an argument or a label: %s", text)
	}
	owned, err := d.Owned(ctx)
	if text, _ := json.Marshal(owned); err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("listing: %s, %v", text, err)
	}
	// A new value is the same place, which has the old one; another name is another place.
	s.Secrets = map[string]string{"TOKEN": "rotated"}
	if again := provision(t, d, s); again.ID() != sb.ID() || !strings.HasPrefix(sh(t, again, "echo $TOKEN"), "hunter2") {
		t.Errorf("a rotated secret makes %s of %s", again.ID(), sb.ID())
	}
	s.Secrets = map[string]string{"OTHER": "hunter2"}
	_, err = berth.Provision(ctx, d, s)
	if !errors.Is(err, spec.ErrSpecMismatch) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("another secret: %v", err)
	}
}

// The strict profile is what it says, whatever the image, and its workspace is writable.
func TestStrict(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	o.Limits, o.Hardening = &spec.Limits{}, &spec.Hardening{}
	d := newDriver(t, o)
	s := busybox(t)
	s.Isolation = spec.IsolationStrict
	sb := provision(t, d, s)
	if got := sh(t, sb, `grep -E '^(CapBnd|CapEff|NoNewPrivs):' /proc/self/status | tr -s '\t\n' '  '; id -u; ls /sys/class/net`); got != "CapEff: 0000000000000000 CapBnd: 0000000000000000 NoNewPrivs: 1 65534\nlo" && os.Getuid() == 0 {
		t.Errorf("inside: %q", got)
	}
	tmp := sh(t, sb, `grep ' /tmp ' /proc/mounts`)
	for _, option := range []string{"tmpfs", "rw", "noexec", "nosuid", "nodev", "size=65536k"} {
		if !strings.Contains(tmp, option) {
			t.Errorf("/tmp is %s, without %s", tmp, option)
		}
	}
	if got := cgroup(t, sb, "memory/memory.limit_in_bytes memory.max"); got != "2147483648" {
		t.Errorf("memory limit %s", got)
	}
	if got := cgroup(t, sb, "cpu/cpu.cfs_quota_us cpu.max"); got != "200000" && got != "200000 100000" {
		t.Errorf("cpu quota %s", got)
	}
	sh(t, sb, `echo x >file && mkdir d && cp /bin/busybox d/ && d/busybox true && echo x >/tmp/f && cp /bin/busybox /tmp/ && ! /tmp/busybox true 2>/dev/null && ! touch /etc/x 2>/dev/null`)
	caps, err := sb.Caps(ctx)
	if err != nil || !caps.Isolation.Has(spec.IsolationStrict) || caps.Isolation.Has(spec.IsolationStandard) || caps.Why("strict keep-id") == "" {
		t.Errorf("caps: %+v, %v", caps, err)
	}
	if owned, err := d.Owned(ctx); err != nil || len(owned) != 1 || owned[0].Isolation != spec.IsolationStrict {
		t.Errorf("owned: %+v, %v", owned, err)
	}
	s.Isolation = ""
	_, err = berth.Provision(ctx, d, s)
	wantIs(t, "the same key with the standard profile", err, spec.ErrSpecMismatch)
	for _, image := range []dockertest.Image{{Kind: dockertest.Scratch}, {Kind: dockertest.Busybox, UserName: true}} {
		sb := provision(t, d, spec.Spec{Image: engine.Image(t, image), Isolation: spec.IsolationStrict})
		if err := sb.Files().WriteFile(ctx, "file", []byte("x"), files.WriteOptions{}); err != nil {
			t.Errorf("%+v: write to the workspace: %v", image, err)
		}
	}
}

// wantDiskLimit shows that an engine that says it limits a container's disk does.
func wantDiskLimit(t *testing.T, d driver.Driver) {
	t.Helper()
	s := busybox(t)
	s.Limits.DiskBytes = 32 << 20
	sb := provision(t, d, s)
	err := sb.Files().WriteFile(testContext(t), "/big", make([]byte, 48<<20), files.WriteOptions{})
	wantIs(t, "a write over the limit", err, spec.ErrNoSpace)
	sh(t, sb, "echo x >/small")
	if caps, err := sb.Caps(testContext(t)); err != nil || !caps.LimitDisk {
		t.Errorf("caps %+v, %v", caps, err)
	}
	if err := sb.Destroy(testContext(t)); err != nil {
		t.Error(err)
	}
}

// What the engine does not have is refused before anything is made, with what it has.
func TestKnobsThatCannotBeHad(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	d := newDriver(t, o)
	caps, err := d.Probe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(change func(*spec.Spec)) error {
		s := busybox(t)
		change(&s)
		_, err := berth.Provision(ctx, d, s)
		wantNoContainer(t, d, "a refusal")
		return err
	}
	err = ask(func(s *spec.Spec) { s.Hardening.Runtime = "absent" })
	if !errors.Is(err, spec.ErrUnsupported) || !strings.Contains(err.Error(), "absent") || !strings.Contains(spec.HintOf(err), "runc") {
		t.Errorf("runtime: %v (hint %q)", err, spec.HintOf(err))
	}
	// One that is offered and not given: Podman's service goes by its configuration.
	err = ask(func(s *spec.Spec) { s.Hardening.Runtime = "crun" })
	if !errors.Is(err, spec.ErrUnsupported) || !strings.Contains(err.Error(), "runtime") || spec.HintOf(err) == "" {
		t.Errorf("another runtime: %v (hint %q)", err, spec.HintOf(err))
	}
	if caps.LimitDisk {
		wantDiskLimit(t, d)
	} else {
		err = ask(func(s *spec.Spec) { s.Limits.DiskBytes = 1 << 30 })
		if !errors.Is(err, spec.ErrUnsupported) || !strings.Contains(err.Error(), "enforces no size") {
			t.Errorf("disk: %v", err)
		}
	}
	if !caps.GPUs {
		err = ask(func(s *spec.Spec) { s.Limits.GPUs = -1 })
		if !errors.Is(err, spec.ErrUnsupported) || !strings.Contains(err.Error(), "nvidia") {
			t.Errorf("gpus: %v", err)
		}
	}
	// What holds for every container is refused too, if it is not the spec that asks.
	o.Limits = &spec.Limits{GPUs: 1}
	if _, err := berth.Provision(ctx, newDriver(t, o), busybox(t)); !caps.GPUs && !errors.Is(err, spec.ErrUnsupported) {
		t.Errorf("gpus of the options: %v", err)
	}
	wantNoContainer(t, d, "a refusal")
}
