//go:build linux

package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// Who needs a guest's volume takes over from a client that died while it filled it, in
// seconds, and leaves one that is only slow to its work.
func TestFillerOfTheGuestVolume(t *testing.T) {
	for _, tt := range []struct {
		name string
		// fill puts the guest into the volume through the helper id, as another client does.
		fill func(api *client.Client, id string, archive []byte) error
	}{
		{"dead", func(api *client.Client, id string, archive []byte) error {
			_, _ = api.CopyToContainer(context.Background(), id, client.CopyToContainerOptions{DestinationPath: "/.berth", Content: bytes.NewReader(archive[:len(archive)/2])})
			return nil // half of it is a fault, and the helper stays
		}},
		{"slow", func(api *client.Client, id string, archive []byte) error {
			_, err := api.CopyToContainer(context.Background(), id, client.CopyToContainerOptions{DestinationPath: "/.berth", Content: &trickle{rest: archive, pieces: 30}})
			if err == nil {
				_, err = api.ContainerRemove(context.Background(), id, client.ContainerRemoveOptions{Force: true})
			}
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, ctx := testOptions(t), testContext(t)
			s, api := busybox(t), engine.Client(t)
			o, volume := ownGuest(t, o, tt.name)
			data, err := os.ReadFile(o.Guest.Path)
			if err != nil {
				t.Fatal(err)
			}
			c, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{
				Name:       volume,
				Config:     &container.Config{Image: s.Image, Cmd: []string{"true"}, Labels: map[string]string{"dev.berth.helper": "true"}},
				HostConfig: &container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: volume, Target: "/.berth"}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			var archive bytes.Buffer
			w := tar.NewWriter(&archive)
			_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "berth-guest", Mode: 0o555, Size: int64(len(data))})
			_, _ = w.Write(data)
			_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "direct/", Mode: 0o755})
			_ = w.Close()
			other := make(chan error, 1)
			go func() { other <- tt.fill(api, c.ID, archive.Bytes()) }()

			// The volume is there and, as far as anybody can tell, filled: a start shows that it is not.
			began := time.Now()
			sb := provision(t, newDriver(t, o), s)
			if took := time.Since(began); took > 40*time.Second {
				t.Errorf("the other client held it up for %v", took)
			}
			if got := sh(t, sb, "echo works"); got != "works" {
				t.Errorf("the place says %q", got)
			}
			if err := <-other; err != nil {
				t.Errorf("the other client: %v", err)
			}
			if err := sb.Destroy(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// trickle is a reader that takes six seconds.
type trickle struct {
	rest   []byte
	pieces int
}

// Read implements io.Reader.
func (r *trickle) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest[:max(1, len(r.rest)/max(1, r.pieces))])
	r.rest = r.rest[n:]
	if r.pieces > 0 {
		time.Sleep(200 * time.Millisecond)
		r.pieces--
	}
	return n, nil
}
