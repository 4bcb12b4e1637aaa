//go:build linux

package process_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/spec"
)

// TestEnvironStaysInside defends: what a Spec puts into the environment reaches commands
// byte for byte, and no program outside of the wall: a variable can make one load a library
// that a command has left in the workdir, or write where no command can. No list of
// arguments and no environment of a process on this machine holds a value.
func TestEnvironStaysInside(t *testing.T) {
	needBwrap(t)
	for _, level := range []spec.Isolation{spec.IsolationGuard, spec.IsolationJail} {
		t.Run(string(level), func(t *testing.T) {
			base, o := far(t), options(t)
			work, outside := filepath.Join(base, "work"), filepath.Join(base, "outside")
			for _, dir := range []string{work, outside} {
				if err := os.Mkdir(dir, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			const value = "se\xffcret\nwith a line"
			s := provision(t, open(t, o), spec.Spec{Key: "k", Workdir: work, Isolation: level, Env: map[string]string{
				// The loader of a dynamic program says here what it loads.
				"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": filepath.Join(outside, "loaded"), "OF_THE_PLACE": value,
			}})
			must(t, s, `printf '%s' "$OF_THE_PLACE" >seen`) // the loader says what it loads between the rest
			if seen, err := os.ReadFile(filepath.Join(work, "seen")); err != nil || string(seen) != value {
				t.Errorf("a command sees %q, %v; want %q", seen, err, value)
			}
			left, err := filepath.Glob(filepath.Join(outside, "*"))
			if err != nil || len(left) > 0 {
				t.Errorf("programs outside had the environment of the place: %q, %v", left, err)
			}
			pids := processesOf(t, o, place.ID("test", "k"))
			if len(pids) == 0 {
				t.Fatal("no process of the place is found")
			}
			for _, pid := range pids {
				for _, name := range []string{"cmdline", "environ"} {
					data, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name)) // closed, where this user may not
					if strings.Contains(string(data), "cret\nwith") {
						t.Errorf("the %s of %d holds a value", name, pid)
					}
				}
			}
		})
	}
}

// TestSwappedWhileBuilt defends: what a command of another place puts into the way of a
// workdir after the host has looked, and before the wrapper does, is not mounted: the place
// does not come up, and nothing outside of it is written.
func TestSwappedWhileBuilt(t *testing.T) {
	needBwrap(t)
	for _, level := range []spec.Isolation{spec.IsolationGuard, spec.IsolationJail} {
		t.Run(string(level), func(t *testing.T) {
			base, tmp := far(t), tempDir(t)
			victim := filepath.Join(base, "victim")
			rel, err := filepath.Rel(filepath.Join(tmp, "x"), victim)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(victim, 0o777), os.Chmod(victim, 0o777), os.MkdirAll(filepath.Join(tmp, "b", "project"), 0o755), os.Mkdir(filepath.Join(tmp, "x"), 0o755), os.Symlink(rel, filepath.Join(tmp, "x", "project"))); err != nil {
				t.Fatal(err)
			}
			o := options(t)
			// What is tried first is a wall without a guest.
			o.Bwrap = write(t, fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *--workdir*) [ -d %[1]s/real ] || { mv %[1]s/b %[1]s/real; ln -s x %[1]s/b; touch %[2]s/swapped; } ;; esac\nexec bwrap \"$@\"\n", tmp, base), base, "wrapper")
			if err := os.Chmod(o.Bwrap, 0o755); err != nil {
				t.Fatal(err)
			}
			d := open(t, o)
			s, err := d.Provision(within(t), &spec.Spec{Key: "k", Workdir: filepath.Join(tmp, "b", "project"), Isolation: level}, driver.ProvisionOptions{})
			if err == nil {
				out, _ := sh(t, s, "pwd -P; touch written; ls -l")
				t.Errorf("it came up: %s", out)
				if err := errors.Join(s.Close(within(t)), d.Reap(within(t), "k", driver.ReapOptions{})); err != nil {
					t.Error(err)
				}
			}
			if _, err := os.Stat(filepath.Join(base, "swapped")); err != nil {
				t.Fatalf("nothing was swapped: %v: this test shows nothing", err)
			}
			if names, err := os.ReadDir(victim); err != nil || len(names) > 0 {
				t.Errorf("what lies outside has %v, %v", names, err)
			}
			left(t, o)
		})
	}
}

// tempDir is a directory below one that guard leaves writable.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "berth-swap-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
