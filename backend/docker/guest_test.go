//go:build linux

package docker_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// No signal from inside ends the guest: each from 1 to 64 is sent to pid 1.
func TestEverySignalToTheGuest(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	sb := provision(t, newDriver(t, o), busybox(t))
	before, err := sb.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, sb, "for s in $(seq 1 64); do kill -$s 1 || exit 1; done")
	after, err := sb.Status(ctx)
	if err != nil || !after.Started.Equal(before.Started) {
		t.Errorf("status %+v, %v; want the guest of before, %+v", after, err, before)
	}
}

// kill -9 -1 inside ends commands, and the relay of every connection; the sessions
// dial again, and what the commands came to is collected.
func TestKillAllInside(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	d := newDriver(t, o)
	one := provision(t, d, busybox(t))
	two := provision(t, d, busybox(t))
	for range 3 {
		r, err := one.Exec(ctx, berth.Shell("echo before; kill -9 -1"), berth.ExecOptions{})
		// The kernel spares whoever sends to -1.
		if err != nil || !r.Success() || string(r.Stdout) != "before\n" {
			t.Errorf("the killer: %+v, %v; want its output and exit status 0", r, err)
		}
		for _, sb := range []*berth.Sandbox{one, two} {
			if got := sh(t, sb, "echo works"); got != "works" {
				t.Errorf("after kill -9 -1: %q", got)
			}
		}
	}
}

const victimVerb = "berth-docker-test-victim"

// victim is the client that is killed: it runs a long command in a place and says so.
func victim(args []string) int {
	host, owner, key, image, binary := args[0], args[1], args[2], args[3], args[4]
	d, err := open(docker.Options{Host: host, Owner: owner, Guest: guest.BinaryOptions{Path: binary}, ResumeWindow: time.Second, OrphanAfter: 5 * time.Second})
	if err == nil {
		var sb *berth.Sandbox
		if sb, err = berth.Provision(context.Background(), d, spec.Spec{Key: spec.Key(key), Image: image}); err == nil {
			c := sb.Command("sh", "-c", "echo ready; sleep 300 & sleep 301")
			c.Stdout = os.Stdout
			err = c.Run()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// A client that is killed in the middle of a command leaves nothing: its command and
// its relay end, the next attach works, and a place without a key goes away.
func TestClientIsKilled(t *testing.T) {
	rounds := 5
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		rounds = 50
	}
	o, ctx := testOptions(t), testContext(t)
	o.ResumeWindow, o.OrphanAfter = time.Second, 5*time.Second // as the victim has them
	s := busybox(t)
	provision(t, newDriver(t, o), s)
	for round := range rounds {
		key := s.Key
		if round%2 == 1 {
			key = ""
		}
		cmd := exec.Command(os.Args[0], victimVerb, o.Host, o.Owner, string(key), s.Image, o.Guest.Path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		if line != "ready\n" {
			t.Fatalf("the victim says %q, %v", line, err)
		}
		sb, err := berth.Attach(ctx, newDriver(t, o), s.Key)
		if err != nil {
			t.Fatalf("round %d: attach: %v", round, err)
		}
		eventually(t, "the command and the relay have ended", func() bool {
			return sh(t, sb, "ps -o args= | grep -c '^sleep 30[01]'; true") == "0" && strings.Count(sh(t, sb, "ps -o args="), " relay ") == 2 // the first session's and this one's
		})
		if err := sb.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	eventually(t, "only the place with a key is left", func() bool {
		owned, err := newDriver(t, o).Owned(ctx)
		return err == nil && len(owned) == 1
	})
}

// A guest volume that is empty, or holds half a guest because somebody was killed
// while filling it, is noticed and filled; the place comes up.
func TestDamagedGuestVolume(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	s, api := busybox(t), engine.Client(t)
	// A guest of its own, so that no other test's place is disturbed.
	o, volume := ownGuest(t, o, "own")
	data, err := os.ReadFile(o.Guest.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		content []byte
		keyless bool
	}{
		{"empty", nil, false},
		{"cut", data[:len(data)/2], false},
		{"other", []byte("#!/bin/sh\nexit 1\n"), false},
		{"empty", nil, true},
		{"cut", data[:len(data)/2], true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			damage(t, api, s.Image, volume, tt.content)
			mine := s
			if tt.keyless {
				mine.Key = ""
			}
			sb := provision(t, newDriver(t, o), mine)
			if got := sh(t, sb, "echo works"); got != "works" {
				t.Errorf("the place says %q", got)
			}
			if err := sb.Destroy(ctx); err != nil {
				t.Errorf("destroy: %v", err)
			}
		})
	}
}

// damage makes the volume hold content, or nothing.
func damage(t *testing.T, api *client.Client, image, volume string, content []byte) {
	t.Helper()
	ctx := testContext(t)
	_, _ = api.VolumeRemove(ctx, volume, client.VolumeRemoveOptions{Force: true})
	c, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{Image: image, Cmd: []string{"true"}},
		HostConfig: &container.HostConfig{Mounts: []mount.Mount{{
			Type: mount.TypeVolume, Source: volume, Target: "/v",
			VolumeOptions: &mount.VolumeOptions{Labels: map[string]string{"dev.berth.guest": "x"}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if content != nil {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		_ = w.WriteHeader(&tar.Header{Name: "berth-guest", Size: int64(len(content)), Mode: 0o555})
		_, _ = w.Write(content)
		_ = w.Close()
		if _, err := api.CopyToContainer(ctx, c.ID, client.CopyToContainerOptions{DestinationPath: "/v", Content: &buf}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
}

// A guest that cannot come up is an error that says why, and the place is still there
// to be ended.
func TestGuestThatDoesNotComeUp(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	s := busybox(t)
	s.Workdir = "/etc/passwd/x"
	d := newDriver(t, o)
	_, err := berth.Provision(ctx, d, s)
	wantIs(t, "provision", err, spec.ErrUnavailable)
	if err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("error %v; want the guest's own words", err)
	}
	if err := d.Reap(ctx, s.Key, driver.ReapOptions{}); err != nil {
		t.Errorf("reap: %v", err)
	}
	s.Key = ""
	if _, err := berth.Provision(ctx, d, s); err == nil {
		t.Errorf("no error without a key")
	}
	s.Workdir, s.Image = "", "localhost/berth-test/none:1" // which no registry has
	_, err = berth.Provision(ctx, d, s)
	wantIs(t, "a missing image", err, spec.ErrNotFound)
}

// Sessions that come and go leave no goroutine and no descriptor behind.
func TestSessionsLeakNothing(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	s := busybox(t)
	d := newDriver(t, o)
	sb := provision(t, d, s)
	descriptors := func() int {
		entries, _ := os.ReadDir("/proc/self/fd")
		return len(entries)
	}
	goroutines, fds := runtime.NumGoroutine(), descriptors()
	for range 10 {
		session, err := d.Attach(ctx, s.Key, driver.AttachOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	const idle = 4 // connections that the SDK keeps to the engine, and their goroutines
	eventually(t, "goroutines and descriptors are back", func() bool {
		return runtime.NumGoroutine() <= goroutines+2*idle && descriptors() <= fds+idle
	})
	eventually(t, "only this session's relay is left", func() bool {
		return strings.Count(sh(t, sb, "ps -o args="), " relay ") == 1
	})
}
