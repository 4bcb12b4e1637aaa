//go:build linux

package image_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine/image"
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

// withBuilders runs a test with each builder that an engine has.
func withBuilders(t *testing.T, test func(t *testing.T, o image.Options)) {
	for name, buildkit := range map[string]bool{"classic": false, "buildkit": true} {
		t.Run(name, func(t *testing.T) {
			owner := "t-" + strings.ReplaceAll(t.Name(), "/", ".")
			test(t, image.Options{Owner: owner, BuildKit: &buildkit})
		})
	}
}

// A build is made once for equal files, with its log as it comes and its arguments; Force
// makes it again, NoBuild never. It is of its owner, and goes with a prune once no container
// uses it.
func TestBuild(t *testing.T) { withBuilders(t, testBuild) }

func testBuild(t *testing.T, options image.Options) {
	ctx, store := testContext(t), newStoreAt(t, docker.Host(t), options)
	b := dockerfile(t, "ARG A=0\nCOPY . /c/\nRUN test \"$A\" = 7 && test -f /c/sub/f && echo said-by-the-build\n")
	b.Args = map[string]string{"A": "7"}
	writeFile(t, filepath.Join(b.Context, "sub/f"), "x")
	if _, err := store.Build(ctx, b, driver.PrepareOptions{NoBuild: true}); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("with nothing there and no build allowed: %v", err)
	}
	var log bytes.Buffer
	var steps int
	o := driver.PrepareOptions{Log: &log, Progress: func(p spec.Progress) {
		if p.Step == "build" && (strings.HasPrefix(p.Message, "Step ") || strings.Contains(p.Message, "/3] ")) {
			steps++
		}
	}}
	first, err := store.Build(ctx, b, o)
	if err != nil {
		t.Fatal(err, spec.HintOf(err), log.String())
	}
	if !strings.Contains(log.String(), "said-by-the-build\n") || steps < 3 {
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
	other := newStoreAt(t, docker.Host(t), image.Options{Owner: options.Owner + "x"})
	if removed, _, err := other.Prune(ctx, driver.Authority{}, now, 0); err != nil || len(removed) > 0 {
		t.Errorf("another owner removed %v, %v", removed, err)
	}
	api := docker.Client(t)
	built, err := api.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("label", "dev.berth.built="+options.Owner)})
	if err != nil || len(built.Items) != 1 || len(built.Items[0].RepoTags) != 1 {
		t.Errorf("after the second build there are %+v, %v; want one image of one name", built.Items, err)
	}
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

// A build that failed says so, with the end of its log where nobody was told that; a
// Dockerfile that is none and a base image that nobody has are failed builds too. An engine
// that is not there is another answer.
func TestBuildFails(t *testing.T) { withBuilders(t, testBuildFails) }

func testBuildFails(t *testing.T, options image.Options) {
	ctx, store := testContext(t), newStoreAt(t, docker.Host(t), options)
	refusing := registrytest.Start(t, registrytest.Options{Refuse: true})
	for _, tt := range []struct{ name, text, want string }{
		{"a step fails", "RUN echo the-reason; exit 3\n", "the-reason"},
		{"no such instruction", "FROB x\n", "FROB"},
		{"a file is missing", "COPY absent /\n", "absent"},
		{"a refused base", "FROM " + refusing.Host + "/base:1\n", refusing.Host},
	} {
		var log bytes.Buffer
		_, err := store.Build(ctx, dockerfile(t, tt.text), driver.PrepareOptions{Log: &log})
		if !errors.Is(err, spec.ErrInvalid) || !strings.Contains(err.Error()+log.String(), tt.want) || !strings.Contains(err.Error(), "build failed") || strings.Contains(err.Error(), "log ends") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if _, err := store.Build(ctx, dockerfile(t, tt.text), driver.PrepareOptions{}); log.Len() > 0 && !strings.Contains(err.Error(), "log ends: ") || strings.Contains(spec.HintOf(err), "needs BuildKit") {
			t.Errorf("%s, untold: %v (hint: %s)", tt.name, err, spec.HintOf(err))
		}
	}
	gone := newStoreAt(t, "unix:///nowhere/docker.sock", options)
	if _, err := gone.Build(ctx, dockerfile(t, ""), driver.PrepareOptions{}); !errors.Is(err, spec.ErrUnavailable) || strings.Contains(err.Error(), "build failed") {
		t.Errorf("no engine: %v", err)
	}
}

// A base image comes from a registry with the credentials for it, and Force asks for it
// again, since it may have moved.
func TestBuildFromRegistry(t *testing.T) { withBuilders(t, testBuildFromRegistry) }

func testBuildFromRegistry(t *testing.T, options image.Options) {
	ctx := testContext(t)
	r := registrytest.Start(t, registrytest.Options{User: "u", Password: "p"})
	r.Add(t, "base:1", map[string][]byte{"first": []byte("1")})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "f"), "x")
	writeFile(t, filepath.Join(dir, "Dockerfile"), "ARG HOST\nFROM $HOST/base:1\nCOPY f /\n")
	b := spec.Build{Context: dir, Args: map[string]string{"HOST": r.Host}}
	options.ConfigDir = loggedIn(t, r.Host, "u", "p")
	store := newStoreAt(t, docker.Host(t), options)
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

// The end of the caller ends the build: nothing of it runs on, and nobody waits for it here.
func TestBuildIsCancelled(t *testing.T) { withBuilders(t, testBuildIsCancelled) }

func testBuildIsCancelled(t *testing.T, options image.Options) {
	ctx, cancel := context.WithCancel(testContext(t))
	log := &waiting{word: "begun\n", found: cancel}
	seconds := strconv.Itoa(100_000 + os.Getpid())
	b := dockerfile(t, "RUN echo begun && sleep "+seconds+"\n")
	if _, err := newStoreAt(t, docker.Host(t), options).Build(ctx, b, driver.PrepareOptions{Log: log}); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; want the context's error (log %q)", err, log.seen.String())
	}
	var left []string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if left = ofBuild(t, seconds); len(left) == 0 {
			return
		}
	}
	t.Fatalf("left: %q", left)
}

// ofBuild returns what there is of a build: processes that have a word in their command
// line, containers, and goroutines that serve a session.
func ofBuild(t *testing.T, word string) []string {
	t.Helper()
	var out []string
	list, err := docker.Client(t).ContainerList(testContext(t), client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Items {
		out = append(out, c.ID)
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, _ := os.ReadFile(file); bytes.Contains(line, []byte(word)) {
			out = append(out, string(line))
		}
	}
	stacks := make([]byte, 1<<20)
	for stack := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
		if bytes.Contains(stack, []byte("image/buildkit.")) || bytes.Contains(stack, []byte("http2")) {
			out = append(out, string(stack))
		}
	}
	return out
}

// waiting is a log that calls found once it has a line that ends with a word.
type waiting struct {
	word  string
	found func()
	seen  bytes.Buffer
}

func (w *waiting) Write(p []byte) (int, error) {
	w.seen.Write(p)
	if bytes.HasSuffix(p, []byte(w.word)) {
		w.found()
	}
	return len(p), nil
}
