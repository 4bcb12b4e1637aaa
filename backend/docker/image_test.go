//go:build linux

package docker_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/internal/testutil/registrytest"
	"github.com/berth-dev/berth/spec"
)

// A place gets the image that its engine does not have, and tells how far it is. Where the
// registry refuses, one error says both.
func TestMissingImageIsPulled(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	r := registrytest.Start(t, registrytest.Options{})
	r.Add(t, "app:1", map[string][]byte{"true": program})
	d := newDriver(t, o)
	s := spec.Spec{Key: "k", Image: r.Host + "/app:1"}
	var mu sync.Mutex
	var steps []string
	sb, err := berth.ProvisionWith(ctx, d, s, berth.ProvisionOptions{Progress: func(p spec.Progress) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, p.Step)
	}})
	if err != nil {
		t.Fatal(err, spec.HintOf(err))
	}
	if result, err := sb.Exec(ctx, []string{"/true"}, berth.ExecOptions{}); err != nil || !result.Success() {
		t.Errorf("in the pulled image: %+v, %v", result, err)
	}
	if !slices.Contains(steps, "pull") {
		t.Errorf("progress told %q", steps)
	}
	wantIs(t, "remove an image that is in use", berth.RemoveImage(ctx, d, s.Image, berth.ReapOptions{}), spec.ErrUnavailable)
	if err := sb.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if err := berth.RemoveImage(ctx, d, s.Image, berth.ReapOptions{}); err != nil {
		t.Error(err)
	}
	wantIs(t, "remove an image that is not there", berth.RemoveImage(ctx, d, s.Image, berth.ReapOptions{}), spec.ErrNotFound)

	refusing := registrytest.Start(t, registrytest.Options{Refuse: true})
	s.Image = refusing.Host + "/app:1"
	_, err = berth.Provision(ctx, d, s)
	if !errors.Is(err, spec.ErrPermission) || !strings.Contains(err.Error(), "not on the engine, and the pull was refused") || !strings.Contains(spec.HintOf(err), "docker login") {
		t.Errorf("image missing and pull refused: %v (hint: %s)", err, spec.HintOf(err))
	}
	s.Image = "localhost/absent:1"
	_, err = berth.Provision(ctx, d, s)
	wantIs(t, "an image of this engine alone that is missing", err, spec.ErrNotFound)
}

// What a place is built from says what it is: equal files adopt it, others are a mismatch,
// and its image is built once and pruned once no place uses it.
func TestBuiltPlace(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	d, dir := newDriver(t, o), t.TempDir()
	base := engine.Image(t, dockertest.Image{Kind: dockertest.Busybox})
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("Dockerfile", "FROM "+base+"\nCOPY f /f\n")
	write("f", "one")
	s := spec.Spec{Key: "k", Build: &spec.Build{Context: dir}}
	var log bytes.Buffer
	image, err := berth.Prepare(ctx, d, s, berth.PrepareOptions{Log: &log})
	if err != nil || !image.Built || !strings.Contains(log.String(), "COPY") {
		t.Fatalf("prepare: %+v, %v; log %q", image, err, log.String())
	}
	sb := provision(t, d, s)
	if got := sh(t, sb, "cat /f"); got != "one" {
		t.Errorf("/f holds %q", got)
	}
	if again := provision(t, newDriver(t, o), s); again.ID() != sb.ID() {
		t.Error("equal files are another place")
	}
	if done, err := berth.Prune(ctx, d, berth.ReapOptions{}); err != nil || len(done.Images) > 0 || len(done.Containers) > 0 {
		t.Errorf("a prune beside a place that runs: %+v, %v", done, err)
	}
	if err := sb.Ping(ctx); err != nil {
		t.Errorf("after a prune: %v", err)
	}
	write("f", "two")
	_, err = berth.Provision(ctx, d, s)
	wantIs(t, "with changed files", err, spec.ErrSpecMismatch)
	replaced, err := berth.ProvisionWith(ctx, d, s, berth.ProvisionOptions{Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, replaced, "cat /f"); got != "two" {
		t.Errorf("replaced, /f holds %q", got)
	}
	if err := replaced.Destroy(ctx); err != nil {
		t.Error(err)
	}
	done, err := berth.Prune(ctx, d, driver.ReapOptions{})
	if err != nil || len(done.Images) != 2 || len(done.Volumes) == 0 {
		t.Errorf("pruned %+v, %v; want both images and the guest", done, err)
	}
	again := provision(t, d, s) // its image and its guest are made anew
	if got := sh(t, again, "cat /f"); got != "two" {
		t.Errorf("after the prune, /f holds %q", got)
	}
	if err := again.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if _, err := berth.Prune(ctx, d, driver.ReapOptions{}); err != nil {
		t.Error(err)
	}
}
