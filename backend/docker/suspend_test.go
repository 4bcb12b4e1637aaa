//go:build linux

package docker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/client"
)

// What runs in a place, and who talks to it, outlives a suspension: a command that counts
// loses no line and no byte, whoever resumed it, and a call that was made meanwhile is
// answered afterwards.
func TestSuspendedCommandGoesOn(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	s, api := busybox(t), engine.Client(t)
	sb := provision(t, newDriver(t, o), s)
	var out bytes.Buffer
	const most = 200
	p, err := sb.Start(ctx, &spec.Command{Args: berth.Shell(fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); usleep 10000; done", most))}, berth.Stdio{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if err := sb.Suspend(ctx); err != nil {
		t.Fatalf("suspend: %v", err)
	}
	if err := sb.Suspend(ctx); err != nil {
		t.Errorf("suspend again: %v", err)
	}
	owned, err := newDriver(t, o).Owned(ctx)
	if err != nil || len(owned) != 1 || owned[0].State != spec.StatePaused {
		t.Errorf("owned: %+v, %v; want the one place, paused", owned, err)
	}
	answered := make(chan error, 1)
	go func() {
		r, err := sb.Exec(ctx, []string{"echo", "later"}, berth.ExecOptions{})
		if err == nil && string(r.Stdout) != "later\n" {
			err = fmt.Errorf("it said %q", r.Stdout)
		}
		answered <- err
	}()
	timedOut, err := sb.Exec(ctx, []string{"true"}, berth.ExecOptions{Timeout: 100 * time.Millisecond})
	if err != nil || !timedOut.TimedOut {
		t.Errorf("a command that times out meanwhile: %+v, %v; want a timeout", timedOut, err)
	}
	select {
	case err := <-answered:
		t.Errorf("a suspended place answered: %v", err)
	case <-time.After(3 * time.Second): // longer than anything in between waits
	}
	if err := berth.New(newDriver(t, o), berth.Spec{Key: s.Key}, berth.ProvisionOptions{}).Resume(ctx); err != nil {
		t.Fatalf("resume: %v", err)
	}
	if err := sb.Resume(ctx); err != nil {
		t.Errorf("resume of a running one: %v", err)
	}
	if err := <-answered; err != nil {
		t.Errorf("the command that was asked for meanwhile: %v", err)
	}
	exit, err := p.Wait(ctx)
	var want strings.Builder
	for i := range most {
		fmt.Fprintln(&want, i)
	}
	if err != nil || exit.Code != 0 || out.String() != want.String() {
		t.Errorf("it ended with %v, %v and wrote %d bytes of %d", exit, err, out.Len(), want.Len())
	}
	if _, err := api.ContainerInspect(ctx, sb.ID(), client.ContainerInspectOptions{}); err != nil {
		t.Error(err)
	}
}

// A suspended place can be stopped, removed and suspended by several at once; a stopped one
// can be neither suspended nor resumed; nothing stale acts on one.
func TestSuspendedPlaceEnds(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	s, api := busybox(t), engine.Client(t)
	d := newDriver(t, o)
	sb, err := berth.ProvisionWith(ctx, d, s, berth.ProvisionOptions{Authority: driver.Authority{Epoch: 7}})
	if err != nil {
		t.Fatal(err)
	}
	suspender := d.(driver.Suspender)
	owner := driver.ReapOptions{Authority: driver.Authority{Epoch: 7}}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			if err := suspender.Suspend(ctx, s.Key, owner); err != nil {
				t.Errorf("suspend %d: %v", i, err)
			}
		})
	}
	all.Wait()
	state := func() string {
		c, err := api.ContainerInspect(ctx, sb.ID(), client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(c.Container.State.Status)
	}
	for what, do := range map[string]func(driver.ReapOptions) error{
		"resume": func(o driver.ReapOptions) error { return suspender.Resume(ctx, s.Key, o) },
		"reap":   func(o driver.ReapOptions) error { return d.Reap(ctx, s.Key, o) },
		"stop":   func(o driver.ReapOptions) error { return d.(driver.Stopper).Stop(ctx, s.Key, o) },
	} {
		wantIs(t, what+" by a stale owner", do(driver.ReapOptions{Authority: driver.Authority{Epoch: 6}}), spec.ErrStaleOwner)
		refused := errors.New("no")
		err := do(driver.ReapOptions{Authority: driver.Authority{Epoch: 7, Fence: func(context.Context) error { return refused }}})
		if !errors.Is(err, refused) || state() != "paused" {
			t.Errorf("%s: %v, and the place is %s; want a refusal, and it is as it was", what, err, state())
		}
	}
	if err := d.(driver.Stopper).Stop(ctx, s.Key, owner); err != nil || state() != "exited" {
		t.Errorf("stop: %v, and the place is %s", err, state())
	}
	wantIs(t, "suspend of a stopped one", suspender.Suspend(ctx, s.Key, owner), spec.ErrNotFound)
	wantIs(t, "resume of a stopped one", suspender.Resume(ctx, s.Key, owner), spec.ErrNotFound)
	wantIs(t, "suspend of none", suspender.Suspend(ctx, "none", owner), spec.ErrNotFound)
	if again, err := berth.ProvisionWith(ctx, d, s, berth.ProvisionOptions{Authority: owner.Authority}); err != nil {
		t.Errorf("provision: %v", err)
	} else {
		sb = again
	}
	if err := suspender.Suspend(ctx, s.Key, owner); err != nil {
		t.Errorf("suspend: %v", err)
	}
	if err := d.Reap(ctx, s.Key, owner); err != nil {
		t.Errorf("reap of a suspended one: %v", err)
	}
	if owned, err := d.Owned(ctx); err != nil || len(owned) > 0 {
		t.Errorf("owned: %+v, %v; want none", owned, err)
	}
}

// A call that is refused leaves a suspended place suspended.
func TestRefusedCallLeavesItSuspended(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	t.Cleanup(func() { wantNoSnapshot(t, o.Owner) })
	s, d := busybox(t), newDriver(t, o)
	sb := provision(t, d, s)
	snap, err := sb.Snapshot(ctx, berth.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = berth.RemoveSnapshot(context.Background(), d, snap.ID, berth.ReapOptions{}) })
	// What is mounted into a volume of the place cannot be told from what is in that.
	kept := s
	kept.Key, kept.Hardening.ReadOnlyRoot = "kept", true
	kept.Mounts = []spec.Mount{{Source: t.TempDir(), Target: "/workspace/m"}}
	other := provision(t, d, kept)
	for _, sb := range []*berth.Sandbox{sb, other} {
		if err := sb.Suspend(ctx); err != nil {
			t.Fatal(err)
		}
	}
	wantSuspended := func(what string) {
		t.Helper()
		owned, err := d.Owned(ctx)
		if err != nil || len(owned) != 2 || owned[0].State != spec.StatePaused || owned[1].State != spec.StatePaused {
			t.Errorf("%s: %+v, %v; want both paused", what, owned, err)
		}
	}
	changed := s

	changed.Workdir = "/another"
	_, err = berth.Provision(ctx, d, changed)
	wantIs(t, "provision of another spec", err, spec.ErrSpecMismatch)
	wantSuspended("after that")
	_, err = berth.Restore(ctx, d, snap.ID, berth.Spec{Key: s.Key}, berth.ProvisionOptions{})
	wantIs(t, "restore onto it", err, spec.ErrExists)
	wantSuspended("after that")
	_, err = d.(driver.Snapshotter).Snapshot(ctx, kept.Key, driver.SnapshotOptions{})
	wantIs(t, "snapshot of what cannot be kept", err, spec.ErrUnsupported)
	wantSuspended("after that")
}
