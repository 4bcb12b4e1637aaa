package spec_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/spec"
)

// full returns a spec with every field set.
func full() *spec.Spec {
	return &spec.Spec{
		Key: "key", Image: "image", Workdir: "/work", Env: map[string]string{"A": "1"},
		Isolation: spec.IsolationGuard, Network: spec.NetworkNone,
		WritableRoots: []string{"/b", "/a"}, HiddenPaths: []string{"/d", "/c"},
		Limits:      spec.Limits{MemoryBytes: 1, CPUMillis: 2, PIDs: 3},
		Hardening:   spec.Hardening{DropCaps: []string{"NET_RAW", "KILL"}, ReadOnlyRoot: true, User: "1:2"},
		IdleTimeout: time.Second, TTL: time.Minute, Persist: true,
	}
}

// Each part of a place's identity changes the hash; what may change without making
// it another place does not.
func TestHashKnowsIdentity(t *testing.T) {
	changes := []struct {
		name     string
		change   func(*spec.Spec)
		identity bool
	}{
		{"Key", func(s *spec.Spec) { s.Key = "other" }, false},
		{"Env", func(s *spec.Spec) { s.Env = map[string]string{"B": "2"} }, false},
		{"IdleTimeout", func(s *spec.Spec) { s.IdleTimeout++ }, false},
		{"TTL", func(s *spec.Spec) { s.TTL = 0 }, false},
		{"Persist", func(s *spec.Spec) { s.Persist = false }, false},
		{"Image", func(s *spec.Spec) { s.Image = "other" }, true},
		{"Workdir", func(s *spec.Spec) { s.Workdir = "/other" }, true},
		{"Isolation", func(s *spec.Spec) { s.Isolation = spec.IsolationJail }, true},
		{"Network", func(s *spec.Spec) { s.Network = spec.NetworkOpen }, true},
		{"WritableRoots", func(s *spec.Spec) { s.WritableRoots = []string{"/a"} }, true},
		{"HiddenPaths", func(s *spec.Spec) { s.HiddenPaths = append(s.HiddenPaths, "/e") }, true},
		{"WorkspaceRoot", func(s *spec.Spec) { s.WorkspaceRoot = "/root" }, true},
		{"Limits.MemoryBytes", func(s *spec.Spec) { s.Limits.MemoryBytes++ }, true},
		{"Limits.CPUMillis", func(s *spec.Spec) { s.Limits.CPUMillis++ }, true},
		{"Limits.PIDs", func(s *spec.Spec) { s.Limits.PIDs++ }, true},
		{"Hardening.DropCaps", func(s *spec.Spec) { s.Hardening.DropCaps = nil }, true},
		{"Hardening.ReadOnlyRoot", func(s *spec.Spec) { s.Hardening.ReadOnlyRoot = false }, true},
		{"Limits.DiskBytes", func(s *spec.Spec) { s.Limits.DiskBytes++ }, true},
		{"Limits.GPUs", func(s *spec.Spec) { s.Limits.GPUs++ }, true},
		{"Hardening.User", func(s *spec.Spec) { s.Hardening.User = "1" }, true},
		{"Hardening.NoNewPrivileges", func(s *spec.Spec) { s.Hardening.NoNewPrivileges = true }, true},
		{"Hardening.Seccomp", func(s *spec.Spec) { s.Hardening.Seccomp = "{}" }, true},
		{"Hardening.Runtime", func(s *spec.Spec) { s.Hardening.Runtime = "runsc" }, true},
		{"Build", func(s *spec.Spec) { s.Build = &spec.Build{Context: "/c"} }, false}, // it is resolved to an image
		{"Labels", func(s *spec.Spec) { s.Labels = map[string]string{"a": "b"} }, false},
		{"Secrets", func(s *spec.Spec) { s.Secrets = map[string]string{"TOKEN": "x"} }, true},
		{"NetworkMode", func(s *spec.Spec) { s.NetworkMode = "host" }, true},
		{"Mounts", func(s *spec.Spec) { s.Mounts = []spec.Mount{{Source: "/a", Target: "/b"}} }, true},
		{"Ports", func(s *spec.Spec) { s.Ports = []spec.PublishedPort{{Container: 80}} }, true},
	}
	want := full().Hash()
	if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(want) {
		t.Errorf("hash %q, want 16 hex digits", want)
	}
	seen := map[string]string{want: "nothing"}
	covered := map[string]bool{}
	for _, c := range changes {
		covered[c.name] = true
		s := full()
		c.change(s)
		got := s.Hash()
		switch other, twice := seen[got]; {
		case c.identity && twice:
			t.Errorf("a change of %s gives the hash of a change of %s", c.name, other)
		case !c.identity && got != want:
			t.Errorf("a change of %s changes the hash", c.name)
		}
		seen[got] = c.name
	}
	// Whoever adds a field says here whether it is part of the identity.
	for _, f := range reflect.VisibleFields(reflect.TypeFor[spec.Spec]()) {
		if f.Type.Kind() != reflect.Struct && !covered[f.Name] {
			t.Errorf("field %s is in no case", f.Name)
		}
		if f.Type.Kind() == reflect.Struct {
			for _, g := range reflect.VisibleFields(f.Type) {
				if !covered[f.Name+"."+g.Name] {
					t.Errorf("field %s.%s is in no case", f.Name, g.Name)
				}
			}
		}
	}
}

// A secret is known by its name: its value makes no other place.
func TestHashIgnoresValuesOfSecrets(t *testing.T) {
	a, b := full(), full()
	a.Secrets, b.Secrets = map[string]string{"TOKEN": "old"}, map[string]string{"TOKEN": "new"}
	if a.Hash() != b.Hash() {
		t.Error("another value of a secret is another place")
	}
}

// The order of a list and a repeated entry make no other place, and Hash leaves
// the spec as it was.
func TestHashIgnoresOrder(t *testing.T) {
	a, b := full(), full()
	b.WritableRoots = []string{"/a", "/b", "/a"}
	b.HiddenPaths = []string{"/c", "/d"}
	b.Hardening.DropCaps = []string{"KILL", "NET_RAW"}
	if a.Hash() != b.Hash() {
		t.Error("the order of a list changes the hash")
	}
	if diff := cmp.Diff(full(), a); diff != "" {
		t.Errorf("Hash has changed the spec:\n%s", diff)
	}
}

// Names are bytes: two that are not UTF-8 are two specs.
func TestHashKeepsBytesApart(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"/\xff", "/\xfe", "/\ufffd", `"/\xff"`} {
		for _, s := range []*spec.Spec{{Workdir: name}, {WritableRoots: []string{name}}} {
			h := s.Hash()
			if other, ok := seen[h]; ok {
				t.Errorf("%q has the hash of %q", name, other)
			}
			seen[h] = name
		}
	}
}

// Zero fields leave no trace: a field that is added later renames nothing.
func TestZeroFieldsLeaveNoTrace(t *testing.T) {
	data, err := json.Marshal(&spec.Spec{})
	if err != nil || string(data) != "{}" {
		t.Errorf("an empty spec is %s, %v", data, err)
	}
	a, b := &spec.Spec{Image: "x"}, &spec.Spec{Image: "x", WritableRoots: []string{}, Hardening: spec.Hardening{DropCaps: []string{}}}
	if a.Hash() != b.Hash() {
		t.Error("an empty list changes the hash")
	}
}

// The hash of a spec is the same in every version: places are found by it.
func TestHashIsStable(t *testing.T) {
	if got := (&spec.Spec{Image: "busybox", Workdir: "/workspace"}).Hash(); got != "7d0509a876af46a2" {
		t.Errorf("hash %s", got)
	}
}

// A spec survives JSON.
func TestSpecJSON(t *testing.T) {
	data, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	got := new(spec.Spec)
	if err := json.Unmarshal(data, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full(), got); diff != "" {
		t.Errorf("(-sent +got):\n%s", diff)
	}
}

// A clone shares nothing with its original.
func TestClone(t *testing.T) {
	s := full()
	c := s.Clone()
	c.Env["A"], c.WritableRoots[0], c.HiddenPaths[0], c.Hardening.DropCaps[0] = "2", "x", "x", "x"
	if diff := cmp.Diff(full(), s); diff != "" {
		t.Errorf("a change of the clone reaches the spec:\n%s", diff)
	}
	cmd := &spec.Command{Args: []string{"a"}, Env: map[string]string{"A": "1"}}
	d := cmd.Clone()
	d.Args[0], d.Env["A"] = "b", "2"
	if cmd.Args[0] != "a" || cmd.Env["A"] != "1" {
		t.Error("a change of the clone reaches the command")
	}
	if empty := (&spec.Spec{}).Clone(); empty.Env != nil || empty.WritableRoots != nil {
		t.Error("cloning nothing makes something")
	}
}

// The grace is never negative; what is not said is the default.
func TestGraceOrDefault(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{0: spec.DefaultGrace, -1: 0, 7: 7} {
		if got := (&spec.Command{Grace: grace}).GraceOrDefault(); got != want {
			t.Errorf("grace %v: %v, want %v", grace, got, want)
		}
	}
}

// A timeout is authoritative; a success is a leader that ended by itself, in time,
// with status 0.
func TestExit(t *testing.T) {
	for _, tt := range []struct {
		exit    spec.Exit
		success bool
		text    string
	}{
		{spec.Exit{}, true, "exit status 0"},
		{spec.Exit{Code: 3}, false, "exit status 3"},
		{spec.Exit{Code: 137, Signal: 9}, false, "signal 9"},
		{spec.Exit{Code: 0, TimedOut: true}, false, "timed out"},
		{spec.Exit{Code: 137, Signal: 9, TimedOut: true}, false, "timed out"},
		{spec.Exit{Code: 124}, false, "exit status 124"},
	} {
		if tt.exit.Success() != tt.success || tt.exit.String() != tt.text {
			t.Errorf("%+v: success %v, %q", tt.exit, tt.exit.Success(), tt.exit.String())
		}
	}
}

// Parts say which fields differ, by name, and nothing of what is in them.
func TestPartsNameWhatDiffers(t *testing.T) {
	a := spec.Spec{Image: "one", Network: spec.NetworkNone, WritableRoots: []string{"/a", "/b"}, Key: "k", Env: map[string]string{"TOKEN": "secret"}}
	b := spec.Spec{Image: "two", Network: spec.NetworkNone, WritableRoots: []string{"/b", "/a"}, Workdir: "/w", Key: "other"}
	if diff := cmp.Diff([]string{"image", "workdir"}, spec.DifferingParts(a.Parts(), b.Parts())); diff != "" {
		t.Errorf("differing (-want +got):\n%s", diff)
	}
	if same := spec.DifferingParts(a.Parts(), a.Clone().Parts()); len(same) > 0 {
		t.Errorf("a clone differs in %q", same)
	}
	for name, part := range a.Parts() {
		if len(part) != 8 || name == "env" || name == "key" {
			t.Errorf("part %s = %q", name, part)
		}
	}
}
