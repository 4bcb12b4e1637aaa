//go:build linux

package image_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/internal/testutil/registrytest"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// dockerfile writes a context whose image begins with the tests' own.
func dockerfile(t *testing.T, text string) spec.Build {
	t.Helper()
	base := docker.Image(t, dockertest.Image{Kind: dockertest.Busybox})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "Dockerfile"), "FROM "+base+"\n"+text)
	return spec.Build{Context: dir}
}

// A build is made once for equal files, with its log as it comes and its arguments; Force
// makes it again, NoBuild never. It is of its owner, and goes with a prune once no container
// uses it.
func TestBuild(t *testing.T) {
	ctx, store := testContext(t), newStore(t, "")
	b := dockerfile(t, "ARG A=0\nCOPY . /c/\nRUN test \"$A\" = 7 && test -f /c/sub/f && echo said-by-the-build\n")
	b.Args = map[string]string{"A": "7"}
	writeFile(t, filepath.Join(b.Context, "sub/f"), "x")
	if _, err := store.Build(ctx, b, driver.PrepareOptions{NoBuild: true}); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("with nothing there and no build allowed: %v", err)
	}
	var log bytes.Buffer
	var steps int
	o := driver.PrepareOptions{Log: &log, Progress: func(p spec.Progress) {
		if p.Step == "build" && strings.HasPrefix(p.Message, "Step ") {
			steps++
		}
	}}
	first, err := store.Build(ctx, b, o)
	if err != nil {
		t.Fatal(err, spec.HintOf(err), log.String())
	}
	if !strings.Contains(log.String(), "said-by-the-build") || steps < 4 {
		t.Errorf("%d steps, log:\n%s", steps, log.String())
	}
	if len(first.Tags) != 1 || !strings.HasPrefix(first.Tags[0], "localhost/berth-build:") || !first.Built {
		t.Errorf("built %+v", first)
	}
	log.Reset()
	if again, err := store.Build(ctx, b, driver.PrepareOptions{Log: &log, NoBuild: true}); err != nil || again.ID != first.ID || log.Len() > 0 {
		t.Errorf("again: %+v, %v, log %q", again, err, log.String())
	}
	if forced, err := store.Build(ctx, b, driver.PrepareOptions{Log: &log, Force: true}); err != nil || forced.Tags[0] != first.Tags[0] || !strings.Contains(log.String(), "said-by-the-build") {
		t.Errorf("forced: %+v, %v, log %q", forced, err, log.String())
	}
	now := time.Now().Add(time.Hour)
	other := newStoreOf(t, "t-"+t.Name()+"x", "")
	if removed, _, err := other.Prune(ctx, driver.Authority{}, now, 0); err != nil || len(removed) > 0 {
		t.Errorf("another owner removed %v, %v", removed, err)
	}
	api := docker.Client(t)
	used, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &container.Config{Image: first.Tags[0], Cmd: []string{"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Prune(ctx, driver.Authority{}, now, 0); err != nil {
		t.Error(err)
	}
	if _, err := store.Find(ctx, driver.Authority{}, first.Tags[0]); err != nil {
		t.Errorf("pruned while a container uses it: %v", err)
	}
	if err := store.Remove(ctx, driver.Authority{}, first.Tags[0]); !errors.Is(err, spec.ErrUnavailable) {
		t.Errorf("removed while a container uses it: %v", err)
	}
	if _, err := api.ContainerRemove(ctx, used.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if removed, freed, err := store.Prune(ctx, driver.Authority{}, now, 0); err != nil || len(removed) == 0 || freed <= 0 {
		t.Errorf("pruned %v, %d bytes, %v", removed, freed, err)
	}
	images, err := store.List(ctx)
	for _, i := range images {
		if i.Built {
			t.Errorf("left: %+v", i)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A build that failed says so, with the end of its log; a Dockerfile that is none and a base
// image that nobody has are failed builds too. An engine that is not there is another answer.
func TestBuildFails(t *testing.T) {
	ctx, store := testContext(t), newStore(t, "")
	refusing := registrytest.Start(t, registrytest.Options{Refuse: true})
	for _, tt := range []struct{ name, text, want string }{
		{"a step fails", "RUN echo the-reason; exit 3\n", "the-reason"},
		{"no such instruction", "FROB x\n", "FROB"},
		{"a file is missing", "COPY absent /\n", "absent"},
		{"a refused base", "FROM " + refusing.Host + "/base:1\n", "denied"},
	} {
		var log bytes.Buffer
		_, err := store.Build(ctx, dockerfile(t, tt.text), driver.PrepareOptions{Log: &log})
		if !errors.Is(err, spec.ErrInvalid) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "build failed") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	gone := newStoreAt(t, "unix:///nowhere/docker.sock", "o", "")
	if _, err := gone.Build(ctx, dockerfile(t, ""), driver.PrepareOptions{}); !errors.Is(err, spec.ErrUnavailable) || strings.Contains(err.Error(), "build failed") {
		t.Errorf("no engine: %v", err)
	}
}

// A base image comes from a registry with the credentials for it, and Force asks for it
// again, since it may have moved.
func TestBuildFromRegistry(t *testing.T) {
	ctx := testContext(t)
	r := registrytest.Start(t, registrytest.Options{User: "u", Password: "p"})
	r.Add(t, "base:1", map[string][]byte{"first": []byte("1")})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "f"), "x")
	writeFile(t, filepath.Join(dir, "Dockerfile"), "ARG HOST\nFROM $HOST/base:1\nCOPY f /\n")
	b := spec.Build{Context: dir, Args: map[string]string{"HOST": r.Host}}
	store := newStore(t, loggedIn(t, r.Host, "u", "p"))
	first, err := store.Build(ctx, b, driver.PrepareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Add(t, "base:1", map[string][]byte{"first": []byte("2")})
	if moved, err := store.Build(ctx, b, driver.PrepareOptions{Force: true}); err != nil || moved.ID == first.ID {
		t.Errorf("with a base that has moved: %+v, %v", moved, err)
	}
	if _, _, err := store.Prune(ctx, driver.Authority{}, time.Now().Add(time.Hour), 0); err != nil {
		t.Error(err)
	}
}

// The end of the caller ends the build: nothing of it runs on.
func TestBuildIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	log := &waiting{begin: "begun", found: cancel}
	b := dockerfile(t, "RUN echo begun && sleep 1000\n")
	if _, err := newStore(t, "").Build(ctx, b, driver.PrepareOptions{Log: log}); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; want the context's error (log %q)", err, log.seen.String())
	}
	api := docker.Client(t)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		list, err := api.ContainerList(testContext(t), client.ContainerListOptions{All: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left: %+v", list.Items)
		}
	}
}

// waiting is a log that calls found once a line of it begins with a word.
type waiting struct {
	begin string
	found func()
	seen  bytes.Buffer
}

func (w *waiting) Write(p []byte) (int, error) {
	w.seen.Write(p)
	if bytes.HasPrefix(p, []byte(w.begin)) {
		w.found()
	}
	return len(p), nil
}
