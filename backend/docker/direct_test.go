//go:build linux

package docker_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/client"
)

// directOptions are options of a driver that goes past the engine. The latest connection to a
// guest can be cut.
func directOptions(t *testing.T) (o docker.Options, cut func()) {
	t.Helper()
	o = testOptions(t)
	o.StateDir = t.TempDir()
	var mu sync.Mutex
	var last io.Closer
	o.Transport = func(s io.ReadWriteCloser) io.ReadWriteCloser {
		mu.Lock()
		defer mu.Unlock()
		last = s
		return s
	}
	return o, func() {
		mu.Lock()
		defer mu.Unlock()
		last.Close()
	}
}

// relays counts the relays that the engine has started and that still run.
func relays(t *testing.T, sb *berth.Sandbox) int {
	t.Helper()
	return strings.Count(sh(t, sb, "ps -o args="), "berth-guest relay --abstract")
}

// relaysLeft counts the relays once there are none, or after a moment: one whose connection
// was closed takes it to end.
func relaysLeft(t *testing.T, sb *berth.Sandbox) int {
	t.Helper()
	n := relays(t, sb)
	for range 40 {
		if n == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
		n = relays(t, sb)
	}
	return n
}

// attachDirect attaches to a place that nobody else is attached to, and wants that to take no
// relay. A guest that hears late, on a busy machine, is reached through the engine, and rightly:
// so it is tried a few times.
func attachDirect(t *testing.T, o docker.Options, key spec.Key) *berth.Sandbox {
	t.Helper()
	n := 0
	for range directTries {
		sb, err := berth.Attach(testContext(t), newDriver(t, o), key)
		if err != nil {
			t.Fatal(err)
		}
		if n = relaysLeft(t, sb); n == 0 {
			t.Cleanup(func() { _ = sb.Destroy(context.Background()) })
			return sb
		}
		_ = sb.Close(testContext(t))
	}
	t.Fatalf("%d relays in the place, however often it is attached to; want none", n)
	return nil
}

const directTries = 5

// doors are the directories of direct ways.
func doors(t *testing.T, o docker.Options) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(o.StateDir, "direct", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A container on this machine is reached without a program that the engine starts, whatever
// commands of it do; where that way is shut the engine's is taken; and it leaves no trace.
func TestDirect(t *testing.T) {
	o, cut := directOptions(t)
	ctx, s := testContext(t), busybox(t)
	d := newDriver(t, o)
	if err := provision(t, d, s).Detach(ctx); err != nil {
		t.Fatal(err)
	}
	if len(doors(t, o)) != 1 {
		t.Fatalf("directories %q; want one", doors(t, o))
	}
	sb := attachDirect(t, o, s.Key)
	st, err := sb.Status(ctx)
	if err != nil || len(st.Mounts) > 0 {
		t.Errorf("mounts %+v, %v; want those of the spec, none", st.Mounts, err)
	}

	t.Run("shut to commands", func(t *testing.T) {
		if got := sh(t, sb, "cd /.berth/direct && ls && for f in bell x.sock; do rm -f $f || touch $f || mknod $f p; done 2>&1 | grep -Ev 'Read-only|exists'; ls -A"); got != "bell\nbell" {
			t.Errorf("the directory, shown and attacked: %q", got)
		}
	})
	t.Run("cut", func(t *testing.T) {
		c := sb.CommandContext(ctx, "sh", "-c", "for i in $(seq 2000); do echo $i; done; read x; for i in $(seq 2001 4000); do echo $i; done")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c.Stdout = &out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		cut()
		if _, err := io.WriteString(in, "go on\n"); err != nil {
			t.Fatal(err)
		}
		in.Close()
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(out.String()); len(got) != 4000 || got[3999] != "4000" {
			t.Errorf("%d lines; want every one of 4000 once", len(got))
		}
		n := relaysLeft(t, sb)
		for i := 1; n != 0 && i < directTries; i++ { // the guest has heard late
			cut()
			n = relaysLeft(t, sb)
		}
		if n != 0 {
			t.Errorf("%d relays after the cut; want a way that is direct again", n)
		}
	})
	t.Run("hostile", func(t *testing.T) { raceToConnect(t, sb, o) })
	t.Run("suspended", func(t *testing.T) {
		if err := driverOf[driver.Suspender](t, d).Suspend(ctx, s.Key, driver.ReapOptions{}); err != nil {
			t.Fatal(err)
		}
		other, err := berth.Attach(ctx, newDriver(t, o), s.Key)
		if err != nil {
			t.Fatal(err)
		}
		if got := sh(t, other, "echo works"); got != "works" {
			t.Errorf("after a suspension: %q", got)
		}
		_ = other.Close(ctx)
	})
	t.Run("no directory", func(t *testing.T) {
		for _, dir := range doors(t, o) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		other, err := berth.Attach(ctx, newDriver(t, o), s.Key)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Close(ctx) }()
		eventually(t, "there is one relay", func() bool { return relays(t, other) == 1 })
	})
	t.Run("started again", func(t *testing.T) {
		if err := driverOf[driver.Stopper](t, d).Stop(ctx, s.Key, driver.ReapOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := provision(t, newDriver(t, o), s).Detach(ctx); err != nil {
			t.Fatal(err)
		}
		if len(doors(t, o)) != 1 {
			t.Errorf("directories %q; want one", doors(t, o))
		}
		attachDirect(t, o, s.Key)
	})
	if err := sb.Destroy(ctx); err != nil {
		t.Errorf("destroy: %v", err)
	}
	if left := doors(t, o); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// raceToConnect has commands connect to every socket that they see, while others attach.
func raceToConnect(t *testing.T, sb *berth.Sandbox, o docker.Options) {
	ctx, cancel := context.WithCancel(testContext(t))
	hostile := sb.CommandContext(ctx, "sh", "-c", `
		for n in 1 2 3; do
			while :; do for s in /.berth/direct/*.sock; do [ -S $s ] && /.berth/berth-guest relay --path $s </dev/null >/dev/null 2>&1; done; done &
		done; echo ready; wait`)
	out, err := hostile.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hostile.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		other, err := berth.Attach(ctx, newDriver(t, o), sb.Key())
		if err != nil {
			t.Fatal(err)
		}
		if got := sh(t, other, "echo works"); got != "works" {
			t.Errorf("the place says %q", got)
		}
		_ = other.Close(ctx)
	}
	cancel()
	_ = hostile.Wait()
	eventually(t, "no socket is left", func() bool {
		left, err := filepath.Glob(filepath.Join(o.StateDir, "direct", "*", "*", "*.sock"))
		return err == nil && len(left) == 0
	})
}

// What a client that was killed has left of a direct way goes with the next prune, and what is
// in use or in the making does not.
func TestPruneDirect(t *testing.T) {
	o, _ := directOptions(t)
	ctx, s := testContext(t), busybox(t)
	d := newDriver(t, o)
	lost := s
	lost.Key = "lost"
	provision(t, d, lost)
	if _, err := engine.Client(t).ContainerRemove(ctx, containerOf(t, o, "lost"), client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	orphan := doors(t, o)
	sb := provision(t, d, s)
	prune := func() {
		t.Helper()
		if _, err := driverOf[driver.Pruner](t, d).Prune(ctx, driver.ReapOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	prune()
	if got := doors(t, o); len(got) != 2 {
		t.Errorf("directories %q; want both, the orphan is young", got)
	}
	for _, dir := range doors(t, o) {
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	prune()
	if got := doors(t, o); len(got) != 1 || got[0] == orphan[0] {
		t.Errorf("directories %q; want that of the place only", got)
	}
	if err := sb.Detach(ctx); err != nil {
		t.Fatal(err)
	}
	attachDirect(t, o, s.Key)
}

// containerOf is the name of the container of a key.
func containerOf(t *testing.T, o docker.Options, key spec.Key) string {
	t.Helper()
	owned, err := newDriver(t, o).Owned(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range owned {
		if place.Key == key {
			return place.ID
		}
	}
	t.Fatalf("no place %q", key)
	return ""
}

// driverOf is a driver as what it is beside that.
func driverOf[T any](t *testing.T, d driver.Driver) T {
	t.Helper()
	as, ok := d.(T)
	if !ok {
		t.Fatalf("the driver is no %T", *new(T))
	}
	return as
}

// Where the engine does not find the directory under its path, as in a machine of its own, the
// container is made without it. Podman's engine for tests has a /run of its own.
func TestDirectRefused(t *testing.T) {
	o := testOptions(t)
	dir, err := os.MkdirTemp("/run", "berth-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	o.StateDir = dir
	s := busybox(t)
	sb := provision(t, newDriver(t, o), s)
	want := 0
	if os.Getenv(onPodman) != "" {
		want = 1
	}
	if len(doors(t, o)) != 1-want {
		t.Errorf("directories %q; want %d", doors(t, o), 1-want)
	}
	if want == 1 {
		if n := relays(t, sb); n != 1 {
			t.Errorf("%d relays; want one", n)
		}
		return
	}
	if err := sb.Detach(testContext(t)); err != nil {
		t.Fatal(err)
	}
	attachDirect(t, o, s.Key)
}
