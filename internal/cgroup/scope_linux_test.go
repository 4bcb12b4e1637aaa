package cgroup_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/cgroup"
	"github.com/berth-dev/berth/spec"
)

// systemd makes scopes in a tree of files, as a user manager does: below app.slice, and
// gone when nothing holds them. What it was asked for is in asked.
type systemd struct {
	t     *testing.T
	root  string
	files map[string]string
	fail  error // instead
	asked []string
	gone  chan struct{}
}

func (s *systemd) scope(name string, properties []string) (string, *os.File, error) {
	if s.fail != nil {
		return "", nil, s.fail
	}
	s.asked, s.gone = properties, make(chan struct{})
	path := filepath.Join("/manager/app.slice", name+".scope")
	dir := filepath.Join(s.root, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	files := maps.Clone(s.files)
	for _, p := range properties {
		switch name, value, _ := strings.Cut(p, "="); name {
		case "MemoryMax":
			files["memory.max"] = value
		case "TasksMax":
			files["pids.max"] = value
		case "CPUQuota":
			percent, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
			if err != nil {
				s.t.Fatal(err)
			}
			files["cpu.max"] = fmt.Sprintf("%d 100000", int(percent*1000))
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(s.gone)
		defer r.Close()
		_, _ = io.Copy(io.Discard, r)
		os.RemoveAll(dir)
	}()
	return path, w, nil
}

// machine is one that systemd runs, where this program is in the session below it.
func machine(t *testing.T, session map[string]string) (*cgroup.Host, *systemd) {
	t.Helper()
	root := tree(t, map[string]map[string]string{".": v2Files(), "session": session, "manager/app.slice": v2Files()})
	s := &systemd{t: t, root: root, files: v2Files()}
	return cgroup.Fake(unified(root), "0::/session\n", v2Files()).WithScopes(s.scope), s
}

// Where systemd runs the machine a group is a scope of its, which is told the limits and
// in which they are set and read back as in any group. It is found by the same name, and
// is gone with what holds it.
func TestScope(t *testing.T) {
	h, s := machine(t, v2Files())
	g, err := h.Make("berth-x", spec.Limits{MemoryBytes: 1 << 30, PIDs: 64, CPUMillis: 1505})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.root, "manager/app.slice/berth-x.scope")
	if len(g.Dirs) != 1 || g.Dirs[0] != dir || g.Memory != dir || g.Hold == nil {
		t.Errorf("the group is %+v", g)
	}
	if diff := cmp.Diff([]string{"MemoryMax=1073741824", "MemorySwapMax=0", "TasksMax=64", "CPUQuota=150.5%"}, s.asked); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "pids.max": "64", "cpu.max": "150500 100000"} {
		if got := content(t, dir, name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if found := h.Lookup("berth-x"); !slices.Equal(found, g.Dirs) {
		t.Errorf("found again: %q", found)
	}
	g.Hold.Close()
	<-s.gone
	if found := h.Lookup("berth-x"); len(found) > 0 {
		t.Errorf("left over: %q", found)
	}
}

// Where systemd makes no scope the group is made as on a machine without it; where that
// cannot be either, both causes are named, and what cures that of systemd.
func TestScopeRefused(t *testing.T) {
	h, s := machine(t, v2Files())
	s.fail = &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("nobody is there"), Hint: "call somebody"}
	g, err := h.Make("berth-x", spec.Limits{PIDs: 64})
	if err != nil || len(g.Dirs) != 1 || g.Dirs[0] != filepath.Join(s.root, "session/berth-x") || g.Hold != nil {
		t.Errorf("it made %+v, %v", g, err)
	}
	limited := v2Files()
	limited["cgroup.type"], limited["cgroup.procs"], limited["memory.max"] = "domain", "1\n", "1000000"
	h, s = machine(t, limited)
	s.fail = &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("nobody is there"), Hint: "call somebody"}
	_, err = h.Make("berth-x", spec.Limits{PIDs: 64})
	if spec.CodeOf(err) != spec.CodeUnsupported || !strings.Contains(err.Error(), "nobody is there") || !strings.Contains(err.Error(), "processes of its own") || spec.HintOf(err) != "call somebody" {
		t.Errorf("the error is %v, its hint %q", err, spec.HintOf(err))
	}
}

// A place in a scope has no more than the group has that this program is in: what holds
// for that holds for what it starts. The scope of one that would is gone.
func TestScopeIsNoWayOut(t *testing.T) {
	for name, try := range map[string]struct {
		file, value string
		limits      spec.Limits
		refused     string // the limit that is named; "": it is made
	}{
		"less memory":           {"memory.max", "1073741824", spec.Limits{MemoryBytes: 1 << 29}, ""},
		"more memory":           {"memory.max", "1073741824", spec.Limits{MemoryBytes: 1 << 31, PIDs: 64}, "limit_memory"},
		"no limit of memory":    {"memory.max", "1073741824", spec.Limits{PIDs: 64}, "limit_pids"},
		"more CPU":              {"cpu.max", "50000 100000", spec.Limits{PIDs: 64, CPUMillis: 600}, "limit_cpu"},
		"as much CPU":           {"cpu.max", "10000 20000", spec.Limits{CPUMillis: 500}, ""},
		"fewer processes":       {"pids.max", "65", spec.Limits{PIDs: 64}, ""},
		"one more than allowed": {"pids.max", "63", spec.Limits{PIDs: 64}, "limit_pids"},
	} {
		t.Run(name, func(t *testing.T) {
			session := v2Files()
			session[try.file], session["cgroup.type"], session["cgroup.procs"] = try.value, "domain", "1\n"
			h, s := machine(t, session)
			g, err := h.Make("berth-x", try.limits)
			if try.refused == "" {
				if err != nil {
					t.Fatal(err)
				}
				g.Hold.Close()
				return
			}
			if spec.CodeOf(err) != spec.CodeUnsupported || !strings.Contains(err.Error(), try.refused) || !strings.Contains(err.Error(), try.file) || spec.HintOf(err) == "" {
				t.Errorf("the error is %v, its hint %q", err, spec.HintOf(err))
			}
			<-s.gone
		})
	}
}

// A group in which there are processes has none below it, whatever the kernel lets us
// write there: nobody could join.
func TestUnifiedInhabited(t *testing.T) {
	own := v2Files()
	own["cgroup.type"], own["cgroup.procs"] = "domain", "1\n"
	root := tree(t, map[string]map[string]string{".": v2Files(), "slice": v2Files(), "slice/own": own})
	h := cgroup.Fake(unified(root), "0::/slice/own\n", v2Files())
	g, err := h.Make("berth-x", spec.Limits{PIDs: 64})
	if err != nil || len(g.Dirs) != 1 || g.Dirs[0] != filepath.Join(root, "slice/berth-x") {
		t.Errorf("it made %v, %v", g, err)
	}
	if got := content(t, filepath.Join(root, "slice/own"), "cgroup.subtree_control"); got != "" {
		t.Errorf("%q was handed down in a group with processes", got)
	}
}
