//go:build linux

package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// eventually waits until cond has no objection.
func eventually(t *testing.T, what string, cond func() error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s: %v", what, err)
		}
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// open makes a driver.
func open(t *testing.T, o process.Options) driver.Driver {
	t.Helper()
	d, err := process.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// provision makes a place that goes with the test.
func provision(t *testing.T, d driver.Driver, s spec.Spec) driver.Session {
	t.Helper()
	session, err := d.Provision(within(t), &s, driver.ProvisionOptions{})
	if err != nil {
		t.Fatalf("provision: %v (hint: %s)", err, spec.HintOf(err))
	}
	t.Cleanup(func() {
		ctx := context.Background()
		owned, err := d.Owned(ctx)
		if err != nil {
			t.Error(err)
		}
		for _, o := range owned {
			if o.ID == session.ID() {
				if err := d.Reap(ctx, o.Key, driver.ReapOptions{}); err != nil {
					t.Error(err)
				}
			}
		}
		if err := session.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return session
}

// start starts a command whose output goes to out.
func start(t *testing.T, s driver.Session, out io.Writer, args ...string) driver.Process {
	t.Helper()
	p, err := s.Start(within(t), &spec.Command{Args: args}, driver.Stdio{Stdout: out, Stderr: out})
	if err != nil {
		t.Fatalf("start %q: %v", args, err)
	}
	return p
}

// sh runs a script and returns what it printed, both streams together, and its exit.
func sh(t *testing.T, s driver.Session, script string) (string, spec.Exit) {
	t.Helper()
	var out bytes.Buffer
	p, err := s.Start(within(t), &spec.Command{Args: spec.Shell(script), MergeOutput: true}, driver.Stdio{Stdout: &out})
	if err != nil {
		t.Fatalf("start %q: %v", script, err)
	}
	exit, err := p.Wait(within(t))
	if err != nil {
		t.Fatalf("wait for %q: %v", script, err)
	}
	return out.String(), exit
}

// must runs a script that has to end well.
func must(t *testing.T, s driver.Session, script string) string {
	t.Helper()
	out, exit := sh(t, s, script)
	if !exit.Success() {
		t.Fatalf("%s: %v: %s", script, exit, out)
	}
	return strings.TrimSpace(out)
}

// refused runs a script that must not end well.
func refused(t *testing.T, s driver.Session, script string) {
	t.Helper()
	if out, exit := sh(t, s, script); exit.Success() {
		t.Errorf("%s: it worked: %s", script, out)
	}
}

func wantCode(t *testing.T, err error, want spec.Code) {
	t.Helper()
	if spec.CodeOf(err) != want {
		t.Fatalf("got %v, want code %q", err, want)
	}
}

// TestCaps defends: a probe claims what holds here, a session what is in force, and what
// cannot be had has a reason.
func TestCaps(t *testing.T) {
	needBwrap(t)
	d := open(t, options(t))
	caps, err := d.Probe(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := caps.Isolation.String() + "/" + caps.Network.String(); got != "none,guard,jail/none,open" || !caps.Keyed || !caps.WritableRoots || !caps.HiddenPaths || !caps.Shielded {
		t.Errorf("probe: %s, %+v", got, caps)
	}
	for _, what := range []string{"standard", "strict", "network limited", "image", "hardening"} {
		if caps.Why(what) == "" {
			t.Errorf("no reason is given for the lack of %s", what)
		}
	}
	for level, want := range map[spec.Isolation]spec.Caps{
		spec.IsolationNone:  {Isolation: spec.IsolationSet(spec.IsolationNone), Network: spec.NetworkSet(spec.NetworkOpen)},
		spec.IsolationGuard: {Isolation: spec.IsolationSet(spec.IsolationGuard), Network: spec.NetworkSet(spec.NetworkNone), WritableRoots: true, HiddenPaths: true, Shielded: true, ConfinedSockets: true},
		spec.IsolationJail:  {Isolation: spec.IsolationSet(spec.IsolationJail), Network: spec.NetworkSet(spec.NetworkNone), WritableRoots: true, HiddenPaths: true, Shielded: true, ConfinedSockets: true},
	} {
		got := provision(t, d, spec.Spec{Isolation: level}).Caps()
		want.Backend, want.Keyed, want.Resume, want.NativePrograms, want.Shell, want.Coreutils = "process", true, true, true, true, true
		want.Terminals, want.Watch, want.Trees, want.Ports, want.Events = true, true, true, true, true
		want.WorkspaceRoot, want.Jobs, want.CommandUser = true, spec.JobsProcess, level == spec.IsolationNone && os.Geteuid() == 0
		want.OS, want.Arch, want.KillTree = got.OS, got.Arch, got.KillTree
		if diff := cmp.Diff(want, got); diff != "" || got.OS != "linux" || got.KillTree == "" {
			t.Errorf("%s: %s", level, diff)
		}
	}
}

// TestRefused defends: what a level cannot enforce fails before anything is made, and a
// guard that cannot be built is never replaced by none.
func TestRefused(t *testing.T) {
	o := options(t)
	tests := []struct {
		name string
		spec spec.Spec
		want spec.Code
	}{
		{"none with a closed network", spec.Spec{Isolation: "none", Network: "none"}, spec.CodeUnsupported},
		{"none with writable roots", spec.Spec{Isolation: "none", WritableRoots: []string{"/tmp"}}, spec.CodeUnsupported},
		{"none with hidden paths", spec.Spec{Isolation: "none", HiddenPaths: []string{"/etc"}}, spec.CodeUnsupported},
		{"limited network", spec.Spec{Network: "limited"}, spec.CodeUnsupported},
		{"a hidden workdir in a jail", spec.Spec{Isolation: "jail", Workdir: "/tmp", HiddenPaths: []string{"/tmp"}}, spec.CodeInvalid},
		{"a container's level", spec.Spec{Isolation: "strict"}, spec.CodeUnsupported},
		{"an image", spec.Spec{Image: "busybox"}, spec.CodeUnsupported},
		{"hardening", spec.Spec{Hardening: spec.Hardening{ReadOnlyRoot: true}}, spec.CodeUnsupported},
		{"no sense", spec.Spec{Isolation: "loose"}, spec.CodeInvalid},
		{"/ writable", spec.Spec{Workdir: "/"}, spec.CodeInvalid},
		{"/proc writable", spec.Spec{WritableRoots: []string{"/proc"}}, spec.CodeInvalid},
		{"a root that is missing", spec.Spec{WritableRoots: []string{"/nonexistent/root"}}, spec.CodeInvalidPath},
		{"a workdir that is a file", spec.Spec{Isolation: "none", Workdir: "/etc/passwd"}, spec.CodeInvalidPath},
		{"a hidden workdir", spec.Spec{Workdir: "/tmp", HiddenPaths: []string{"/tmp"}}, spec.CodeInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, key := range []spec.Key{"", "k"} {
				tt.spec.Key = key
				_, err := open(t, o).Provision(within(t), &tt.spec, driver.ProvisionOptions{})
				wantCode(t, err, tt.want)
			}
			left(t, o)
		})
	}
	t.Run("without bubblewrap", func(t *testing.T) {
		o := o
		o.Bwrap = "/nonexistent/bwrap"
		d := open(t, o)
		_, err := d.Provision(within(t), &spec.Spec{}, driver.ProvisionOptions{})
		if spec.CodeOf(err) != spec.CodeUnsupported || !strings.Contains(spec.HintOf(err), "bubblewrap") {
			t.Errorf("got %v, hint %q", err, spec.HintOf(err))
		}
		caps, err := d.Probe(within(t))
		if err != nil || caps.Isolation.String() != "none" || caps.Shielded || caps.Network.String() != "open" || caps.Why("guard") == "" {
			t.Errorf("probe: %+v, %v", caps, err)
		}
	})
	t.Run("with a bubblewrap that fails", func(t *testing.T) {
		o := o
		o.Bwrap = filepath.Join(far(t), "bwrap")
		if err := os.WriteFile(o.Bwrap, []byte("#!/bin/sh\necho 'bwrap: Unknown option' >&2\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := open(t, o).Provision(within(t), &spec.Spec{}, driver.ProvisionOptions{})
		if spec.CodeOf(err) != spec.CodeUnsupported || !strings.Contains(err.Error(), "too old") || spec.HintOf(err) == "" {
			t.Errorf("got %v, hint %q", err, spec.HintOf(err))
		}
	})
	left(t, o)
}

// TestOwners defends: drivers of two owners never see, refuse or end each other's places.
func TestOwners(t *testing.T) {
	o := options(t)
	mine := open(t, o)
	o.Owner = "other"
	theirs := open(t, o)
	a := provision(t, mine, spec.Spec{Key: "k", Isolation: "none"})
	b := provision(t, theirs, spec.Spec{Key: "k", Isolation: "none", Workdir: t.TempDir()})
	if a.ID() == b.ID() {
		t.Fatal("two owners share a place")
	}
	ctx := within(t)
	for d, want := range map[driver.Driver]string{mine: a.ID(), theirs: b.ID()} {
		owned, err := d.Owned(ctx)
		if err != nil || len(owned) != 1 || owned[0].ID != want || owned[0].Backend != "process" {
			t.Errorf("owned: %+v, %v; want %s", owned, err, want)
		}
	}
	if err := mine.Reap(ctx, "k", driver.ReapOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := must(t, b, "echo alive"); got != "alive" {
		t.Errorf("got %q", got)
	}
}

// TestSameWorkdir defends: a workdir named through a link is the same place.
func TestSameWorkdir(t *testing.T) {
	levels(t, func(t *testing.T, level spec.Isolation) {
		d := open(t, options(t))
		dir := t.TempDir()
		if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "new", "dir"), 0o755); err != nil {
			t.Fatal(err)
		}
		a := provision(t, d, spec.Spec{Key: "k", Isolation: level, Workdir: filepath.Join(dir, "link", "new", "dir")})
		b := provision(t, d, spec.Spec{Key: "k", Isolation: level, Workdir: filepath.Join(dir, "new", "dir")})
		if a.ID() != b.ID() {
			t.Errorf("%s and %s", a.ID(), b.ID())
		}
		if got, want := must(t, b, "pwd; echo $PWD; pwd -P; touch made"), filepath.Join(dir, "new", "dir"); got != want+"\n"+want+"\n"+want {
			t.Errorf("working directory %q, want %q", got, want)
		}
	})
}

// TestMissingWorkdir defends: a workdir that does not exist is refused with its cure, and
// nothing is made on this machine.
func TestMissingWorkdir(t *testing.T) {
	levels(t, func(t *testing.T, level spec.Isolation) {
		o, missing := options(t), filepath.Join(t.TempDir(), "none", "dir")
		_, err := open(t, o).Provision(within(t), &spec.Spec{Isolation: level, Workdir: missing}, driver.ProvisionOptions{})
		wantCode(t, err, spec.CodeInvalidPath)
		if !strings.Contains(spec.HintOf(err), "mkdir -p "+missing) {
			t.Errorf("hint %q", spec.HintOf(err))
		}
		if _, err := os.Stat(filepath.Dir(missing)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the workdir was made: %v", err)
		}
		left(t, o)
	})
}

// TestStateDirectoryOfXDG defends: without a state directory of its own a program finds
// the places of the berth command, which follows the XDG specification.
func TestStateDirectoryOfXDG(t *testing.T) {
	base, home := t.TempDir(), t.TempDir()
	for _, tt := range []struct{ name, base, want string }{
		{"base", base, filepath.Join(base, "berth")},
		{"relative base", "state", filepath.Join(home, ".local", "state", "berth")},
		{"no base", "", filepath.Join(home, ".local", "state", "berth")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("HOME", home)
			t.Setenv("XDG_STATE_HOME", tt.base)
			o := options(t)
			o.StateDir = ""
			provision(t, open(t, o), spec.Spec{Isolation: "none"})
			if entries, err := os.ReadDir(filepath.Join(tt.want, "process")); err != nil || len(entries) == 0 {
				t.Errorf("%s holds no place: %v", tt.want, err)
			}
		})
	}
}

// TestOrphan defends: a place without a key is gone so long after its last client.
func TestOrphan(t *testing.T) {
	levels(t, func(t *testing.T, level spec.Isolation) {
		o := options(t)
		o.OrphanAfter = 300 * time.Millisecond
		d := open(t, o)
		session, err := d.Provision(within(t), &spec.Spec{Isolation: level}, driver.ProvisionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pids := processesOf(t, o, session.ID())
		if len(pids) == 0 {
			t.Fatal("the guest is not found")
		}
		if err := session.Close(within(t)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the guest ends", func() error {
			if now := processesOf(t, o, session.ID()); len(now) > 0 {
				return fmt.Errorf("processes %v", now)
			}
			return nil
		})
		left(t, o)
	})
}

// processesOf lists the processes that name the place of a state directory in their
// arguments: its guest and what wraps it.
func processesOf(t *testing.T, o process.Options, id string) []int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, name := range names {
		args, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(args), o.StateDir) || !strings.Contains(string(args), "\x00--id\x00"+id+"\x00") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// TestWithoutHome defends: without HOME the state directory is the user's, as the system
// knows it.
func TestWithoutHome(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	if _, err := process.New(process.Options{}); err != nil {
		t.Errorf("%v (hint %q)", err, spec.HintOf(err))
	}
}
