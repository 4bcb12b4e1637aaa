//go:build linux

package docker_test

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
)

// The contract holds for any image: with a shell and without, with nothing at all,
// as root and as another user, on a read-only root, and over a transport that
// fragments, delays and stalls.
func TestConform(t *testing.T) {
	soak := os.Getenv("BERTH_TEST_SOAK") != ""
	for _, tt := range []struct {
		name   string
		image  dockertest.Image
		change func(*spec.Spec)
		slow   bool
		soak   bool // runs in the soak alone
		quick  bool // runs with -short too
		brief  bool
		direct bool // past the engine; the other containers are reached through it
	}{
		{name: "busybox", direct: true, image: dockertest.Image{Kind: dockertest.Busybox}, quick: true},
		{name: "scratch", brief: true, image: dockertest.Image{Kind: dockertest.Scratch}, quick: true},
		{name: "slow", soak: true, brief: true, image: dockertest.Image{Kind: dockertest.Busybox}, slow: true},
		{name: "uid1000", direct: true, brief: true, image: dockertest.Image{Kind: dockertest.Busybox, UID: 1000}},
		{name: "noshell", soak: true, brief: true, image: dockertest.Image{Kind: dockertest.NoShell}},
		{name: "readonly", brief: true, image: dockertest.Image{Kind: dockertest.Busybox, UserName: true}, change: func(s *spec.Spec) {
			s.Hardening.ReadOnlyRoot = true
		}},
		{name: "strict", direct: true, brief: true, image: dockertest.Image{Kind: dockertest.Busybox}, change: func(s *spec.Spec) {
			s.Isolation = spec.IsolationStrict
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && !tt.quick {
				t.Skip("the other images say enough for a quick run")
			}
			if tt.soak && !soak {
				t.Skip("scratch has no shell either, and the streams of other backends are slow too: the soak has this one as well")
			}
			o := testOptions(t)
			o.OrphanAfter, o.ResumeWindow = 5*time.Second, 5*time.Second
			if tt.direct {
				o.StateDir = t.TempDir()
			}
			if tt.slow {
				o.Transport = drivertest.SlowStream
			}
			s := spec.Spec{Image: engine.Image(t, tt.image)}
			if tt.change != nil {
				tt.change(&s)
			}
			var only *regexp.Regexp
			if tt.brief && !soak {
				only = dockertest.OfTheImage
			}
			drivertest.Run(t, drivertest.Options{
				Open: func() (driver.Driver, error) { return docker.New(o) }, Spec: s,
				OrphanAfter: o.OrphanAfter, ResumeWindow: o.ResumeWindow,
				Soak: soak, Only: only,
			})
		})
	}
}

// A container that keeps what it takes to change ids lets a command have a user.
func TestConformUsers(t *testing.T) {
	if testing.Short() {
		t.Skip("the containers of a quick run have no such capabilities")
	}
	o := testOptions(t)
	o.Limits, o.Hardening = &spec.Limits{}, &spec.Hardening{DropCaps: []string{"NET_RAW"}}
	drivertest.Run(t, drivertest.Options{
		Open: func() (driver.Driver, error) { return docker.New(o) },
		Spec: spec.Spec{Image: engine.Image(t, dockertest.Image{Kind: dockertest.Busybox})},
		Only: regexp.MustCompile("^(User|Umask|Rlimits|Setup)"),
	})
}
