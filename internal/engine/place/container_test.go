package place

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/helper"
	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
)

func testDriver(t *testing.T, o Options) *Driver {
	t.Helper()
	d, err := New(engine.Docker(), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// "" and an explicit default are one place; anything that makes another place has
// another hash.
func TestPlanResolvesDefaults(t *testing.T) {
	d := testDriver(t, Options{})
	hash := func(s spec.Spec) string {
		t.Helper()
		s.Key, s.Image = "k", "i"
		p, err := d.plan(&s, driver.ProvisionOptions{})
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		return p.hash
	}
	base := hash(spec.Spec{})
	for _, same := range []spec.Spec{
		{Workdir: "/workspace"},
		{Workdir: "/x/../workspace/"},
		{Isolation: spec.IsolationStandard},
		{Network: spec.NetworkNone},
		{Limits: spec.Limits{PIDs: 512, CPUMillis: 2000}},
		{Hardening: spec.Hardening{DropCaps: []string{"cap_setuid", "NET_RAW"}}},
		{Env: map[string]string{"A": "b"}},
		{TTL: 1, Persist: true},
	} {
		if hash(same) != base {
			t.Errorf("%+v is another place than the default", same)
		}
	}
	for _, other := range []spec.Spec{
		{Workdir: "/w"},
		{Network: spec.NetworkOpen},
		{Limits: spec.Limits{PIDs: 511}},
		{Limits: spec.Limits{MemoryBytes: engine.MinMemoryBytes}},
		{Hardening: spec.Hardening{DropCaps: []string{"ALL"}}},
		{Hardening: spec.Hardening{ReadOnlyRoot: true}},
		{Hardening: spec.Hardening{User: "1"}},
	} {
		if hash(other) == base {
			t.Errorf("%+v is the same place as the default", other)
		}
	}
}

// What an engine would refuse late, or take for something else, is refused before
// anything is sent.
func TestPlanRefuses(t *testing.T) {
	d := testDriver(t, Options{})
	for _, tt := range []struct {
		name string
		spec spec.Spec
		want error
	}{
		{"no image", spec.Spec{}, spec.ErrInvalid},
		{"tiny memory", spec.Spec{Image: "i", Limits: spec.Limits{MemoryBytes: engine.MinMemoryBytes - 1}}, spec.ErrInvalid},
		{"cpu overflow", spec.Spec{Image: "i", Limits: spec.Limits{CPUMillis: math.MaxInt64 / 1000}}, spec.ErrInvalid},
		{"user by name", spec.Spec{Image: "i", Hardening: spec.Hardening{User: "root"}}, spec.ErrInvalid},
		{"user 2^32", spec.Spec{Image: "i", Hardening: spec.Hardening{User: "4294967296"}}, spec.ErrInvalid},
		{"negative user", spec.Spec{Image: "i", Hardening: spec.Hardening{User: "-1"}}, spec.ErrInvalid},
		{"empty group", spec.Spec{Image: "i", Hardening: spec.Hardening{User: "1:"}}, spec.ErrInvalid},
		{"bad capability", spec.Spec{Image: "i", Hardening: spec.Hardening{DropCaps: []string{"A=B"}}}, spec.ErrInvalid},
		{"workdir in the guest's", spec.Spec{Image: "i", Workdir: "/.berth/x"}, spec.ErrInvalidPath},
		{"workdir is the guest's", spec.Spec{Image: "i", Workdir: "/a/../.berth"}, spec.ErrInvalidPath},
		{"root as a read-only workdir", spec.Spec{Image: "i", Workdir: "/", Hardening: spec.Hardening{ReadOnlyRoot: true}}, spec.ErrUnsupported},
	} {
		if _, err := d.plan(&tt.spec, driver.ProvisionOptions{}); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, err, tt.want)
		}
	}
	for _, o := range []Options{
		{Owner: "a b"},
		{Owner: strings.Repeat("a", 200)},
		{Limits: &spec.Limits{PIDs: -1}},
		{Limits: &spec.Limits{MemoryBytes: 1}},
		{Hardening: &spec.Hardening{User: "x"}},
		{Hardening: &spec.Hardening{DropCaps: []string{""}}},
	} {
		if _, err := New(engine.Docker(), o); !errors.Is(err, spec.ErrInvalid) {
			t.Errorf("options %+v: %v; want invalid", o, err)
		}
	}
}

func TestNormalCaps(t *testing.T) {
	standard := DefaultHardening().DropCaps
	for _, tt := range []struct{ in, want []string }{
		{nil, nil},
		{[]string{" cap_net_raw", "NET_RAW", "chown"}, []string{"CHOWN", "NET_RAW"}},
		{append(slices.Clone(standard), "all"), []string{"ALL"}},
		{standard, []string{"NET_RAW", "SETGID", "SETUID"}},
	} {
		got, err := engine.NormalCaps(tt.in)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, %v; want %q", tt.in, got, err, tt.want)
		}
		if len(got) > 0 && len(tt.in) > 0 && &got[0] == &tt.in[0] {
			t.Errorf("%q: the answer is the caller's slice", tt.in)
		}
	}
}

// A CPU limit above what the engine has is none, and is clamped: an engine refuses it.
func TestNanoCPUs(t *testing.T) {
	for _, tt := range []struct {
		millis int64
		cpus   int
		want   int64
	}{{0, 4, 0}, {500, 4, 5e8}, {4000, 4, 4e9}, {4001, 4, 4e9}, {1 << 40, 2, 2e9}, {2000, 0, 2e9}} {
		if got := nanoCPUs(tt.millis, tt.cpus); got != tt.want {
			t.Errorf("%d millis on %d CPUs: %d, want %d", tt.millis, tt.cpus, got, tt.want)
		}
	}
}

// The request that creates a place has everything that the documentation promises.
func TestCreateOptions(t *testing.T) {
	d := testDriver(t, Options{Owner: "me"})
	p, err := d.plan(&spec.Spec{Key: "k", Image: "i", Env: map[string]string{"B": "2\n", "A": "=1"}}, driver.ProvisionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := d.createOptions(p, guest.Bin{Hash: strings.Repeat("ab", 32)}, 1)
	listen := o.Config.Labels[labelListen]
	if len(listen) != 32 {
		t.Errorf("socket %q, want 128 bits in hex", listen)
	}
	// A label that is not said would be the image's, which may say that it is a helper.
	if said, ok := o.Config.Labels[helper.Label]; !ok || said != "" {
		t.Errorf("labels %v", o.Config.Labels)
	}
	want := []string{guestPath, "serve", "--listen-abstract", listen, "--peer", "engine", "--id", p.name, "--workdir", "/workspace", "--make-workdir", "--state", stateDir, "--spare-threads", spareThreads}
	if diff := cmp.Diff(want, o.Config.Entrypoint); diff != "" {
		t.Errorf("entrypoint (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"A==1", "B=2\n"}, o.Config.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	h := o.HostConfig
	if h.AutoRemove || h.NanoCPUs != 1e9 || *h.PidsLimit != 512 || h.Memory != 0 || h.LogConfig.Type != "none" || *h.Init || h.NetworkMode != "none" || len(h.Mounts) != 1 {
		t.Errorf("host config %+v", h)
	}
	if m := h.Mounts[0]; m.Source != "berth-guest-abababababab" || m.Target != "/.berth" || !m.ReadOnly || !m.VolumeOptions.NoCopy {
		t.Errorf("mount %+v", m)
	}
	if o.Name != containerName("me", "k") || containerName("a", "bc") == containerName("ab", "c") || !strings.HasPrefix(o.Name, "berth-") || len(o.Name) != len("berth-")+16 {
		t.Errorf("name %q", o.Name)
	}
}

// Under a read-only root the guest's state is on a volume of its own, unless the workdir
// is one that holds it; a workdir among the state is refused.
func TestStateIsWritable(t *testing.T) {
	d := testDriver(t, Options{})
	for workdir, want := range map[string][]string{
		"":         {"/tmp", "/workspace", stateDir},
		"/tmp/w":   {"/tmp", stateDir},
		"/var":     {"/tmp", "/var"},
		"/var/lib": {"/tmp", "/var/lib"},
	} {
		p, err := d.plan(&spec.Spec{Key: "k", Image: "i", Workdir: workdir, Hardening: spec.Hardening{ReadOnlyRoot: true}}, driver.ProvisionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range writableMounts(p) {
			got = append(got, m.Target)
			if m.VolumeOptions.Labels[labelOwner] != "default" {
				t.Errorf("the volume at %s has no owner: %q", m.Target, m.VolumeOptions.Labels)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("workdir %q (-want +got):\n%s", workdir, diff)
		}
	}
	_, err := d.plan(&spec.Spec{Key: "k", Image: "i", Workdir: stateDir + "/jobs"}, driver.ProvisionOptions{})
	if !errors.Is(err, spec.ErrInvalidPath) {
		t.Errorf("a workdir among the state: %v", err)
	}
}

// Whatever did not take effect is named; nothing is declared that is not in force.
func TestCheckApplied(t *testing.T) {
	d := testDriver(t, Options{})
	s := &spec.Spec{Key: "k", Image: "i", Limits: spec.Limits{MemoryBytes: 64 << 20}, Hardening: spec.Hardening{ReadOnlyRoot: true, User: "1"}}
	p, err := d.plan(s, driver.ProvisionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*container.InspectResponse)
		want   string
	}{
		{"as asked", func(*container.InspectResponse) {}, ""},
		{"clamped cpu", func(c *container.InspectResponse) { c.HostConfig.NanoCPUs = 1e9 }, ""},
		{"no memory", func(c *container.InspectResponse) { c.HostConfig.Memory = 0 }, "limit_memory"},
		{"swap on top", func(c *container.InspectResponse) { c.HostConfig.MemorySwap = -1 }, "limit_memory"},
		{"no pids", func(c *container.InspectResponse) { c.HostConfig.PidsLimit = nil }, "limit_pids"},
		{"no cpu", func(c *container.InspectResponse) { c.HostConfig.NanoCPUs = 0 }, "limit_cpu"},
		{"more cpu", func(c *container.InspectResponse) { c.HostConfig.NanoCPUs = 3e9 }, "limit_cpu"},
		{"a cap kept", func(c *container.InspectResponse) { c.HostConfig.CapDrop = c.HostConfig.CapDrop[1:] }, "capabilities"},
		{"a cap added", func(c *container.InspectResponse) { c.HostConfig.CapAdd = []string{"SYS_ADMIN"} }, "capabilities"},
		{"new privileges", func(c *container.InspectResponse) { c.HostConfig.SecurityOpt = []string{"seccomp=unconfined"} }, "no-new-privileges"},
		{"writable root", func(c *container.InspectResponse) { c.HostConfig.ReadonlyRootfs = false }, "read_only_root"},
		{"another user", func(c *container.InspectResponse) { c.Config.User = "0" }, "user"},
		{"a network", func(c *container.InspectResponse) { c.HostConfig.NetworkMode = "bridge" }, "network none"},
		{"privileged", func(c *container.InspectResponse) { c.HostConfig.Privileged = true }, "privileges"},
	} {
		o := d.createOptions(p, guest.Bin{Hash: strings.Repeat("ab", 32)}, 8)
		c := &container.InspectResponse{Config: o.Config, HostConfig: o.HostConfig}
		tt.change(c)
		err := checkApplied(p, c)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, spec.ErrUnsupported) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want unsupported with %q", tt.name, err, tt.want)
		}
	}
}

// A spec that differs is refused with the names of the fields; a container without the
// label is refused all the same.
func TestMismatchNamesFields(t *testing.T) {
	was := &spec.Spec{Image: "one", Network: spec.NetworkNone, Limits: spec.Limits{PIDs: 5}}
	now := &plan{spec: &spec.Spec{Image: "two", Network: spec.NetworkOpen, Limits: spec.Limits{PIDs: 5}}}
	now.hash = now.spec.Hash()
	labels := map[string]string{labelSpec: was.Hash(), labelParts: partsText(was.Parts())}
	err := checkSpec(now, &container.InspectResponse{Config: &container.Config{Image: "one", Labels: labels}})
	if !errors.Is(err, spec.ErrSpecMismatch) || !strings.Contains(err.Error(), `another spec: image (there "one"), network`) || strings.Contains(err.Error(), "limits") {
		t.Errorf("%v; want the fields that differ", err)
	}
	delete(labels, labelParts)
	if err := checkSpec(now, &container.InspectResponse{Config: &container.Config{Labels: labels}}); !errors.Is(err, spec.ErrSpecMismatch) {
		t.Errorf("without the label: %v", err)
	}
}
