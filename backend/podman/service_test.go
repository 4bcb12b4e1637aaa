//go:build linux

package podman_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/podman"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
)

// Where no service answers one is started, by one of those who come at once, and serves
// them all; a socket that a dead one has left is in nobody's way. It stays while it is in
// use, ends by itself and leaves nothing, and is started again by whoever needs it. Who only
// looks starts none, and uses one that runs.
func TestServiceOnDemand(t *testing.T) {
	engine := dockertest.Podman()
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	image := engine.Image(t, dockertest.Image{Kind: dockertest.Busybox})
	dir := filepath.Join(t.TempDir(), "podman")
	bin := guest.BinaryOptions{Path: guestBinary(t)}
	service := podman.Service{Command: engine.Command(t), Dir: dir, Idle: time.Second}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	open := func(s podman.Service) driver.Driver {
		t.Helper()
		d, err := podman.New(podman.Options{Sockets: []string{dir + ".sock"}, Service: &s, Guest: bin})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if _, err := net.Dial("unix", "/run/podman/podman.sock"); err == nil {
		t.Skip("root's service answers here")
	}

	looking := service
	looking.LookOnly = true
	if _, err := open(looking).Owned(ctx); !errors.Is(err, driver.ErrOnDemand) || spec.CodeOf(err) != spec.CodeUnavailable {
		t.Errorf("look: %v; want %v", err, driver.ErrOnDemand)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("who only looks has made the directory")
	}

	abandon(t, dir)
	drivers := make([]driver.Driver, 8)
	var at sync.WaitGroup
	for i := range drivers {
		drivers[i] = open(service)
		at.Go(func() {
			if _, err := drivers[i].Probe(ctx); err != nil {
				t.Errorf("probe: %v (hint: %s)", err, spec.HintOf(err))
			}
		})
	}
	at.Wait()
	if left := sockets(t, dir); len(left) != 1 {
		t.Errorf("services: %v; want one", left)
	}

	sb, err := berth.Provision(ctx, drivers[0], spec.Spec{Key: "k", Image: image})
	if err != nil {
		t.Fatalf("provision: %v (hint: %s)", err, spec.HintOf(err))
	}
	first := sockets(t, dir)
	if r, err := sb.Exec(ctx, berth.Shell("sleep 3"), berth.ExecOptions{}); err != nil || !r.Success() {
		t.Errorf("a command that takes longer than the service waits for somebody: %+v, %v", r, err)
	}
	if now := sockets(t, dir); len(now) != 1 || now[0] != first[0] {
		t.Errorf("services: %v, before %v; want the same while it is in use", now, first)
	}
	if owned, err := open(looking).Owned(ctx); err != nil || len(owned) != 1 {
		t.Errorf("look: %+v, %v; want the sandbox, by the service that runs", owned, err)
	}
	if err := sb.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}

	for len(sockets(t, dir)) > 0 && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left by a service that has ended: %v", left)
	}
	if err := drivers[0].Reap(ctx, "k", driver.ReapOptions{}); err != nil {
		t.Errorf("reap: %v; want a service that is started again", err)
	}
}

// A service that fails to start says why in one error, with what can be done; where the
// program is missing the engine is as absent as it always was.
func TestServiceThatFails(t *testing.T) {
	for _, tt := range []struct {
		name    string
		command []string
		mode    os.FileMode
		code    spec.Code
		text    string
	}{
		{"words", []string{"sh", "-c", "echo first >&2; echo 'Error: no such store' >&2; exit 125"}, 0o700, spec.CodeUnavailable, `"Error: no such store"`},
		{"silent", []string{"sh", "-c", "exit 9"}, 0o700, spec.CodeUnavailable, "exit status 9"},
		{"missing", []string{"no-such-podman"}, 0o700, spec.CodeUnavailable, "no such file"},
		{"shared directory", []string{"sh", "-c", "exit 9"}, 0o755, spec.CodePermission, "others can get at it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			if err := os.Mkdir(dir, tt.mode); err != nil {
				t.Fatal(err)
			}
			d, err := podman.New(podman.Options{Service: &podman.Service{Command: tt.command, Dir: dir}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = d.Probe(context.Background())
			if spec.CodeOf(err) != tt.code || err == nil || !strings.Contains(err.Error(), tt.text) || spec.HintOf(err) == "" {
				t.Errorf("%v (hint %q); want %s with %s", err, spec.HintOf(err), tt.code, tt.text)
			}
			if left := entries(t, dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	d, err := podman.New(podman.Options{Service: &podman.Service{Command: []string{"true"}, Dir: link}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Probe(context.Background()); spec.CodeOf(err) != spec.CodePermission {
		t.Errorf("a link for a directory: %v; want %s", err, spec.CodePermission)
	}
}

// abandon leaves a socket on which nobody listens any more.
func abandon(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s-dead")})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func sockets(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for _, name := range entries(t, dir) {
		if strings.HasPrefix(name, "s-") {
			out = append(out, name)
		}
	}
	return out
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}
