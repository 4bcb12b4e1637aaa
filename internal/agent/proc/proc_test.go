//go:build linux

package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/spec"
)

// A process may call itself anything without being taken for another.
func TestParseStat(t *testing.T) {
	const tail = " S 7 8 9 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 135785 3133440 416"
	tests := []struct {
		name, text string
		want       Stat
		ok         bool
	}{
		{"plain", "42 (sh)" + tail, Stat{PID: 42, PPID: 7, Group: 8, Session: 9, state: 'S', threads: 1, Start: 135785, name: "sh"}, true},
		{"parentheses and spaces", "42 (a) S 1 1 1 (b)" + tail, Stat{PID: 42, PPID: 7, Group: 8, Session: 9, state: 'S', threads: 1, Start: 135785, name: "a) S 1 1 1 (b"}, true},
		{"newline", "42 (a\n)b)" + tail + "\n", Stat{PID: 42, PPID: 7, Group: 8, Session: 9, state: 'S', threads: 1, Start: 135785, name: "a\n)b"}, true},
		{"nothing", "", Stat{}, false},
		{"cut", "42 (sh) S 7 8", Stat{}, false},
		{"no name", "42 S 7 8 9", Stat{}, false},
		{"no number", "x (sh)" + tail, Stat{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseStat([]byte(tt.text))
			if ok != tt.ok {
				t.Fatalf("ok is %v", ok)
			}
			if ok && got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	self, ok := ReadStat(os.Getpid())
	if !ok || self.PID != os.Getpid() || self.PPID != os.Getppid() {
		t.Errorf("of this process: %+v, %v", self, ok)
	}
}

// A process is dead when all of its threads are, whatever its first one looks like: a program
// could end that alone, and would be passed over.
func TestDead(t *testing.T) {
	for text, want := range map[string]bool{"S 1": false, "Z 1": true, "X 1": true, "Z 0": true, "Z 2": false} {
		state, threads, _ := strings.Cut(text, " ")
		st, ok := parseStat([]byte("42 (sh) " + state + " 7 8 9 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 " + threads + " 0 135785 3133440 416"))
		if !ok || st.dead() != want {
			t.Errorf("%s: %+v, %v is dead: %v", text, st, ok, st.dead())
		}
	}
}

// The guest's own group is found in each hierarchy that shows it, whatever part of
// it is mounted.
func TestOwnCgroups(t *testing.T) {
	tests := []struct {
		name, mounts, membership string
		want                     []string
	}{
		{"whole hierarchy", "30 22 0:27 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n", "0::/user.slice/a\n", []string{"/sys/fs/cgroup/user.slice/a"}},
		{"root group", "30 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/\n", []string{"/sys/fs/cgroup"}},
		{"part that holds it", "30 22 0:27 /docker/x /cg rw - cgroup2 cgroup rw\n", "0::/docker/x/y\n", []string{"/cg/y"}},
		{"part that does not", "30 22 0:27 /docker/x /cg rw - cgroup2 cgroup rw\n", "0::/docker/xy\n", nil},
		{"hybrid", "31 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n40 30 0:37 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "4:memory:/process/x\n0::/\n", []string{"/sys/fs/cgroup/unified"}},
		{"version 1 only", "31 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "4:memory:/x\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			mounts, membership := filepath.Join(dir, "mountinfo"), filepath.Join(dir, "cgroup")
			if err := errors.Join(os.WriteFile(mounts, []byte(tt.mounts), 0o600), os.WriteFile(membership, []byte(tt.membership), 0o600)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, ownCgroups(mounts, membership)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A program is looked up as execvp does: the first that can be run, and why not
// where there is none.
func TestLookProgram(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/tool": 0o644, "b/tool": 0o755, "a/locked": 0o600, "here": 0o755} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "a/dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	path := dir + "/nosuch:" + dir + "/a/:" + dir + "/b:"
	for name, want := range map[string]string{
		"tool": dir + "/b/tool", // the first that can be run, not the first that is there
		"here": "./here",        // an empty element is the command's directory
	} {
		if got, err := LookProgram(name, path, d.FD); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]error{"nosuch": syscall.ENOENT, "locked": syscall.EACCES, "dir": syscall.EACCES, "./a/nosuch": syscall.ENOENT} {
		if _, err := LookProgram(name, path, d.FD); !errors.Is(err, want) || spec.CodeOf(err) != spec.CodeStartFailed {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// Without openat2, too, nothing that leads through /proc is opened.
func TestOpenReal(t *testing.T) {
	dir := t.TempDir()
	for link, target := range map[string]string{"good": dir, "proc": "/proc/self", "fd": "/proc/self/fd"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{".": true, "good": true, "proc": false, "fd": false, "nosuch": false} {
		fd, err := openReal(filepath.Join(dir, name))
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			syscall.Close(fd)
		}
	}
}

// A directory of groups is left alone while its guest lives, and cleared away by the
// next one after its death.
func TestStaleGroups(t *testing.T) {
	first := NewGroups()
	if first == nil {
		t.Skip("no cgroup can be made here")
	}
	defer first.Close()
	second := NewGroups()
	if second == nil {
		t.Fatal("a second guest gets no groups")
	}
	second.Close()
	if _, err := os.Stat(second.base); !os.IsNotExist(err) {
		t.Errorf("groups are left: %v", err)
	}
	if first.free[0].populated() {
		t.Error("the groups of a living guest were cleared away")
	}
	third := NewGroups()
	third.lock.Close() // as a kill does
	NewGroups().Close()
	if _, err := os.Stat(third.base); !os.IsNotExist(err) {
		t.Errorf("the groups of a dead guest are left: %v", err)
	}
}
