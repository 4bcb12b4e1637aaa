package cgroup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/cgroup"
	"github.com/berth-dev/berth/spec"
)

// v2Files are those of a new v2 group.
func v2Files() map[string]string {
	return map[string]string{
		"cgroup.procs": "", "cgroup.kill": "", "cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": "",
		"memory.max": "max", "memory.swap.max": "max", "pids.max": "max", "cpu.max": "max 100000",
	}
}

// tree makes a v2 hierarchy of groups in which each path has its files.
func tree(t *testing.T, groups map[string]map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, files := range groups {
		dir := filepath.Join(root, path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

func unified(root string) string { return "30 22 0:27 / " + root + " rw - cgroup2 cgroup2 rw\n" }

func content(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// In v2 a limit is one file with what was asked for, swap is closed, and the controllers
// are handed down first.
func TestUnified(t *testing.T) {
	root := tree(t, map[string]map[string]string{
		".": v2Files(), "app": v2Files(),
	})
	h := cgroup.Fake(unified(root), "0::/app\n", v2Files())
	g, err := h.Make("berth-x", spec.Limits{MemoryBytes: 1 << 30, PIDs: 64, CPUMillis: 1500})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "app", "berth-x")
	if diff := cmp.Diff(cgroup.Group{Dirs: []string{dir}, Memory: dir}, g); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "pids.max": "64", "cpu.max": "150000 100000"} {
		if got := content(t, dir, name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
}

// Where the own group cannot hand a controller down, the group stands beside it; but one
// that has a limit is never left.
func TestUnifiedParents(t *testing.T) {
	without := v2Files()
	delete(without, "cgroup.subtree_control")
	limited := v2Files()
	delete(limited, "cgroup.subtree_control")
	limited["memory.max"] = "1000000"
	for name, try := range map[string]struct {
		own  map[string]string
		want string // "": refused
	}{
		"own":     {v2Files(), "slice/own/berth-x"},
		"beside":  {without, "slice/berth-x"},
		"limited": {limited, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[string]map[string]string{".": v2Files(), "slice": v2Files(), "slice/own": try.own})
			h := cgroup.Fake(unified(root), "0::/slice/own\n", v2Files())
			g, err := h.Make("berth-x", spec.Limits{PIDs: 64})
			if try.want == "" {
				if spec.CodeOf(err) != spec.CodeUnsupported || !strings.Contains(err.Error(), "limit_pids") {
					t.Errorf("it made %v, %v", g, err)
				}
				return
			}
			if err != nil || len(g.Dirs) != 1 || g.Dirs[0] != filepath.Join(root, try.want) {
				t.Errorf("it made %v, %v", g, err)
			}
		})
	}
}

// What is in force is read, not believed: a file that keeps another value is a refusal
// that names both, and the group is gone.
func TestReadBack(t *testing.T) {
	for name, spoil := range map[string]func(files map[string]string){
		"kept nothing": func(f map[string]string) { f["pids.max"] = "-> /dev/null" },
		"no file":      func(f map[string]string) { delete(f, "pids.max") },
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[string]map[string]string{".": v2Files()})
			files := v2Files()
			spoil(files)
			h := cgroup.Fake(unified(root), "0::/\n", files)
			_, err := h.Make("berth-x", spec.Limits{PIDs: 64})
			if spec.CodeOf(err) != spec.CodeUnsupported || !strings.Contains(err.Error(), "asked for 64") {
				t.Errorf("the error is %v", err)
			}
			if _, err := os.Stat(filepath.Join(root, "berth-x")); err == nil {
				t.Error("the group is left")
			}
		})
	}
}

// Where things are is read strictly: co-mounted controllers, hybrids, containers with
// and without a cgroup namespace; what leads out of sight is no group.
func TestDiscover(t *testing.T) {
	root := tree(t, map[string]map[string]string{".": {"cgroup.controllers": "pids"}, "a": {}})
	mem, cpu := t.TempDir(), t.TempDir()
	v1 := func(point, rootDir, options string) string {
		return "31 30 0:28 " + rootDir + " " + point + " rw,relatime shared:9 - cgroup cgroup rw," + options + "\n"
	}
	for name, try := range map[string]struct {
		mounts, membership, memory string
		have                       []cgroup.Kind
	}{
		"v1":               {v1(mem, "/", "memory"), "4:memory:/a/b\n", mem + "/a/b", []cgroup.Kind{cgroup.Memory}},
		"co-mounted":       {v1(cpu, "/", "cpu,cpuacct"), "4:cpu,cpuacct:/a\n", "", []cgroup.Kind{cgroup.CPU}},
		"hybrid":           {v1(mem, "/", "memory") + unified(root), "4:memory:/\n0::/a\n", mem, []cgroup.Kind{cgroup.Memory, cgroup.PIDs}},
		"container":        {v1(mem, "/docker/x", "memory"), "4:memory:/docker/x\n", mem, []cgroup.Kind{cgroup.Memory}},
		"namespace":        {v1(mem, "/", "memory"), "4:memory:/\n", mem, []cgroup.Kind{cgroup.Memory}},
		"outside of it":    {v1(mem, "/..", "memory"), "4:memory:/\n", "", nil},
		"above it":         {v1(mem, "/", "memory"), "4:memory:/../x\n", "", nil},
		"of another root":  {v1(mem, "/docker/x", "memory"), "4:memory:/docker/xy\n", "", nil},
		"damaged":          {"31 30 nonsense\n", "4:memory\nx\n", "", nil},
		"escaped":          {v1(mem+`/a\040b`, "/", "memory"), "4:memory:/\n", "", nil},
		"not a controller": {v1(mem, "/", "name=memory"), "4:name=memory:/\n", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := cgroup.Fake(try.mounts, try.membership, nil)
			if got := h.MemoryGroup(); got != try.memory {
				t.Errorf("the memory group is %q, want %q", got, try.memory)
			}
			if diff := cmp.Diff(try.have, h.Kinds()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
