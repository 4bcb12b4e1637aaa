//go:build linux

package image_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/address"
	"github.com/berth-dev/berth/internal/engine/image"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
)

// Podman builds, finds, fails and prunes as Docker does.
func TestPodman(t *testing.T) {
	podman := dockertest.Podman()
	host := podman.Host(t)
	t.Cleanup(func() {
		if err := podman.Close(); err != nil {
			t.Error(err)
		}
	})
	e, err := engine.New(engine.Podman(), address.Options{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	ctx, store := testContext(t), image.New(e, image.Options{Owner: "o"})
	base := podman.Image(t, dockertest.Image{Kind: dockertest.Busybox})
	dir := t.TempDir()
	write := func(text string) spec.Build {
		writeFile(t, filepath.Join(dir, "Dockerfile"), "FROM "+base+"\n"+text)
		return spec.Build{Context: dir}
	}
	var log bytes.Buffer
	b := write("COPY Dockerfile /\nRUN --mount=type=cache,target=/m touch /m/f\n")
	first, err := store.Build(ctx, b, driver.PrepareOptions{Log: &log})
	if err != nil || !first.Built || !strings.Contains(log.String(), "COPY") {
		t.Fatalf("%+v, %v, log %q", first, err, log.String())
	}
	if again, err := store.Build(ctx, b, driver.PrepareOptions{NoBuild: true}); err != nil || again.ID != first.ID {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := store.Build(ctx, write("COPY absent /\n"), driver.PrepareOptions{}); !errors.Is(err, spec.ErrInvalid) {
		t.Errorf("a build that fails: %v", err)
	}
	if _, err := store.Have(ctx, "localhost/absent:1", driver.PrepareOptions{}); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("an absent image: %v", err)
	}
	if _, err := store.Pull(ctx, "127.0.0.1:1/app:1", driver.PrepareOptions{}); !errors.Is(err, spec.ErrUnavailable) {
		t.Errorf("no registry: %v", err)
	}
	now, err := e.Clock(ctx, driver.Authority{})
	if err != nil || time.Since(now).Abs() > time.Minute {
		t.Errorf("the engine's time is %v, %v", now, err)
	}
	if removed, _, err := store.Prune(ctx, driver.Authority{}, now.Add(time.Hour), 0); err != nil || len(removed) == 0 {
		t.Errorf("pruned %v, %v", removed, err)
	}
	if _, err := store.Find(ctx, driver.Authority{}, first.Tags[0]); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("after the prune: %v", err)
	}
}
