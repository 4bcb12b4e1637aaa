package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
)

const profile = `{"defaultAction":"SCMP_ACT_ALLOW"}`

// knobs asks for everything that a container can have.
func knobs() *spec.Spec {
	return &spec.Spec{
		Key: "k", Image: "i", Network: spec.NetworkOpen, NetworkMode: "blue",
		Env: map[string]string{"A": "1"}, Secrets: map[string]string{"TOKEN": "hunter2"}, Labels: map[string]string{"team": "blue"},
		Mounts:    []spec.Mount{{Source: "/s/ro", Target: "/ro", ReadOnly: true}, {Source: "/s/shared", Target: "/a", Shared: true}},
		Ports:     []spec.PublishedPort{{Container: 80, Host: 8080}, {Container: 53, Protocol: spec.UDP, Address: "::1"}},
		Limits:    spec.Limits{MemoryBytes: 64 << 20, DiskBytes: 1 << 30, GPUs: -1},
		Hardening: spec.Hardening{Seccomp: profile, Runtime: "runsc", NoNewPrivileges: true},
	}
}

// inspected is what an engine says of a container that has become what was asked for.
func inspected(t *testing.T, d *Driver, s *spec.Spec) (*plan, *container.InspectResponse) {
	t.Helper()
	p, err := d.plan(s, driver.ProvisionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := d.createOptions(p, guest.Bin{Hash: strings.Repeat("ab", 32)}, 8)
	c := &container.InspectResponse{
		ID: strings.Repeat("ab", 32), Name: "/" + p.name, Config: o.Config, HostConfig: o.HostConfig,
		State: &container.State{Status: container.StateCreated},
	}
	for _, m := range o.HostConfig.Mounts {
		c.Mounts = append(c.Mounts, container.MountPoint{Type: m.Type, Source: m.Source, Destination: m.Target, RW: !m.ReadOnly})
	}
	for _, b := range o.HostConfig.Binds {
		f := strings.Split(b, ":")
		c.Mounts = append(c.Mounts, container.MountPoint{Type: mount.TypeBind, Source: f[0], Destination: f[1], Mode: f[2], RW: true})
	}
	return p, c
}

func point(c *container.InspectResponse, target string) *container.MountPoint {
	return &c.Mounts[slices.IndexFunc(c.Mounts, func(m container.MountPoint) bool { return m.Destination == target })]
}

// Whatever knob did not take effect is named.
func TestKnobsApplied(t *testing.T) {
	d := testDriver(t, Options{})
	strict := &spec.Spec{Key: "k", Image: "i", Isolation: spec.IsolationStrict}
	for _, tt := range []struct {
		name   string
		spec   *spec.Spec
		change func(*container.InspectResponse)
		want   string
	}{
		{"all as asked", knobs(), func(*container.InspectResponse) {}, ""},
		{"strict as asked", strict, func(*container.InspectResponse) {}, ""},
		{"no profile", knobs(), func(c *container.InspectResponse) { c.HostConfig.SecurityOpt = c.HostConfig.SecurityOpt[:1] }, "seccomp"},
		{"another profile", knobs(), func(c *container.InspectResponse) { c.HostConfig.SecurityOpt[1] = "seccomp=unconfined" }, "seccomp"},
		{"a profile too many", strict, func(c *container.InspectResponse) {
			c.HostConfig.SecurityOpt = append(c.HostConfig.SecurityOpt, "seccomp:unconfined")
		}, "seccomp"},
		{"new privileges", knobs(), func(c *container.InspectResponse) { c.HostConfig.SecurityOpt = c.HostConfig.SecurityOpt[1:] }, "no-new-privileges"},
		{"another runtime", knobs(), func(c *container.InspectResponse) { c.HostConfig.Runtime = "runc" }, "runtime"},
		{"no size", knobs(), func(c *container.InspectResponse) { c.HostConfig.StorageOpt = nil }, "limit_disk"},
		{"no GPUs", knobs(), func(c *container.InspectResponse) { c.HostConfig.DeviceRequests = nil }, "gpus"},
		{"a device too many", strict, func(c *container.InspectResponse) {
			c.HostConfig.Devices = []container.DeviceMapping{{PathOnHost: "/dev/kvm"}}
		}, "gpus"},
		{"a writable mount", knobs(), func(c *container.InspectResponse) { point(c, "/ro").RW = true }, "mounts"},
		{"another source", knobs(), func(c *container.InspectResponse) { point(c, "/ro").Source = "/etc" }, "mounts"},
		{"no label of SELinux", knobs(), func(c *container.InspectResponse) { point(c, "/a").Mode = "" }, "mounts"},
		{"a mount too many", strict, func(c *container.InspectResponse) {
			c.Mounts = append(c.Mounts, container.MountPoint{Type: mount.TypeBind, Source: "/var/run", Destination: "/r"})
		}, "mounts"},
		{"no mounts", knobs(), func(c *container.InspectResponse) { c.Mounts = nil }, "mounts"},
		{"a /tmp from which programs run", strict, func(c *container.InspectResponse) {
			c.HostConfig.Tmpfs["/tmp"] = strings.Replace(c.HostConfig.Tmpfs["/tmp"], "noexec,", "", 1)
		}, "/tmp"},
		{"no ports", knobs(), func(c *container.InspectResponse) { c.HostConfig.PortBindings = nil }, "published_ports"},
		{"ports for everybody", knobs(), func(c *container.InspectResponse) {
			for _, bindings := range c.HostConfig.PortBindings {
				bindings[0].HostIP = bindings[0].HostIP.Next()
			}
		}, "published_ports"},
		{"another network", knobs(), func(c *container.InspectResponse) { c.HostConfig.NetworkMode = "bridge" }, "network open"},
		{"no label", knobs(), func(c *container.InspectResponse) { delete(c.Config.Labels, "team") }, "labels"},
		{"another label on one that was there", knobs(), func(c *container.InspectResponse) { c.ID, c.Config.Labels["team"] = "theirs", "other" }, ""},
	} {
		p, c := inspected(t, d, tt.spec)
		p.created = c.ID
		tt.change(c)
		err := checkApplied(p, c)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, spec.ErrUnsupported) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want unsupported with %q", tt.name, err, tt.want)
		}
	}
}

// A knob that did not take fails the provision, and the container is removed.
func TestKnobNotTakenRemovesTheContainer(t *testing.T) {
	_, lacking := inspected(t, testDriver(t, Options{}), knobs())
	lacking.HostConfig.Runtime = "runc"
	var removed atomic.Int32
	d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case r.URL.Path == "/_ping":
		case path == "info":
			fmt.Fprint(w, `{"OSType":"linux","Architecture":"x86_64","NCPU":8,"Driver":"btrfs","Runtimes":{"runsc":{},"nvidia":{}}}`)
		case strings.HasPrefix(path, "networks/"), strings.HasPrefix(path, "volumes/"), strings.HasPrefix(path, "images/"):
			fmt.Fprint(w, `{"Name":"x","Id":"x"}`)
		case path == "containers/create":
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"Id":%q}`, lacking.ID)
		case r.Method == http.MethodDelete:
			removed.Add(1)
			http.Error(w, `{"message":"gone"}`, http.StatusNotFound)
		case path == "containers/"+lacking.ID+"/json":
			_ = json.NewEncoder(w).Encode(lacking)
		default:
			http.Error(w, `{"message":"no such thing"}`, http.StatusNotFound)
		}
	})
	d.options.Guest.Path = filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(d.options.Guest.Path, []byte("guest"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := knobs()
	s.Mounts = s.Mounts[:1] // a shared one needs a helper
	_, err := d.Provision(context.Background(), s, driver.ProvisionOptions{})
	if !errors.Is(err, spec.ErrUnsupported) || !strings.Contains(err.Error(), "runtime did not take effect") {
		t.Errorf("provision: %v; want unsupported", err)
	}
	if removed.Load() == 0 {
		t.Error("the container was not removed")
	}
}

// What is left open is resolved before a spec is hashed: two ways to say the same make one
// place, and whatever is another place has another hash.
func TestKnobsMakeThePlace(t *testing.T) {
	d := testDriver(t, Options{})
	hash := func(change func(*spec.Spec)) string {
		t.Helper()
		s := knobs()
		change(s)
		p, err := d.plan(s, driver.ProvisionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.hash
	}
	base := hash(func(*spec.Spec) {})
	for name, change := range map[string]func(*spec.Spec){
		"a port's defaults":  func(s *spec.Spec) { s.Ports[0].Address, s.Ports[0].Protocol = "127.0.0.1", spec.TCP },
		"an address":         func(s *spec.Spec) { s.Ports[1].Address = "0:0::1" },
		"the order of ports": func(s *spec.Spec) { slices.Reverse(s.Ports) },
		"of mounts":          func(s *spec.Spec) { slices.Reverse(s.Mounts) },
		"a path":             func(s *spec.Spec) { s.Mounts[0].Target = "/x/../ro/" },
		"white space":        func(s *spec.Spec) { s.Hardening.Seccomp = strings.ReplaceAll(profile, ":", " : ") },
		"what is implied":    func(s *spec.Spec) { s.Hardening.NoNewPrivileges = false },
		"a secret's value":   func(s *spec.Spec) { s.Secrets["TOKEN"] = "other" },
		"a label":            func(s *spec.Spec) { s.Labels = nil },
	} {
		if hash(change) != base {
			t.Errorf("%s: another place", name)
		}
	}
	for name, change := range map[string]func(*spec.Spec){
		"a port":         func(s *spec.Spec) { s.Ports[0].Host = 0 },
		"read-only":      func(s *spec.Spec) { s.Mounts[0].ReadOnly = false },
		"a network":      func(s *spec.Spec) { s.NetworkMode = "bridge" },
		"strict":         func(s *spec.Spec) { s.Isolation = spec.IsolationStrict },
		"a secret":       func(s *spec.Spec) { s.Secrets["MORE"] = "x" },
		"another filter": func(s *spec.Spec) { s.Hardening.Seccomp = `{"defaultAction":"SCMP_ACT_ERRNO"}` },
	} {
		if hash(change) == base {
			t.Errorf("%s: the same place", name)
		}
	}
}

// What would hide the guest or contradicts itself is refused before anything is sent.
func TestKnobsRefused(t *testing.T) {
	d := testDriver(t, Options{})
	for _, tt := range []struct {
		name string
		spec spec.Spec
		want error
	}{
		{"a mount over the guest", spec.Spec{Mounts: []spec.Mount{{Source: "/s", Target: "/.berth"}}}, spec.ErrInvalidPath},
		{"a mount in the guest's", spec.Spec{Mounts: []spec.Mount{{Source: "/s", Target: "/a/../.berth/x"}}}, spec.ErrInvalidPath},
		{"a mount over its state", spec.Spec{Mounts: []spec.Mount{{Source: "/s", Target: "/var/lib"}}}, spec.ErrInvalidPath},
		{"a mount in its state", spec.Spec{Mounts: []spec.Mount{{Source: "/s", Target: "/var/lib/berth/jobs"}}}, spec.ErrInvalidPath},
		{"a colon", spec.Spec{Mounts: []spec.Mount{{Source: "/s:ro", Target: "/t", Shared: true}}}, spec.ErrUnsupported},
		{"a port without a network", spec.Spec{Ports: []spec.PublishedPort{{Container: 80}}}, spec.ErrInvalid},
		{"a port twice", spec.Spec{Network: spec.NetworkOpen, Ports: []spec.PublishedPort{{Container: 80}, {Container: 80, Protocol: spec.TCP}}}, spec.ErrInvalid},
		{"a workdir that is not UTF-8", spec.Spec{Workdir: "/w\xff"}, spec.ErrUnsupported},
		{"a label that is not UTF-8", spec.Spec{Labels: map[string]string{"a": "\xff"}}, spec.ErrUnsupported},
		{"less of a CPU than there is", spec.Spec{Limits: spec.Limits{CPUMillis: 9}}, spec.ErrInvalid},
		{"fewer processes than a guest has", spec.Spec{Limits: spec.Limits{PIDs: engine.MinPIDs - 1}}, spec.ErrInvalid},
		{"more processes than there are", spec.Spec{Limits: spec.Limits{PIDs: 1<<22 + 1}}, spec.ErrInvalid},
		{"a secret that is not UTF-8", spec.Spec{Secrets: map[string]string{"A": "hunter2\xff"}}, spec.ErrUnsupported},
	} {
		tt.spec.Image = "i"
		if _, err := d.plan(&tt.spec, driver.ProvisionOptions{}); !errors.Is(err, tt.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want %v", tt.name, err, tt.want)
		}
	}
	for _, o := range []Options{
		{Limits: &spec.Limits{DiskBytes: -1}},
		{Hardening: &spec.Hardening{Seccomp: "unconfined"}},
		{Hardening: &spec.Hardening{Runtime: "a b"}},
	} {
		if _, err := New(engine.Docker(), o); !errors.Is(err, spec.ErrInvalid) {
			t.Errorf("options %+v: %v; want invalid", o, err)
		}
	}
}

// The strict profile fills in what nothing else has said, and cannot be switched off.
func TestStrictProfile(t *testing.T) {
	off := testDriver(t, Options{Limits: &spec.Limits{}, Hardening: &spec.Hardening{}})
	for _, tt := range []struct {
		name string
		d    *Driver
		ask  spec.Spec
		want spec.Limits
		user string
	}{
		{"alone", testDriver(t, Options{}), spec.Spec{}, spec.Limits{PIDs: 512, CPUMillis: 2000, MemoryBytes: 2 << 30}, engine.CallersUser()},
		{"where all is off", off, spec.Spec{}, spec.Limits{PIDs: 512, CPUMillis: 2000, MemoryBytes: 2 << 30}, engine.CallersUser()},
		{"beside what is asked for", off, spec.Spec{Limits: spec.Limits{MemoryBytes: 1 << 30, PIDs: 99}, Hardening: spec.Hardening{User: "7"}}, spec.Limits{PIDs: 99, CPUMillis: 2000, MemoryBytes: 1 << 30}, "7"},
	} {
		tt.ask.Image, tt.ask.Isolation = "i", spec.IsolationStrict
		p, err := tt.d.plan(&tt.ask, driver.ProvisionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, p.spec.Limits); diff != "" {
			t.Errorf("%s: limits (-want +got):\n%s", tt.name, diff)
		}
		want := spec.Hardening{DropCaps: []string{"ALL"}, ReadOnlyRoot: true, User: tt.user}
		if diff := cmp.Diff(want, p.spec.Hardening); diff != "" {
			t.Errorf("%s: hardening (-want +got):\n%s", tt.name, diff)
		}
		h := hostConfig(p, guest.Bin{Hash: strings.Repeat("ab", 32)}, 8)
		if h.NetworkMode != "none" || h.Tmpfs["/tmp"] == "" || !slices.Equal(h.SecurityOpt, []string{engine.NoNewPrivileges}) {
			t.Errorf("%s: host config %+v", tt.name, h)
		}
	}
}

// An image's labels are not taken for Berth's: every one that is read back is said. What is
// secret is in the environment alone.
func TestLabels(t *testing.T) {
	d := testDriver(t, Options{})
	_, c := inspected(t, d, &spec.Spec{Key: "k", Image: "i"})
	for _, label := range []string{labelOwner, labelKey, labelSpec, labelParts, labelEphemeral, labelListen, labelGuest, labelWorkdir, labelIsolation, labelIdle, labelTTL, labelEnv} {
		if _, said := c.Config.Labels[label]; !said {
			t.Errorf("label %s would be the image's", label)
		}
	}
	_, c = inspected(t, d, knobs())
	if text := fmt.Sprint(c.Config.Labels, c.Config.Entrypoint); strings.Contains(text, "hunter2") {
		t.Errorf("a secret in %s", text)
	}
	if !slices.Contains(c.Config.Env, "TOKEN=hunter2") {
		t.Errorf("env %q", c.Config.Env)
	}
}

// What an engine's storage and runtimes say is what is offered.
func TestProbeDeclaresOffers(t *testing.T) {
	for _, tt := range []struct {
		info       string
		disk, gpus bool
	}{
		{`"Driver":"overlay2","DriverStatus":[["Backing Filesystem","extfs"]],"Runtimes":{"runc":{}}`, false, false},
		{`"Driver":"overlay2","DriverStatus":[["Backing Filesystem","xfs"]],"Runtimes":{"nvidia":{}}`, true, true},
		{`"Driver":"vfs","DiscoveredDevices":[{"ID":"nvidia.com/gpu=0"}]`, false, true},
		{`"Driver":"zfs"`, true, false},
	} {
		d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, `{"OSType":"linux","Architecture":"x86_64",`+tt.info+`}`)
		})
		caps, err := d.Probe(context.Background())
		if err != nil || caps.LimitDisk != tt.disk || caps.GPUs != tt.gpus || (caps.Why("limit_disk") == "") != tt.disk || (caps.Why("gpus") == "") != tt.gpus {
			t.Errorf("%s: %+v, %v", tt.info, caps, err)
		}
		if caps.Isolation.Has(spec.IsolationStrict) || caps.Why("strict") == "" {
			t.Errorf("%s: strict without its limits", tt.info)
		}
	}
}
