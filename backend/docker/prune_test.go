//go:build linux

package docker_test

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// ownGuest are options with a guest that no other test has, whose volume goes when the test
// ends.
func ownGuest(t *testing.T, o docker.Options, mark string) (_ docker.Options, volume string) {
	t.Helper()
	data, err := os.ReadFile(o.Guest.Path)
	if err != nil {
		t.Fatal(err)
	}
	o.Guest.Path = t.TempDir() + "/guest"
	if err := os.WriteFile(o.Guest.Path, append(data, mark...), 0o755); err != nil {
		t.Fatal(err)
	}
	bin, err := guest.Binary(context.Background(), "linux", runtime.GOARCH, o.Guest)
	if err != nil {
		t.Fatal(err)
	}
	api, volume := engine.Client(t), "berth-guest-"+bin.Hash[:12]
	t.Cleanup(func() { _, _ = api.VolumeRemove(context.Background(), volume, client.VolumeRemoveOptions{}) })
	return o, volume
}

// A prune may take the guest's volume away at any moment at which no container has it: whoever
// is making a place puts it there again, however often that happens, and the place has its
// direct way all the same.
func TestPruneBesideProvisions(t *testing.T) {
	o, volume := ownGuest(t, testOptions(t), "pruned")
	ctx := testContext(t)
	o.StateDir = t.TempDir()
	s, api := busybox(t), engine.Client(t)
	done := make(chan struct{})
	var pruned atomic.Int64 // how often the guest's volume was taken
	var loops, work sync.WaitGroup
	loop := func(prune func() (int, error)) {
		loops.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				n, err := prune()
				if err != nil {
					t.Errorf("prune: %v", err)
					return
				}
				pruned.Add(int64(n))
			}
		})
	}
	pruner := newDriver(t, o).(driver.Pruner)
	loop(func() (int, error) {
		p, err := pruner.Prune(ctx, driver.ReapOptions{})
		return len(p.Volumes), err
	})
	// The step of a prune that matters, oftener.
	loop(func() (int, error) {
		if _, err := api.VolumeRemove(ctx, volume, client.VolumeRemoveOptions{}); err != nil {
			return 0, nil // in use, or not there
		}
		return 1, nil
	})
	const workers, each = 2, 10
	for worker := range workers {
		work.Go(func() {
			for n := range each {
				// What a driver has learnt is of no use here, nor is it to be trusted.
				d, mine := newDriver(t, o), s
				mine.Key = spec.Key("k" + strconv.Itoa(worker))
				if n%2 == 1 {
					mine.Key = ""
				}
				sb, err := berth.Provision(ctx, d, mine)
				if err != nil {
					t.Errorf("provision %d of %q: %v (hint: %s)", n, mine.Key, err, spec.HintOf(err))
					continue
				}
				if got := sh(t, sb, "echo works"); got != "works" {
					t.Errorf("the place says %q", got)
				}
				c, err := api.ContainerInspect(ctx, sb.ID(), client.ContainerInspectOptions{})
				if err != nil || !slices.ContainsFunc(c.Container.Mounts, func(m container.MountPoint) bool { return m.Destination == "/.berth/direct" }) {
					t.Errorf("the place has no direct way (%v)", err)
				}
				if err := sb.Destroy(ctx); err != nil {
					t.Errorf("destroy: %v", err)
				}
			}
		})
	}
	work.Wait()
	close(done)
	loops.Wait()
	if pruned.Load() == 0 {
		t.Error("no prune has taken the volume: nothing was tested")
	}
	t.Logf("the volume was taken %d times", pruned.Load())
}
