//go:build linux

package podman_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/berth-dev/berth/backend/podman"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
)

// The contract holds for Podman as it does for Docker, for any image: with a shell and
// without, with nothing at all, as root and as another user, on a read-only root. What
// else is promised of containers is tested beside backend/docker, on both engines.
func TestConform(t *testing.T) {
	soak := os.Getenv("BERTH_TEST_SOAK") != ""
	engine := dockertest.Podman()
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	o := podman.Options{
		Host: engine.Host(t), Guest: guest.BinaryOptions{Path: guestBinary(t)},
		OrphanAfter: 5 * time.Second, ResumeWindow: 5 * time.Second,
	}
	for _, tt := range []struct {
		name      string
		image     dockertest.Image
		hardening spec.Hardening

		soak  bool // runs in the soak alone
		quick bool // runs with -short too

		direct bool // past the engine; the other containers are reached through it
	}{
		{name: "busybox", direct: true, quick: true, image: dockertest.Image{Kind: dockertest.Busybox}},
		{name: "scratch", image: dockertest.Image{Kind: dockertest.Scratch}},
		{name: "uid1000", soak: true, image: dockertest.Image{Kind: dockertest.Busybox, UID: 1000}},
		{name: "noshell", soak: true, image: dockertest.Image{Kind: dockertest.NoShell}},
		{name: "readonly", image: dockertest.Image{Kind: dockertest.Busybox, UserName: true}, hardening: spec.Hardening{ReadOnlyRoot: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && !tt.quick {
				t.Skip("the other images say enough for a quick run")
			}
			if tt.soak && !soak {
				t.Skip("scratch has no shell, and readonly another user: the soak has this one as well")
			}
			mine := o
			mine.Owner = "t-" + tt.name
			if tt.direct {
				mine.StateDir = t.TempDir()
			}
			var only *regexp.Regexp
			if !tt.quick && !soak {
				only = dockertest.OfTheImage
			}
			drivertest.Run(t, drivertest.Options{
				Open: func() (driver.Driver, error) { return podman.New(mine) },
				Spec: spec.Spec{Image: engine.Image(t, tt.image), Hardening: tt.hardening},

				OrphanAfter: o.OrphanAfter, ResumeWindow: o.ResumeWindow,
				Soak: soak, Only: only, Brief: !soak, // what Brief leaves out is the guest's, and tried whole on Docker
			})
		})
	}
}

// guestBinary builds a guest for this run alone: a change of its source meanwhile changes
// nothing.
func guestBinary(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	bin, err := guest.Binary(ctx, "linux", runtime.GOARCH, guest.BinaryOptions{CacheDir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatalf("guest binary: %v", err)
	}
	return bin.Path
}
