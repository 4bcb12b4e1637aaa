//go:build linux

package podman_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	dialect "github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/address"
	"github.com/berth-dev/berth/internal/engine/helper"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// A volume of a container is read by a guest with owners and contents, however little of it
// whoever reads wants. What cannot be read is an error that says why, whoever goes meanwhile is
// heard, and no container is left.
func TestPack(t *testing.T) {
	engine := dockertest.Podman()
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	image, api := engine.Image(t, dockertest.Image{Kind: dockertest.Busybox}), engine.Client(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	e, err := dialect.New(dialect.Podman(), address.Options{Host: engine.Host(t)})
	if err != nil {
		t.Fatal(err)
	}
	bin, err := guest.Binary(ctx, "linux", runtime.GOARCH, guest.BinaryOptions{Path: guestBinary(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&helper.Filler{Engine: e, Image: image, Bin: bin}).Fill(ctx); err != nil {
		t.Fatal(err)
	}
	c, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image: image,
			Cmd:   []string{"sh", "-c", "head -c 50000000 /dev/urandom >/v/big && echo x >/v/small && chown 7:8 /v/small && chmod 0 /v/small"},
		},
		HostConfig: &container.HostConfig{NetworkMode: "none", Mounts: []mount.Mount{{Type: mount.TypeVolume, Target: "/v"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	waited := api.ContainerWait(ctx, c.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if err := e.Start(ctx, driver.Authority{}, c.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waited.Error:
		t.Fatal(err)
	case <-waited.Result:
	}
	packer := helper.Packer{Engine: e, Image: image, Bin: bin, Container: c.ID, Prefix: "berth-prep-"}
	found := map[string]*tar.Header{}
	err = packer.Read(ctx, "/v", func(_ context.Context, r io.Reader) error {
		for archive := tar.NewReader(r); ; {
			h, err := archive.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			found[h.Name] = h
		}
	})
	if h := found["small"]; err != nil || len(found) != 2 || found["big"].Size != 50000000 || h.Uid != 7 || h.Gid != 8 || h.Mode != 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if err := packer.Read(ctx, "/v", func(_ context.Context, r io.Reader) error {
		_, err := io.CopyN(io.Discard, r, 1000)
		return err
	}); err != nil {
		t.Errorf("who reads a part: %v", err)
	}
	enough := errors.New("enough")
	if err := packer.Read(ctx, "/v", func(context.Context, io.Reader) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("who fails: %v", err)
	}
	err = packer.Read(ctx, "/none", func(_ context.Context, r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
	if spec.CodeOf(err) != spec.CodeUnavailable || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no directory: %v", err)
	}
	leaving, leave := context.WithCancel(ctx)
	if err := packer.Read(leaving, "/v", func(ctx context.Context, r io.Reader) error {
		leave()
		_, err := io.Copy(io.Discard, r)
		return err
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves: %v", err)
	}
	left, err := api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil || len(left.Items) != 1 {
		t.Errorf("containers: %+v, %v; want the one with the volume", left.Items, err)
	}
}
