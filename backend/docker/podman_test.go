//go:build linux

package docker_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/driver"
	dialect "github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/address"
	"github.com/berth-dev/berth/internal/engine/place"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
)

// onPodman is set in the processes in which the tests mean Podman.
const onPodman = "BERTH_TEST_ON_PODMAN"

// alike are the tests of what is the same with any engine; those in which the engines have
// been seen to differ run outside of the soak too.
const (
	differ = "^Test(DamagedGuest|GuestThat|GuestCannot|Adopt|Foreign|Owners|Gone|Limits|DefaultHardening|Workdir|Network|Mounts|MissingSource|Env|Direct|Published|Shared|Named|Knobs|Strict|OneSnapshot|SnapshotHolds|SnapshotOfVolumes|SnapshotOfStrict|SnapshotsOfOnePlace|RefusedCall)"
	alike  = differ + "|^Test(EverySignal|KillAll|ClientIsKilled|SessionsLeak|Concurrent|Cancelled|ReadOnlyRoot|Workload|SmallDisk|Filler)"
)

// Containers of Podman keep every promise that those of Docker keep: the tests are the
// same, in a process of their own that has Podman for its engine.
func TestOnPodman(t *testing.T) {
	if testing.Short() {
		t.Skip("a quick run leaves the second engine to the full one")
	}
	if os.Getenv("BERTH_TEST_SKIP_PODMAN") == "1" {
		t.Skip("BERTH_TEST_SKIP_PODMAN is set")
	}
	if os.Getenv(onPodman) != "" {
		t.Skip("this is the run on Podman")
	}
	tests := differ
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		tests = alike
	}
	cmd := exec.Command(os.Args[0], "-test.run", tests, "-test.timeout", "20m")
	cmd.Env = append(os.Environ(), onPodman+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

func testEngine() *dockertest.Engine {
	if os.Getenv(onPodman) != "" {
		return dockertest.Podman()
	}
	return &dockertest.Engine{}
}

// open returns a driver of the engine that the tests mean.
func open(o docker.Options) (driver.Driver, error) {
	if os.Getenv(onPodman) == "" {
		return docker.New(o)
	}
	return place.New(dialect.Podman(), place.Options{
		Owner: o.Owner, Engine: address.Options{Host: o.Host}, Limits: o.Limits, Hardening: o.Hardening, Guest: o.Guest,
		StateDir: o.StateDir, Transport: o.Transport, OrphanAfter: o.OrphanAfter, ResumeWindow: o.ResumeWindow,
	})
}
