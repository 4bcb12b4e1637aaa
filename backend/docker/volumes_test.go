//go:build linux

package docker_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/client"
)

// The volumes that an image declares have what the image has there, and their owner's label:
// they go with their place, and with the next prune where somebody else has removed its
// container and left them.
func TestDeclaredVolumes(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	d, api := newDriver(t, o), engine.Client(t)
	dir := t.TempDir()
	text := "FROM " + engine.Image(t, dockertest.Image{Kind: dockertest.Busybox}) + "\n" +
		"RUN mkdir -p /data/deep /own /workspace && chmod 777 /workspace && echo kept >/data/f && chown 7:8 /data/f && chmod 640 /data/f && echo deep >/data/deep/f && chown 1000 /own\n" +
		"VOLUME /data /data/deep/ /own /workspace /mounted\n"
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = d.(driver.Pruner).Prune(ctx, driver.ReapOptions{}) }) // the image
	volumes := func() []string {
		t.Helper()
		list, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).Add("label", "dev.berth.owner="+o.Owner)})
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, v := range list.Items {
			names = append(names, v.Name)
		}
		slices.Sort(names)
		return names
	}
	mounted := spec.Mount{Source: t.TempDir(), Target: "/mounted"}
	for _, tt := range []struct {
		name   string
		change func(*spec.Spec)
		want   int // volumes
	}{
		{"plain", func(*spec.Spec) {}, 5},
		{"without a key", func(s *spec.Spec) { s.Key = "" }, 5},
		{"another user", func(s *spec.Spec) { s.Hardening.User = "1000:1000" }, 5},
		{"something mounted", func(s *spec.Spec) { s.Mounts = []spec.Mount{mounted} }, 4},
		{"a read-only root", func(s *spec.Spec) { s.Hardening.ReadOnlyRoot, s.Hardening.User = true, "1000:1000" }, 7},
		{"strict", func(s *spec.Spec) { s.Isolation, s.Hardening.User = spec.IsolationStrict, "1000:1000" }, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := spec.Spec{Key: "k", Build: &spec.Build{Context: dir}}
			tt.change(&s)
			for _, left := range []bool{false, true} {
				sb := provision(t, d, s)
				if got := sh(t, sb, "ls -ln /data/f | awk '{print $1, $3, $4}'; cat /data/deep/f; ls -ldn /own | awk '{print $3}'; touch /workspace/x /tmp/x && echo writable"); got != "-rw-r----- 7 8\ndeep\n1000\nwritable" {
					t.Errorf("what is there: %q", got)
				}
				have := volumes()
				if len(have) != tt.want {
					t.Errorf("%d volumes have the owner's label, want %d", len(have), tt.want)
				}
				if !left {
					if err := sb.Destroy(ctx); err != nil {
						t.Error(err)
					}
					eventually(t, "the volumes are gone with the place", func() bool { return len(volumes()) == 0 })
					continue
				}
				if _, err := api.ContainerRemove(ctx, sb.ID(), client.ContainerRemoveOptions{Force: true}); err != nil {
					t.Fatal(err)
				}
				pruned, err := d.(driver.Pruner).Prune(ctx, driver.ReapOptions{})
				got := slices.DeleteFunc(slices.Clone(pruned.Volumes), func(v string) bool { return !slices.Contains(have, v) })
				slices.Sort(got)
				if diff := cmp.Diff(have, got); diff != "" || err != nil {
					t.Errorf("pruned (-want +got), %v:\n%s", err, diff)
				}
				if got := volumes(); len(got) > 0 {
					t.Errorf("left: %v", got)
				}
			}
		})
	}
}
