package isolate

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/berth-dev/berth/spec"
)

// TestProbeHere defends that the probe really runs the wrapper.
func TestProbeHere(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Fatal("bubblewrap is missing: apt-get install bubblewrap")
	}
	for _, trial := range []Trial{{}, {Jail: true}, {Drop: true}, {Drop: true, Jail: true}} {
		if trial.Drop && os.Geteuid() != 0 {
			continue
		}
		if err := Probe(context.Background(), trial); err != nil {
			t.Errorf("%+v: %v", trial, err)
		}
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Probe(canceled, Trial{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled probe returned %v", err)
	}
}

// TestProbeRefuses defends that a wrapper that is missing, is something else, or fails
// is unsupported with advice, never taken for a wall.
func TestProbeRefuses(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct{ name, bwrap, want string }{
		{"missing", filepath.Join(dir, "none"), "not installed"},
		{"something else", script("other", "exit 0"), "is not bubblewrap"},
		{"too old", script("old", "echo 'bwrap: Unknown option --disable-userns' >&2; exit 1"), "too old"},
		{"fails silently", script("silent", "exit 3"), "exit status 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Probe(context.Background(), Trial{Bwrap: tt.bwrap})
			if spec.CodeOf(err) != spec.CodeUnsupported || !strings.Contains(err.Error(), tt.want) || spec.HintOf(err) == "" {
				t.Errorf("got %v (hint %q), want unsupported, %q and a hint", err, spec.HintOf(err), tt.want)
			}
		})
	}
}

// TestDiagnose defends that each known cause is named with its cure.
func TestDiagnose(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	tests := []struct {
		name   string
		said   string
		system fstest.MapFS
		euid   int
		trial  Trial
		cause  string
		hint   string
	}{
		{"none allowed", "No space left on device", fstest.MapFS{"proc/sys/user/max_user_namespaces": file("0\n")}, 0, Trial{}, "max_user_namespaces is 0", "sysctl -w user.max_user_namespaces"},
		{"not for users", "No permissions to create new namespace", fstest.MapFS{"proc/sys/kernel/unprivileged_userns_clone": file("0\n")}, 1000, Trial{}, "unprivileged_userns_clone is 0", "sysctl"},
		{"not for users, but root", "Operation not permitted", fstest.MapFS{"proc/sys/kernel/unprivileged_userns_clone": file("0\n")}, 0, Trial{}, "", "by hand"},
		{"apparmor", "setting up uid map: Permission denied", fstest.MapFS{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": file("1\n")}, 1000, Trial{}, "AppArmor", "AppArmor profile"},
		{"docker", "Operation not permitted", fstest.MapFS{".dockerenv": file("")}, 0, Trial{}, "container", "isolation none"},
		{"podman", "Operation not permitted", fstest.MapFS{"run/.containerenv": file("")}, 0, Trial{}, "container", "isolation none"},
		{"half a root", "Operation not permitted", fstest.MapFS{".dockerenv": file("")}, 0, Trial{Drop: true}, "not all rights", "CAP_SYS_ADMIN"},
		{"unknown", "strange", fstest.MapFS{}, 0, Trial{}, "", "by hand"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cause, hint := tt.trial.diagnose(tt.said, tt.system, tt.euid)
			if !strings.Contains(cause, tt.cause) || (tt.cause == "" && cause != "") || !strings.Contains(hint, tt.hint) {
				t.Errorf("got cause %q, hint %q", cause, hint)
			}
		})
	}
}

// A mount of the machine that goes away while the wall is built is told apart from a wall
// that cannot be built.
func TestMountVanished(t *testing.T) {
	for said, want := range map[string]bool{
		`bwrap: Can't bind mount /oldroot/tmp on /newroot/tmp: Unable to apply mount flags: remount "/newroot/tmp/docker/overlay2/1c92/merged": No such file or directory`: true,
		`bwrap: Can't bind mount /oldroot/tmp on /newroot/tmp: Unable to apply mount flags: remount "/newroot/tmp/docker/overlay2/a0e4/merged": Invalid argument`:          true,
		`bwrap: Can't bind mount /oldroot/tmp on /newroot/tmp: Unable to apply mount flags: remount "/newroot/tmp/x": Permission denied`:                                   false,
		`bwrap: Can't find source path /home/a/x: No such file or directory`:                                                                                               false,
		"": false,
	} {
		if MountVanished(said) != want {
			t.Errorf("%q: %v, want %v", said, !want, want)
		}
	}
}
