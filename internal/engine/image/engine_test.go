//go:build linux

package image_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/address"
	"github.com/berth-dev/berth/internal/engine/image"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/internal/testutil/registrytest"
	"github.com/berth-dev/berth/spec"
)

// The engine that all tests of this package share.
var docker dockertest.Engine

func TestMain(m *testing.M) {
	code := m.Run()
	if err := docker.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "close the engine:", err)
		code = 1
	}
	os.Exit(code)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// newStore returns the images of the tests' engine, for an owner of this test's and with
// credentials from configDir.
func newStore(t *testing.T, configDir string) *image.Store {
	t.Helper()
	return newStoreAt(t, docker.Host(t), image.Options{Owner: "t-" + strings.ReplaceAll(t.Name(), "/", "."), ConfigDir: configDir})
}

func newStoreAt(t *testing.T, host string, o image.Options) *image.Store {
	t.Helper()
	e, err := engine.New(engine.Docker(), address.Options{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	return image.New(e, o)
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// loggedIn returns a directory with a config.json that knows a registry.
func loggedIn(t *testing.T, host, user, password string) string {
	dir := t.TempDir()
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	writeFile(t, filepath.Join(dir, "config.json"), fmt.Sprintf(`{"auths":{"http://%s/v1/":{"auth":%q}}}`, host, auth))
	return dir
}

// A pull brings the image, and tells of each layer how far it is, in order and within its
// bounds. What a digest names is what it brings; where it is there nothing is asked.
func TestPull(t *testing.T) {
	r, ctx, store := registrytest.Start(t, registrytest.Options{}), testContext(t), newStore(t, "")
	digest := r.Add(t, "team/app:1", map[string][]byte{"true": make([]byte, 1<<20)})
	parts := map[string]spec.Progress{}
	o := driver.PrepareOptions{Progress: func(p spec.Progress) {
		if p.Step != "pull" || p.Part == "" || p.Done > p.Total || p.Done < 0 {
			t.Errorf("progress %+v", p)
		}
		parts[p.Part] = p
	}}
	tagged, err := store.Pull(ctx, r.Host+"/team/app:1", o)
	if err != nil {
		t.Fatal(err, spec.HintOf(err))
	}
	t.Cleanup(func() { remove(t, store, tagged.ID) })
	if len(parts) != 2 {
		t.Errorf("progress of %d layers, want 2: %v", len(parts), parts)
	}
	if !slices.Contains(tagged.Tags, r.Host+"/team/app:1") || tagged.Built || tagged.SizeBytes < 1<<20 || tagged.Created.Year() != 2020 {
		t.Errorf("got %+v", tagged)
	}
	pinned, err := store.Pull(ctx, r.Host+"/team/app@"+digest, driver.PrepareOptions{})
	if err != nil || pinned.ID != tagged.ID || !slices.Contains(pinned.Digests, r.Host+"/team/app@"+digest) {
		t.Errorf("by digest: %+v, %v", pinned, err)
	}
	if both, err := store.Pull(ctx, r.Host+"/team/app:1@"+digest, driver.PrepareOptions{}); err != nil || both.ID != tagged.ID {
		t.Errorf("by tag and digest: %+v, %v", both, err)
	}
	if have, err := store.Have(ctx, r.Host+"/team/app:1", driver.PrepareOptions{Platform: "linux/s390x"}); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("another platform's image is %+v, %v", have, err)
	}
	if err := store.Remove(ctx, driver.Authority{}, r.Host+"/team/app:1"); err != nil {
		t.Error(err)
	}
	if _, err := store.Find(ctx, driver.Authority{}, r.Host+"/team/app:1"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("after the removal: %v", err)
	}
}

func remove(t *testing.T, store *image.Store, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	images, err := store.List(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, i := range images {
		for _, name := range append(i.Tags, i.Digests...) {
			if i.ID == id {
				_ = store.Remove(ctx, driver.Authority{}, name)
			}
		}
	}
}

// What fails of a pull says which of them it was, with a cure: the registry refuses, has no
// such image, serves another one, or is not there. An error in the stream is the pull's.
func TestPullFails(t *testing.T) {
	ctx := testContext(t)
	open, refusing := registrytest.Start(t, registrytest.Options{}), registrytest.Start(t, registrytest.Options{Refuse: true})
	closed, lying := registrytest.Start(t, registrytest.Options{User: "u", Password: "p"}), registrytest.Start(t, registrytest.Options{WrongDigest: true})
	var digest string
	for _, r := range []*registrytest.Registry{open, refusing, closed, lying} {
		digest = r.Add(t, "app:1", map[string][]byte{"true": []byte("x")})
	}
	for _, tt := range []struct {
		name, ref, config string
		want              error
		hint              string
	}{
		{"refused", refusing.Host + "/app:1", "", spec.ErrPermission, "docker login " + refusing.Host},
		{"not logged in", closed.Host + "/app:1", "", spec.ErrPermission, "docker login " + closed.Host},
		{"wrong password", closed.Host + "/app:1", loggedIn(t, closed.Host, "u", "wrong"), spec.ErrPermission, "docker login"},
		{"no such tag", open.Host + "/app:2", "", spec.ErrNotFound, "tag"},
		{"no such name", open.Host + "/other:1", "", spec.ErrNotFound, "name"},
		{"no such digest", open.Host + "/app@sha256:" + strings.Repeat("0", 64), "", spec.ErrNotFound, "digest"},
		{"another digest", lying.Host + "/app@" + digest, "", spec.ErrNotFound, "digest"},
		{"nobody there", "127.0.0.1:1/app:1", "", spec.ErrUnavailable, "can the engine's machine reach it"},
		{"made here", "localhost/app:1", "", spec.ErrNotFound, ""},
		{"no name", "App:1", "", spec.ErrInvalid, "lower case"},
		{"a path", "../../containers/json", "", spec.ErrInvalid, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := newStore(t, tt.config).Have(ctx, tt.ref, driver.PrepareOptions{})
			if !errors.Is(err, tt.want) || !strings.Contains(spec.HintOf(err), tt.hint) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v (hint: %s)\nwant %v with a hint of %q", err, spec.HintOf(err), tt.want, tt.hint)
			}
			if tt.want != spec.ErrInvalid && !strings.Contains(err.Error(), "not on the engine") {
				t.Errorf("%v: does not say that the image is missing", err)
			}
		})
	}
	if image, err := newStore(t, loggedIn(t, closed.Host, "u", "p")).Pull(ctx, closed.Host+"/app:1", driver.PrepareOptions{}); err != nil {
		t.Errorf("with credentials: %v", err)
	} else {
		remove(t, newStore(t, ""), image.ID)
	}
}

// The end of the caller ends the pull and leaves nothing in the way of the next one.
func TestPullIsCancelled(t *testing.T) {
	r := registrytest.Start(t, registrytest.Options{Hang: true})
	r.Add(t, "app:1", map[string][]byte{"true": []byte(strings.Repeat("abc", 1<<16))})
	ctx, cancel := context.WithCancel(testContext(t))
	go func() {
		<-r.Hanging()
		cancel()
	}()
	store := newStore(t, "")
	if _, err := store.Pull(ctx, r.Host+"/app:1", driver.PrepareOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want the context's error", err)
	}
	// Whether the engine has ended its download cannot be seen at the registry: dockerd 20.10
	// sometimes keeps the connection of a cancelled one, with nobody reading from it. A pull
	// that joined the old one would hang with it.
	r.Recover()
	image, err := store.Pull(testContext(t), r.Host+"/app:1", driver.PrepareOptions{})
	if err != nil {
		t.Fatalf("the pull after a cancelled one: %v", err)
	}
	remove(t, store, image.ID)
}
