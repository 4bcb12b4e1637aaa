//go:build linux

package docker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
)

// needLocal skips where the engine's machine may be another one.
func needLocal(t *testing.T) {
	t.Helper()
	if os.Getenv("BERTH_TEST_DOCKER_HOST") != "" {
		t.Skip("the engine may run on another machine")
	}
}

// wantNoContainer complains about containers of the owner.
func wantNoContainer(t *testing.T, d driver.Driver, after string) {
	t.Helper()
	if owned, err := d.Owned(context.Background()); err != nil || len(owned) > 0 {
		t.Errorf("after %s: %+v, %v; want nothing left", after, owned, err)
	}
}

// What is mounted is seen and written under its name, at any depth, by root and by another
// user; a workdir that is mounted read-only is a workspace that is read.
func TestMounts(t *testing.T) {
	needLocal(t)
	for _, user := range []string{"", "1234"} {
		o, ctx := testOptions(t), testContext(t)
		root := t.TempDir()
		for _, dir := range []string{"work", "rw", "shared"} {
			if err := errors.Join(os.Mkdir(filepath.Join(root, dir), 0o755), os.Chmod(filepath.Join(root, dir), 0o777), os.WriteFile(filepath.Join(root, dir, "f"), []byte(dir), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(root, 0o755); err != nil { // above it is the test's own
			t.Fatal(err)
		}
		s := busybox(t)
		s.Key, s.Workdir, s.Hardening.User = "u"+spec.Key(user), "/src", user
		s.Mounts = []spec.Mount{
			{Source: root + "/work", Target: "/src", ReadOnly: true},
			{Source: root + "/rw", Target: "/deep/er/rw/"},
			{Source: root + "/shared", Target: "/shared", Shared: true},
			{Source: root + "/rw/f", Target: "/etc/one"},
		}
		sb := provision(t, newDriver(t, o), s)
		if got := sh(t, sb, "pwd; cat f /deep/er/rw/f /shared/f /etc/one"); got != "/src\nworkrwsharedrw" {
			t.Errorf("user %q: %q", user, got)
		}
		err := sb.Files().WriteFile(ctx, "new", []byte("x"), files.WriteOptions{})
		wantIs(t, "a write to the read-only workspace", err, spec.ErrNotWritable)
		if data, err := sb.Files().ReadFile(ctx, "f"); err != nil || string(data) != "work" {
			t.Errorf("read: %q, %v", data, err)
		}
		sh(t, sb, "echo from inside >/deep/er/rw/g; echo x >/shared/g")
		if data, err := os.ReadFile(root + "/rw/g"); err != nil || string(data) != "from inside\n" {
			t.Errorf("the mounted directory has %q, %v", data, err)
		}
		st, err := sb.Status(ctx)
		want := []spec.Mount{
			{Source: root + "/rw", Target: "/deep/er/rw"},
			{Source: root + "/rw/f", Target: "/etc/one"},
			{Source: root + "/shared", Target: "/shared", Shared: true},
			{Source: root + "/work", Target: "/src", ReadOnly: true},
		}
		if diff := cmp.Diff(want, st.Mounts); err != nil || diff != "" {
			t.Errorf("status: %v (-want +got):\n%s", err, diff)
		}
		if caps, err := sb.Caps(ctx); err != nil || caps.ConfinedSockets {
			t.Errorf("caps: %+v, %v; what is mounted may hold a socket", caps, err)
		}
		// Below a read-only root too, and a directory in the workdir leaves the workdir writable.
		s.Key, s.Hardening.ReadOnlyRoot, s.Workdir = "below"+s.Key, true, ""
		s.Mounts = []spec.Mount{{Source: root + "/rw", Target: "/workspace/in", ReadOnly: true}, {Source: root + "/shared", Target: "/tmp"}}
		sb = provision(t, newDriver(t, o), s)
		sh(t, sb, "echo x >new && cat in/f && ! echo x 2>/dev/null >in/x && cat /tmp/f && echo x >/tmp/h")
		s.Key, s.Hardening.ReadOnlyRoot = "writable"+s.Key, false
		sb = provision(t, newDriver(t, o), s)
		sh(t, sb, "echo x >new && cat in/f")
	}
}

// A source that is not there fails the creation in one line, with where it should be;
// nothing is left, and nothing is made in its place.
func TestMissingSource(t *testing.T) {
	needLocal(t)
	o, ctx := testOptions(t), testContext(t)
	missing := filepath.Join(t.TempDir(), "missing")
	d := newDriver(t, o)
	for _, shared := range []bool{false, true} {
		s := busybox(t)
		s.Mounts = []spec.Mount{{Source: missing, Target: "/m", Shared: shared}}
		_, err := berth.Provision(ctx, d, s)
		if !errors.Is(err, spec.ErrInvalid) || !strings.Contains(err.Error(), missing) || strings.Contains(err.Error(), "\n") || !strings.Contains(spec.HintOf(err), "the engine runs on") {
			t.Errorf("shared %v: %v (hint %q); want invalid, with the path", shared, err, spec.HintOf(err))
		}
		wantNoContainer(t, d, "a missing source")
		if _, err := os.Lstat(missing); !os.IsNotExist(err) {
			t.Errorf("shared %v: the source was made: %v", shared, err)
		}
	}
}
