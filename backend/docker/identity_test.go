//go:build linux

package docker_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// A place is found by its key from any driver value: running it is adopted, stopped
// it is started with its files, paused, by whomever, it goes on.
func TestAdoptInEveryState(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	s, api := busybox(t), engine.Client(t)
	first := provision(t, newDriver(t, o), s)
	if err := first.Files().WriteFile(ctx, "state", []byte("kept"), files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	name := first.ID()
	kept := func(sb *berth.Sandbox) {
		t.Helper()
		if got, err := sb.Files().ReadFile(ctx, "state"); err != nil || string(got) != "kept" || sb.ID() != name {
			t.Errorf("place %s has %q, %v; want %s with its state", sb.ID(), got, err, name)
		}
	}
	kept(provision(t, newDriver(t, o), s))
	attached, err := berth.Attach(ctx, newDriver(t, o), s.Key)
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	kept(attached)

	if _, err := api.ContainerPause(ctx, name, client.ContainerPauseOptions{}); err != nil {
		t.Fatal(err)
	}
	kept(provision(t, newDriver(t, o), s))
	if _, err := api.ContainerPause(ctx, name, client.ContainerPauseOptions{}); err != nil {
		t.Fatal(err)
	}
	attached, err = berth.Attach(ctx, newDriver(t, o), s.Key)
	if err != nil {
		t.Fatalf("attach to a paused place: %v", err)
	}
	kept(attached)

	if _, err := api.ContainerKill(ctx, name, client.ContainerKillOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the container has stopped", func() bool {
		c, err := api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
		return err == nil && !c.Container.State.Running
	})
	_, err = berth.Attach(ctx, newDriver(t, o), s.Key)
	wantIs(t, "attach to a stopped place", err, spec.ErrNotFound)
	kept(provision(t, newDriver(t, o), s))
}

// A container with our name that does not carry our labels is an error, never a miss,
// and never touched.
func TestForeignContainerIsRefused(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	s, api := busybox(t), engine.Client(t)
	d := newDriver(t, o)
	sb := provision(t, d, s)
	name := sb.ID()
	if err := sb.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	foreign, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: name, Config: &container.Config{Image: s.Image, Cmd: []string{"true"}, Labels: map[string]string{"dev.berth.owner": o.Owner, "dev.berth.key": "another"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = api.ContainerRemove(context.Background(), foreign.ID, client.ContainerRemoveOptions{Force: true})
	})
	_, err = d.Provision(ctx, &s, driver.ProvisionOptions{})
	wantIs(t, "provision", err, spec.ErrExists)
	_, err = d.Provision(ctx, &s, driver.ProvisionOptions{Replace: true})
	wantIs(t, "provision to replace", err, spec.ErrExists)
	_, err = d.Attach(ctx, s.Key, driver.AttachOptions{})
	wantIs(t, "attach", err, spec.ErrExists)
	wantIs(t, "reap", d.Reap(ctx, s.Key, driver.ReapOptions{}), spec.ErrExists)
	wantIs(t, "stop", d.(driver.Stopper).Stop(ctx, s.Key, driver.ReapOptions{}), spec.ErrExists)
	if c, err := api.ContainerInspect(ctx, name, client.ContainerInspectOptions{}); err != nil || c.Container.ID != foreign.ID {
		t.Errorf("the foreign container is touched: %v", err)
	}
}

// Two owners with one key have two places, and neither sees the other's. A prefix of
// an owner or of a key is another one.
func TestOwnersAreApart(t *testing.T) {
	a, ctx := testOptions(t), testContext(t)
	b := a
	b.Owner += "x"
	t.Cleanup(func() { wantNothingLeft(t, b) })
	s := busybox(t)
	one, two := provision(t, newDriver(t, a), s), provision(t, newDriver(t, b), s)
	if one.ID() == two.ID() {
		t.Fatalf("one place for two owners: %s", one.ID())
	}
	owned, err := newDriver(t, a).Owned(ctx)
	if err != nil || len(owned) != 1 || owned[0].ID != one.ID() || owned[0].Key != s.Key || owned[0].State != spec.StateRunning {
		t.Errorf("owned: %+v, %v; want the one place", owned, err)
	}
	if err := newDriver(t, a).Reap(ctx, s.Key[:0]+"kk", driver.ReapOptions{}); err != nil {
		t.Errorf("reap of another key: %v", err)
	}
	for _, sb := range []*berth.Sandbox{one, two} {
		if err := sb.Ping(ctx); err != nil {
			t.Errorf("%s: %v", sb.ID(), err)
		}
	}
}

// Whoever loses the race to create a place makes the same checks as whoever comes
// later: with the same spec all converge, with another one they are refused.
func TestConcurrentProvision(t *testing.T) {
	for _, tt := range []struct {
		name string
		user string
	}{{"root", ""}, {"user", "1000"}} {
		t.Run(tt.name, func(t *testing.T) {
			o, ctx := testOptions(t), testContext(t)
			s := busybox(t)
			s.Hardening.User = tt.user
			other := s
			other.Limits.PIDs = 100
			type result struct {
				id  string
				err error
				odd bool
			}
			results := make(chan result)
			for i := range 16 {
				go func() {
					mine, odd := s, i%4 == 3
					if odd {
						mine = other
					}
					d := newDriver(t, o)
					session, err := d.Provision(ctx, &mine, driver.ProvisionOptions{})
					r := result{err: err, odd: odd}
					if err == nil {
						r.id = session.ID()
						defer session.Close(ctx)
						_, r.err = session.Status(ctx)
					}
					results <- r
				}()
			}
			ids, won := map[string]bool{}, map[bool]int{}
			for range 16 {
				r := <-results
				switch {
				case r.err == nil:
					ids[r.id] = true
					won[r.odd]++
				case !errors.Is(r.err, spec.ErrSpecMismatch):
					t.Errorf("a caller got %v", r.err)
				}
			}
			if len(ids) != 1 || len(won) != 1 || won[false] != 12 && won[true] != 4 {
				t.Errorf("places %v, callers by spec %v; want one place, and all callers of one spec", ids, won)
			}
		})
	}
}

// A container that is removed behind a session's back is not_found, by the engine's
// status alone: what a command or a path says of containers changes nothing.
func TestGoneContainer(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	s, api := busybox(t), engine.Client(t)
	sb := provision(t, newDriver(t, o), s)
	const prose = "Error: No such container: " + "berth"
	r, err := sb.Exec(ctx, berth.Shell("echo '"+prose+"' >&2; exit 1"), berth.ExecOptions{})
	if err != nil || r.ExitCode != 1 || string(r.Stderr) != prose+"\n" {
		t.Errorf("a command that talks of containers: %+v, %v", r, err)
	}
	if _, err := sb.Files().ReadFile(ctx, prose); !errors.Is(err, spec.ErrFileNotFound) || errors.Is(err, spec.ErrNotFound) {
		t.Errorf("a file that is called so: %v; want file_not_found", err)
	}
	if _, err := api.ContainerRemove(ctx, sb.ID(), client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
		t.Fatal(err)
	}
	_, err = sb.Exec(ctx, []string{"true"}, berth.ExecOptions{})
	wantIs(t, "exec", err, spec.ErrNotFound)
	_, err = sb.Files().ReadFile(ctx, "/etc/passwd")
	wantIs(t, "read", err, spec.ErrNotFound)
	if err := newDriver(t, o).Reap(ctx, s.Key, driver.ReapOptions{}); err != nil {
		t.Errorf("reap: %v", err)
	}
}

// Reap returns when the place is gone, also while others reap it, and takes the
// anonymous volumes along.
func TestConcurrentReap(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	s, api := busybox(t), engine.Client(t)
	s.Hardening.ReadOnlyRoot = true // has volumes
	for range 3 {
		name := provision(t, newDriver(t, o), s).ID()
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				if err := newDriver(t, o).Reap(ctx, s.Key, driver.ReapOptions{}); err != nil {
					t.Errorf("reap: %v", err)
				}
				if _, err := api.ContainerInspect(ctx, name, client.ContainerInspectOptions{}); err == nil {
					t.Errorf("the container is there after a reap")
				}
			})
		}
		all.Wait()
	}
}

// A cancelled Provision leaves nothing that is not found again by its key: without a
// key, nothing at all.
func TestCancelledProvision(t *testing.T) {
	o := testOptions(t)
	s := busybox(t)
	provision(t, newDriver(t, o), s) // the volume is there, the binary known
	for i := range 8 {
		keyless := s
		keyless.Key = ""
		d := newDriver(t, o)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			for range i * 10 {
				_ = pingEngine(t)
			}
			cancel()
		}()
		session, err := d.Provision(ctx, &keyless, driver.ProvisionOptions{})
		if err == nil {
			id := session.ID()
			_ = session.Close(context.Background())
			reapID(t, d, id)
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("provision: %v; want context.Canceled", err)
		}
		cancel()
		eventually(t, "only the place with a key is left", func() bool {
			owned, err := d.Owned(context.Background())
			return err == nil && len(owned) == 1 && owned[0].Key == s.Key
		})
	}
}

// pingEngine takes about as long as a request to the engine.
func pingEngine(t *testing.T) error {
	_, err := engine.Client(t).Info(context.Background(), client.InfoOptions{})
	return err
}

func reapID(t *testing.T, d driver.Driver, id string) {
	t.Helper()
	owned, err := d.Owned(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owned {
		if o.ID == id {
			if err := d.Reap(context.Background(), o.Key, driver.ReapOptions{}); err != nil {
				t.Errorf("reap: %v", err)
			}
		}
	}
}
