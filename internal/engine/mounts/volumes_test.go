package mounts_test

import (
	"testing"

	"github.com/berth-dev/berth/internal/engine/mounts"
	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
)

// A volume that an image declares is mounted once, and not where something else is.
func TestDeclared(t *testing.T) {
	h := &container.HostConfig{
		Mounts: []mount.Mount{{Target: "/.berth"}, {Target: "/bind"}}, Binds: []string{"/source:/shared:z"}, Tmpfs: map[string]string{"/tmp": "rw"},
	}
	labels := map[string]string{"a": "b"}
	var got []string
	for _, m := range mounts.Declared([]string{"/data/", "/bind", "/bind/below", "/data", "/shared", "/tmp/", "/", "/.berth", "relative", "/a/../data/deep"}, labels, h) {
		if m.Type != mount.TypeVolume || m.Source != "" || m.ReadOnly || m.VolumeOptions.NoCopy || m.VolumeOptions.Labels["a"] != "b" {
			t.Errorf("%+v", m)
		}
		got = append(got, m.Target)
	}
	if diff := cmp.Diff([]string{"/bind/below", "/data", "/data/deep"}, got); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}
