package spec_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/spec"
)

// everything can enforce all there is.
var everything = spec.Caps{
	Isolation: spec.IsolationSet(spec.IsolationNone, spec.IsolationGuard, spec.IsolationJail, spec.IsolationStandard, spec.IsolationStrict),
	Network:   spec.NetworkSet(spec.NetworkNone, spec.NetworkLimited, spec.NetworkOpen),
	Keyed:     true, Image: true, WritableRoots: true, HiddenPaths: true, WorkspaceRoot: true, LimitMemory: true, LimitPIDs: true, LimitCPU: true, Hardening: true,
	LimitDisk: true, GPUs: true, Build: true, Mounts: true, PublishedPorts: true, NetworkModes: true, Secrets: true, Labels: true,
}

// Whatever a spec asks for and a backend lacks is refused, each by its name and
// with the backend's reason; nothing else is.
func TestCapsCheck(t *testing.T) {
	tests := []struct {
		name  string
		ask   spec.Spec
		lacks func(*spec.Caps)
	}{
		{"guard", spec.Spec{Isolation: spec.IsolationGuard}, func(c *spec.Caps) { c.Isolation = spec.IsolationSet(spec.IsolationNone, spec.IsolationJail) }},
		{"network none", spec.Spec{Network: spec.NetworkNone}, func(c *spec.Caps) { c.Network = spec.NetworkSet(spec.NetworkOpen) }},
		{"key", spec.Spec{Key: "k"}, func(c *spec.Caps) { c.Keyed = false }},
		{"image", spec.Spec{Image: "i"}, func(c *spec.Caps) { c.Image = false }},
		{"writable_roots", spec.Spec{WritableRoots: []string{"/a"}}, func(c *spec.Caps) { c.WritableRoots = false }},
		{"hidden_paths", spec.Spec{HiddenPaths: []string{"/a"}}, func(c *spec.Caps) { c.HiddenPaths = false }},
		{"workspace_root", spec.Spec{WorkspaceRoot: "/w"}, func(c *spec.Caps) { c.WorkspaceRoot = false }},
		{"limit_memory", spec.Spec{Limits: spec.Limits{MemoryBytes: 1}}, func(c *spec.Caps) { c.LimitMemory = false }},
		{"limit_pids", spec.Spec{Limits: spec.Limits{PIDs: 1}}, func(c *spec.Caps) { c.LimitPIDs = false }},
		{"limit_cpu", spec.Spec{Limits: spec.Limits{CPUMillis: 1}}, func(c *spec.Caps) { c.LimitCPU = false }},
		{"strict", spec.Spec{Isolation: spec.IsolationStrict}, func(c *spec.Caps) { c.Isolation = spec.IsolationSet(spec.IsolationStandard) }},
		{"limit_disk", spec.Spec{Limits: spec.Limits{DiskBytes: 1}}, func(c *spec.Caps) { c.LimitDisk = false }},
		{"gpus", spec.Spec{Limits: spec.Limits{GPUs: -1}}, func(c *spec.Caps) { c.GPUs = false }},
		{"gpus", spec.Spec{Limits: spec.Limits{GPUs: 1}}, func(c *spec.Caps) { c.GPUs = false }},
		{"build", spec.Spec{Build: &spec.Build{}}, func(c *spec.Caps) { c.Build = false }},
		{"mounts", spec.Spec{Mounts: []spec.Mount{{}}}, func(c *spec.Caps) { c.Mounts = false }},
		{"published_ports", spec.Spec{Ports: []spec.PublishedPort{{}}}, func(c *spec.Caps) { c.PublishedPorts = false }},
		{"network_modes", spec.Spec{NetworkMode: "host"}, func(c *spec.Caps) { c.NetworkModes = false }},
		{"secrets", spec.Spec{Secrets: map[string]string{"A": ""}}, func(c *spec.Caps) { c.Secrets = false }},
		{"labels", spec.Spec{Labels: map[string]string{"a": ""}}, func(c *spec.Caps) { c.Labels = false }},
		{"hardening", spec.Spec{Hardening: spec.Hardening{NoNewPrivileges: true}}, func(c *spec.Caps) { c.Hardening = false }},
		{"hardening", spec.Spec{Hardening: spec.Hardening{Seccomp: "{}"}}, func(c *spec.Caps) { c.Hardening = false }},
		{"hardening", spec.Spec{Hardening: spec.Hardening{Runtime: "runsc"}}, func(c *spec.Caps) { c.Hardening = false }},
		{"hardening", spec.Spec{Hardening: spec.Hardening{User: "1"}}, func(c *spec.Caps) { c.Hardening = false }},
		{"hardening", spec.Spec{Hardening: spec.Hardening{ReadOnlyRoot: true}}, func(c *spec.Caps) { c.Hardening = false }},
		{"hardening", spec.Spec{Hardening: spec.Hardening{DropCaps: []string{"ALL"}}}, func(c *spec.Caps) { c.Hardening = false }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := everything.Check(&tt.ask); err != nil {
				t.Errorf("where all can be had: %v", err)
			}
			lacking := everything
			tt.lacks(&lacking)
			if err := lacking.Check(&spec.Spec{}); err != nil {
				t.Errorf("a spec that asks for nothing: %v", err)
			}
			err := lacking.Check(&tt.ask)
			if !errors.Is(err, spec.ErrUnsupported) || !strings.Contains(err.Error(), tt.name) {
				t.Errorf("%v, want an unsupported %s", err, tt.name)
			}
			because := lacking.AddMissing(tt.name, "the kernel is\nold")
			if err := because.Check(&tt.ask); err == nil || !strings.Contains(err.Error(), "the kernel is old") {
				t.Errorf("%v does not give the reason", err)
			}
			if err := (spec.Caps{}).Check(&tt.ask); err == nil {
				t.Error("the zero value claims to have it")
			}
		})
	}
	if err := everything.Check(full()); err != nil {
		t.Errorf("all at once: %v", err)
	}
	if err := everything.Check(&spec.Spec{Isolation: "fortress"}); err == nil {
		t.Error("an unknown level can be had")
	}
}

// Reasons are found by name, each on a line of its own.
func TestWhy(t *testing.T) {
	var c spec.Caps
	if c.Why("guard") != "" {
		t.Error("a reason where none is")
	}
	d := c.AddMissing("guard", "no bwrap: install it").AddMissing("jail", "neither\r\nguard: forged")
	for name, want := range map[string]string{"guard": "no bwrap: install it", "jail": "neither  guard: forged", "gua": "", "": ""} {
		if got := d.Why(name); got != want {
			t.Errorf("why %q: %q, want %q", name, got, want)
		}
	}
	if c.Missing != "" {
		t.Error("AddMissing has changed its receiver")
	}
}

// A set survives its text form; names that this side does not know are left out.
func TestSetsAsText(t *testing.T) {
	for mask := range 1 << 5 {
		set := spec.Isolations(mask)
		got := spec.Isolations(255)
		if text, err := set.MarshalText(); err != nil || got.UnmarshalText(text) != nil || got != set {
			t.Errorf("%q comes back as %q", set, got)
		}
		if spec.IsolationSet(set.List()...) != set {
			t.Errorf("the list of %q makes another set", set)
		}
	}
	for mask := range 1 << 3 {
		set := spec.Networks(mask)
		got := spec.Networks(255)
		if text, err := set.MarshalText(); err != nil || got.UnmarshalText(text) != nil || got != set {
			t.Errorf("%q comes back as %q", set, got)
		}
		if spec.NetworkSet(set.List()...) != set {
			t.Errorf("the list of %q makes another set", set)
		}
	}
	var i spec.Isolations
	if err := i.UnmarshalText([]byte("guard,fortress,,none")); err != nil || i.String() != "none,guard" {
		t.Errorf("%q, %v", i, err)
	}
	var n spec.Networks
	if err := n.UnmarshalText([]byte("open,wormhole")); err != nil || n.String() != "open" {
		t.Errorf("%q, %v", n, err)
	}
	if i.Has(spec.IsolationDefault) || i.Has("fortress") || !i.Has(spec.IsolationNone) || !slices.Equal(n.List(), []spec.Network{spec.NetworkOpen}) {
		t.Error("membership is wrong")
	}
}

// Caps survive JSON, where clients and scripts read them.
func TestCapsJSON(t *testing.T) {
	c := everything.AddMissing("jail", "no kernel")
	c.Backend, c.OS, c.KillTree, c.Shielded = "b", "linux", spec.KillTreeConfirmed, true
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var got spec.Caps
	if err := json.Unmarshal(data, &got); err != nil || got != c {
		t.Errorf("%s comes back as %+v, %v", data, got, err)
	}
	if !strings.Contains(string(data), `"isolation":"none,guard,jail,standard,strict"`) {
		t.Errorf("JSON is %s", data)
	}
}
