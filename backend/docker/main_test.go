//go:build linux

package docker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/client"
)

// The engine and the guest binary that all tests of this package share.
var (
	engine     = testEngine()
	buildGuest = sync.OnceValues(func() (guest.Bin, error) {
		return guest.Binary(context.Background(), "linux", runtime.GOARCH, guest.BinaryOptions{CacheDir: cacheDir})
	})
	cacheDir string
)

// guestBinary returns the guest binary; it is built once, so that a change of its
// source in the middle of a run changes nothing.
func guestBinary(t *testing.T) string {
	t.Helper()
	bin, err := buildGuest()
	if err != nil {
		t.Fatalf("guest binary: %v", err)
	}
	return bin.Path
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case victimVerb:
			os.Exit(victim(os.Args[2:]))
		case workerVerb:
			os.Exit(worker(os.Args[2:]))
		case roundsVerb:
			os.Exit(toucher(os.Args[2:]))
		}
	}
	dir, err := os.MkdirTemp("", "berth-docker-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cacheDir = filepath.Join(dir, "cache")
	code := m.Run()
	if err := engine.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "close the engine:", err)
		code = 1
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// testOptions are the options of a driver whose places only this test sees. When the
// test ends, nothing may be left of them.
func testOptions(t *testing.T) docker.Options {
	t.Helper()
	owner := "t-" + strings.NewReplacer("/", ".", "#", "-", ":", "-").Replace(t.Name())
	o := docker.Options{Owner: owner, Host: engine.Host(t), Guest: guest.BinaryOptions{Path: guestBinary(t)}}
	t.Cleanup(func() { wantNothingLeft(t, o) })
	return o
}

func newDriver(t *testing.T, o docker.Options) driver.Driver {
	t.Helper()
	d, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wantNothingLeft reaps what the test left, and complains about containers of its
// owner that remain after a moment, helpers, and volumes other than guests'.
func wantNothingLeft(t *testing.T, o docker.Options) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d := newDriver(t, o)
	owned, err := d.Owned(ctx)
	if err != nil {
		t.Errorf("owned: %v", err)
	}
	for _, place := range owned {
		if err := d.Reap(ctx, place.Key, driver.ReapOptions{}); err != nil {
			t.Errorf("reap %s: %v", place.Key, err)
		}
	}
	api := engine.Client(t)
	containers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", "dev.berth.owner="+o.Owner)})
	if err != nil || len(containers.Items) > 0 {
		t.Errorf("containers left: %+v (%v)", containers.Items, err)
	}
	helpers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", "dev.berth.helper=true")})
	if err != nil || len(helpers.Items) > 0 {
		t.Errorf("helpers left: %+v (%v)", helpers.Items, err)
	}
	volumes, err := api.VolumeList(ctx, client.VolumeListOptions{})
	if err != nil {
		t.Errorf("volumes: %v", err)
	}
	for _, v := range volumes.Items {
		if v.Labels["dev.berth.guest"] == "" && os.Getenv("BERTH_TEST_DOCKER_HOST") == "" {
			t.Errorf("volume left: %s %v", v.Name, v.Labels)
		}
	}
}

// busybox is a spec with a key, on the image that has everything.
func busybox(t *testing.T) spec.Spec {
	t.Helper()
	return spec.Spec{Key: "k", Image: engine.Image(t, dockertest.Image{Kind: dockertest.Busybox})}
}

func provision(t *testing.T, d driver.Driver, s spec.Spec) *berth.Sandbox {
	t.Helper()
	sb, err := berth.Provision(testContext(t), d, s)
	if err != nil {
		t.Fatalf("provision: %v (hint: %s)", err, spec.HintOf(err))
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) })
	return sb
}

// testContext bounds what a test waits for.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// sh runs a script that must succeed and returns its output without the last newline.
func sh(t *testing.T, sb *berth.Sandbox, script string) string {
	t.Helper()
	r, err := sb.Exec(testContext(t), berth.Shell(script), berth.ExecOptions{})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	if !r.Success() {
		t.Fatalf("%s: exit code %d, signal %d, stderr %q", script, r.ExitCode, r.Signal, r.Stderr)
	}
	return strings.TrimSuffix(string(r.Stdout), "\n")
}

func wantIs(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v; want %v", what, err, want)
	}
}

// eventually waits for a condition, for at most 30 s.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
