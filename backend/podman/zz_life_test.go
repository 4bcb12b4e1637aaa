//go:build linux

package podman_test

import (
	"context"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/podman"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
	"github.com/berth-dev/berth/files"
)

func TestZZLife(t *testing.T) {
	engine := dockertest.Podman()
	defer engine.Close()
	ctx := context.Background()
	d, err := podman.New(podman.Options{Host: engine.Host(t), Guest: guest.BinaryOptions{Path: guestBinary(t)}})
	if err != nil {
		t.Fatal(err)
	}
	s := spec.Spec{Key: "k", Image: engine.Image(t, dockertest.Image{Kind: dockertest.Busybox})}
	s.Hardening.ReadOnlyRoot = true
	first, err := berth.Provision(ctx, d, s)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Destroy(ctx)
	if err := first.Files().WriteFile(ctx, "f", []byte("x"), files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	snap, err := first.Snapshot(ctx, berth.SnapshotOptions{ID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	s.Key, s.Image, s.Hardening.ReadOnlyRoot = "k2", "", false
	for range 2 {
		sb, err := berth.Restore(ctx, d, snap.ID, s, berth.ProvisionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		data, err := sb.Files().ReadFile(ctx, "f")
		r, e2 := sb.Exec(ctx, berth.Shell("ls -lan / /workspace /var/lib/berth; cat /proc/self/mountinfo"), berth.ExecOptions{})
		t.Logf("%v: %q %v\n%s %v", s.Hardening.ReadOnlyRoot, data, err, r.Stdout, e2)
		_ = sb.Destroy(ctx)
		s.Hardening.ReadOnlyRoot = true
	}
	_ = berth.RemoveSnapshot(ctx, d, "s1", berth.ReapOptions{})
}
