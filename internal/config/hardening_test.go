package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/spec"
)

// "Unset or empty is the default; 0 or none is off; malformed, negative and
// overflowing fail the start."
func TestHardening(t *testing.T) {
	limits := func(pids, cpu, memory int64) spec.Limits {
		return spec.Limits{PIDs: pids, CPUMillis: cpu, MemoryBytes: memory}
	}
	caps := func(names ...string) spec.Hardening { return spec.Hardening{DropCaps: names} }
	three := caps("NET_RAW", "SETGID", "SETUID")
	usual := limits(512, 2000, 0)
	for _, test := range []struct {
		env       string
		limits    spec.Limits
		hardening spec.Hardening
	}{
		{"X=", usual, three},
		{"SANDBOX_PIDS=", usual, three},
		{"SANDBOX_PIDS=0", limits(0, 2000, 0), three},
		{"SANDBOX_PIDS=none", limits(0, 2000, 0), three},
		{"SANDBOX_PIDS=64", limits(64, 2000, 0), three},
		{"SANDBOX_CPU_MILLIS=0", limits(512, 0, 0), three},
		{"SANDBOX_CPU_MILLIS=250", limits(512, 250, 0), three},
		{"SANDBOX_MEMORY_BYTES=67108864", limits(512, 2000, 64<<20), three},
		{"SANDBOX_MEMORY_BYTES=0", usual, three},
		{"SANDBOX_CAP_DROP=NONE", usual, caps()},
		{"SANDBOX_CAP_DROP=none", usual, caps()},
		{"SANDBOX_CAP_DROP= cap_sys_admin ,CHOWN,Chown", usual, caps("CHOWN", "SYS_ADMIN")},
		{"SANDBOX_CAP_DROP=NET_RAW,all,CHOWN", usual, caps("ALL")},
		{"SANDBOX_READ_ONLY_ROOT=false", usual, three},
		{"SANDBOX_READ_ONLY_ROOT=true", usual, spec.Hardening{DropCaps: three.DropCaps, ReadOnlyRoot: true}},
		{"SANDBOX_USER=0", usual, spec.Hardening{DropCaps: three.DropCaps, User: "0"}},
		{"SANDBOX_USER=2147483647", usual, spec.Hardening{DropCaps: three.DropCaps, User: "2147483647"}},
		{"SANDBOX_USER=1000:100", usual, spec.Hardening{DropCaps: three.DropCaps, User: "1000:100"}},
	} {
		t.Run(test.env, func(t *testing.T) {
			c := load(t, sources("", nil, test.env))
			l, h := c.Containers()
			if diff := cmp.Diff(test.limits, l); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			if h.DropCaps = append([]string(nil), h.DropCaps...); cmp.Diff(test.hardening, h) != "" {
				t.Errorf("hardening (-want +got):\n%s", cmp.Diff(test.hardening, h))
			}
		})
	}
}

func TestHardeningRefusals(t *testing.T) {
	for _, env := range []string{
		"SANDBOX_PIDS=many", "SANDBOX_PIDS=-1", "SANDBOX_PIDS= 5", "SANDBOX_PIDS=1.5", "SANDBOX_PIDS=9223372036854775808",
		"SANDBOX_CPU_MILLIS=-5", "SANDBOX_CPU_MILLIS=9223372036855", "SANDBOX_CPU_MILLIS=18446744073709552",
		"SANDBOX_MEMORY_BYTES=512m", "SANDBOX_MEMORY_BYTES=-1",
		"SANDBOX_CAP_DROP=NET-RAW", "SANDBOX_CAP_DROP=A,,B", "SANDBOX_CAP_DROP=,", "SANDBOX_CAP_DROP=none,CHOWN", "SANDBOX_CAP_DROP=CAP_", "SANDBOX_CAP_DROP=0",
		"SANDBOX_READ_ONLY_ROOT=yes", "SANDBOX_READ_ONLY_ROOT=1", "SANDBOX_READ_ONLY_ROOT=True", "SANDBOX_READ_ONLY_ROOT= true",
		"SANDBOX_USER=root", "SANDBOX_USER=-1", "SANDBOX_USER=2147483648", "SANDBOX_USER=4294967296", "SANDBOX_USER=1:", "SANDBOX_USER=:1", "SANDBOX_USER=+1",
	} {
		t.Run(env, func(t *testing.T) {
			if c, err := Load(sources("", nil, env)); err == nil {
				t.Errorf("Load took it: %+v", c.Sandbox)
			}
		})
	}
}

// What the environment says of containers is no demand on a sandbox; a flag is.
func TestDemanded(t *testing.T) {
	environ := []string{"SANDBOX_PIDS=9", "SANDBOX_CAP_DROP=CHOWN", "SANDBOX_READ_ONLY_ROOT=true", "SANDBOX_USER=5"}
	l, h := load(t, sources("", nil, environ...)).Demanded()
	if l != (spec.Limits{}) || !h.IsZero() {
		t.Errorf("without flags: %+v %+v, want nothing", l, h)
	}
	l, h = load(t, sources("", map[string][]string{"sandbox.memory_bytes": {"1m"}, "sandbox.cap_drop": {"kill", "ALL"}, "sandbox.user": {"7"}}, environ...)).Demanded()
	if diff := cmp.Diff(spec.Limits{MemoryBytes: 1 << 20}, l); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(spec.Hardening{DropCaps: []string{"ALL"}, User: "7"}, h); diff != "" {
		t.Errorf("hardening (-want +got):\n%s", diff)
	}
}

// "Always a fresh slice": a caller that changes what it got changes nothing else.
func TestDropCapsAreFresh(t *testing.T) {
	for _, environ := range []string{"SANDBOX_CAP_DROP=CHOWN", "SANDBOX_CAP_DROP="} {
		c := load(t, sources("", nil, environ))
		_, a := c.Containers()
		want := a.DropCaps[0]
		a.DropCaps[0] = "changed"
		if _, b := c.Containers(); b.DropCaps[0] != want {
			t.Errorf("the second answer is %v", b.DropCaps)
		}
	}
}

// Flags take what people write on command lines.
func TestFlagUnits(t *testing.T) {
	flag := func(key, value string) Sources { return sources("", map[string][]string{key: {value}}) }
	for _, test := range []struct {
		key, value string
		want       spec.Limits
	}{
		{"sandbox.cpu_millis", "1.5", spec.Limits{CPUMillis: 1500}},
		{"sandbox.cpu_millis", "0.001", spec.Limits{CPUMillis: 1}},
		{"sandbox.cpu_millis", "0", spec.Limits{}},
		{"sandbox.memory_bytes", "512m", spec.Limits{MemoryBytes: 512 << 20}},
		{"sandbox.memory_bytes", "2GiB", spec.Limits{MemoryBytes: 2 << 30}},
		{"sandbox.memory_bytes", "10", spec.Limits{MemoryBytes: 10}},
		{"sandbox.memory_bytes", "none", spec.Limits{}},
		{"sandbox.pids", "12", spec.Limits{PIDs: 12}},
	} {
		if l, _ := load(t, flag(test.key, test.value)).Demanded(); l != test.want {
			t.Errorf("%s %s: %+v, want %+v", test.key, test.value, l, test.want)
		}
	}
	for _, test := range [][2]string{
		{"sandbox.cpu_millis", "0.0001"},
		{"sandbox.cpu_millis", "-1"},
		{"sandbox.cpu_millis", "NaN"},
		{"sandbox.cpu_millis", "1e300"},
		{"sandbox.cpu_millis", "Inf"},
		{"sandbox.memory_bytes", "m"},
		{"sandbox.memory_bytes", "1x"},
		{"sandbox.memory_bytes", "1bk"},
		{"sandbox.memory_bytes", "99999999999g"},
		{"sandbox.memory_bytes", "-1m"},
	} {
		if c, err := Load(flag(test[0], test[1])); err == nil {
			t.Errorf("%s %s was taken: %+v", test[0], test[1], c.Sandbox)
		}
	}
}
