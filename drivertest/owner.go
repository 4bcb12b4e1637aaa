package drivertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// ownerCases are about how a place is found again, and by whom.
func ownerCases() []Case {
	return []Case{
		{Name: "ProvisionIsIdempotentPerKey", Rule: "A sandbox is found again by its key: the same place, with its state.", Need: needKeyed, Run: ownerIdempotent},
		{Name: "ConcurrentProvisionConverges", Rule: "Concurrent callers converge on one place.", Need: needKeyed, Run: ownerConverge},
		{Name: "SpecMismatchIsRefused", Rule: "A changed spec is spec_mismatch; nothing is touched, and the original spec still adopts.", Need: needKeyed, Run: ownerMismatch},
		{Name: "ReplaceMakesANewPlace", Rule: "Replace is the remedy for a changed spec.", Need: all(needKeyed, needCoreutils), Run: ownerReplace},
		{Name: "AttachFindsTheSamePlace", Rule: "Attach gives the running place; closing what was attached leaves it.", Need: needKeyed, Run: ownerAttach},
		{Name: "AttachCreatesNothing", Rule: "Attach to a place that was never provisioned, or was reaped, is not_found and creates nothing.", Need: needKeyed, Run: ownerAttachMissing},
		{Name: "OwnedListsPlaces", Rule: "Owned lists everything here that carries our owner label.", Need: needKeyed, Run: ownerListed},
		{Name: "ReapIsIdempotent", Rule: "Reap returns when the place is gone; nothing to remove is success.", Need: needKeyed, Run: ownerReap},
		{Name: "StaleEpochIsRefused", Rule: "A place that has seen a higher owner epoch refuses a lower one with stale_owner.", Need: needKeyed, Run: ownerEpoch},
		{Name: "RefusedFenceSendsNothing", Rule: "The fence is asked right before every request is sent; a refused one sends nothing.", Need: needShell, Run: ownerFence},
		{Name: "RefusedFenceCreatesNothing", Rule: "A refused fence neither creates nor removes a place.", Need: needKeyed, Run: ownerFenceProvision},
	}
}

func ownerIdempotent(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	first := e.Provision(ctx, t, s)
	if err := first.Files().WriteFile(ctx, "state", []byte("kept"), files.WriteOptions{}); err != nil {
		t.Fatalf("write: %v", err)
	}
	for _, d := range []driver.Driver{e.Driver, e.Open(t)} {
		again := e.ProvisionWith(ctx, t, d, s, berth.ProvisionOptions{})
		if again.ID() != first.ID() {
			t.Errorf("ids %q and %q; want one place", first.ID(), again.ID())
		}
		data, err := again.Files().ReadFile(ctx, "state")
		if err != nil {
			t.Errorf("read: %v", err)
		}
		wantText(t, "state", data, "kept")
	}
}

func ownerConverge(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	const callers = 6
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		ids  = map[string]int{}
		errs []error
	)
	for range callers {
		d := e.Open(t)
		all.Go(func() {
			sb, err := berth.Provision(ctx, d, s)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			e.Cleanup(sb.Close)
			ids[sb.ID()]++
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil || len(ids) != 1 {
		t.Errorf("%d callers got the places %v, and %v; want one place for all", callers, ids, err)
	}
}

// elsewhere changes what a place is: its workdir, which every backend knows.
func elsewhere(s spec.Spec) spec.Spec {
	other := *s.Clone()
	other.Workdir = "/tmp"
	if s.Workdir == other.Workdir {
		other.Workdir = "/var/tmp"
	}
	return other
}

func ownerMismatch(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	first := e.Provision(ctx, t, s)
	if err := first.Files().WriteFile(ctx, "state", []byte("kept"), files.WriteOptions{}); err != nil {
		t.Fatalf("write: %v", err)
	}
	if sb, err := berth.Provision(ctx, e.Open(t), elsewhere(s)); err == nil {
		e.Cleanup(sb.Close)
		t.Fatalf("another spec adopted the place")
	} else {
		wantError(t, "another spec", err, spec.ErrSpecMismatch)
	}
	again := e.Provision(ctx, t, s)
	data, err := again.Files().ReadFile(ctx, "state")
	if err != nil || again.ID() != first.ID() {
		t.Errorf("the original spec finds %q (was %q), state %q, %v", again.ID(), first.ID(), data, err)
	}
	if err := first.Ping(ctx); err != nil {
		t.Errorf("the first client: %v", err)
	}
}

func ownerReplace(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	first := e.Provision(ctx, t, s)
	before, err := first.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	other := elsewhere(s)
	second := e.ProvisionWith(ctx, t, e.Open(t), other, berth.ProvisionOptions{Replace: true})
	r := e.ExecIn(ctx, t, second, []string{"pwd"}, berth.ExecOptions{})
	wantText(t, "pwd", r.Stdout, other.Workdir+"\n")
	after, err := second.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	if !after.Started.After(before.Started) {
		t.Errorf("the place started at %v, the one that it replaces at %v", after.Started, before.Started)
	}
	if sb, err := berth.Provision(ctx, e.Driver, s); err == nil {
		e.Cleanup(sb.Close)
		t.Errorf("the first spec still adopts")
	} else {
		wantError(t, "the first spec", err, spec.ErrSpecMismatch)
	}
}

func ownerAttach(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	first := e.Provision(ctx, t, s)
	second := e.Attach(ctx, t, s.Key)
	if first.ID() != second.ID() {
		t.Errorf("ids %q and %q; want one place", first.ID(), second.ID())
	}
	for _, way := range []struct {
		name     string
		from, to *berth.Sandbox
	}{{"there", first, second}, {"back", second, first}} {
		if err := way.from.Files().WriteFile(ctx, way.name, []byte(way.name), files.WriteOptions{}); err != nil {
			t.Errorf("write: %v", err)
		}
		data, err := way.to.Files().ReadFile(ctx, way.name)
		if err != nil {
			t.Errorf("read: %v", err)
		}
		wantText(t, way.name, data, way.name)
	}
	if err := second.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := first.Ping(ctx); err != nil {
		t.Errorf("the first client after the other's close: %v", err)
	}
	e.Attach(ctx, t, s.Key)
}

func ownerAttachMissing(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	e.wantAbsent(ctx, t, s.Key)
	sb := e.Provision(ctx, t, s)
	if err := sb.Destroy(ctx); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	e.wantAbsent(ctx, t, s.Key)
}

func ownerListed(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	o, ok := e.owned(ctx, t, s.Key)
	if !ok {
		t.Fatalf("%q is not listed", s.Key)
	}
	if o.ID != sb.ID() || o.Backend != e.Driver.Name() || o.State != spec.StateRunning || o.Ephemeral || o.Created.IsZero() {
		t.Errorf("listed as %+v; want id %q, running, not ephemeral", o, sb.ID())
	}
	if other, ok := e.listed(ctx, t, sb.ID()); !ok || other.Key != s.Key {
		t.Errorf("another client lists it as %+v, %v", other, ok)
	}
}

func ownerReap(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	if err := berth.Reap(ctx, e.Driver, s.Key, berth.ReapOptions{}); err != nil {
		t.Errorf("reap what never was: %v", err)
	}
	e.Provision(ctx, t, s)
	other := e.Open(t)
	for range 2 {
		if err := berth.Reap(ctx, other, s.Key, berth.ReapOptions{}); err != nil {
			t.Errorf("reap: %v", err)
		}
		e.wantAbsent(ctx, t, s.Key)
	}
}

func ownerEpoch(ctx context.Context, t T, e *Env) {
	owner := func(epoch uint64) berth.Authority { return berth.Authority{Epoch: epoch} }
	s := e.KeyedBy(owner(6))
	old, err := berth.ProvisionWith(ctx, e.Driver, s, berth.ProvisionOptions{Authority: owner(5)})
	if err != nil {
		t.Fatalf("provision: %v", err)
	}
	e.Cleanup(old.Detach)
	attach := func(epoch uint64) (*berth.Sandbox, error) {
		sb, err := berth.AttachWith(ctx, e.Open(t), s.Key, berth.AttachOptions{Authority: owner(epoch)})
		if err == nil {
			e.Cleanup(sb.Close)
		}
		return sb, err
	}
	_, err = attach(4)
	wantError(t, "a lower epoch", err, spec.ErrStaleOwner)
	if err := old.Ping(ctx); err != nil {
		t.Errorf("the owner after a stale one was refused: %v", err)
	}
	next, err := attach(6)
	if err != nil {
		t.Fatalf("a higher epoch: %v", err)
	}
	if err := next.Ping(ctx); err != nil {
		t.Errorf("the new owner: %v", err)
	}
	_, err = attach(5)
	wantError(t, "the former owner", err, spec.ErrStaleOwner)
	_, err = old.Exec(ctx, []string{"true"}, berth.ExecOptions{})
	wantError(t, "the former owner's session", err, spec.ErrStaleOwner)
	wantError(t, "reap by the former owner", berth.Reap(ctx, e.Driver, s.Key, berth.ReapOptions{Authority: owner(5)}), spec.ErrStaleOwner)
	if err := next.Ping(ctx); err != nil {
		t.Errorf("the new owner afterwards: %v", err)
	}
}

var errFenced = errors.New("the lease is lost")

// fence is an authority that can be taken away, and counts how often it is asked.
type fence struct {
	closed atomic.Bool
	asked  atomic.Int64
}

func (f *fence) authority() berth.Authority {
	return berth.Authority{Fence: func(context.Context) error {
		f.asked.Add(1)
		if f.closed.Load() {
			return errFenced
		}
		return nil
	}}
}

func ownerFence(ctx context.Context, t T, e *Env) {
	var f fence
	sb := e.ProvisionWith(ctx, t, e.Driver, e.Spec(), berth.ProvisionOptions{Authority: f.authority()})
	defer f.closed.Store(false) // so that the place can be removed
	if err := sb.Files().WriteFile(ctx, "kept", []byte("before"), files.WriteOptions{}); err != nil {
		t.Fatalf("write: %v", err)
	}
	f.closed.Store(true)
	for name, try := range map[string]func() error{
		"exec":   func() error { _, err := sb.Exec(ctx, berth.Shell("echo after >kept"), berth.ExecOptions{}); return err },
		"write":  func() error { return sb.Files().WriteFile(ctx, "kept", []byte("after"), files.WriteOptions{}) },
		"remove": func() error { return sb.Files().Remove(ctx, "kept", files.RemoveOptions{}) },
		"read":   func() error { _, err := sb.Files().ReadFile(ctx, "kept"); return err },
		"list":   func() error { _, err := sb.Files().ReadDir(ctx, "."); return err },
		"status": func() error { _, err := sb.Status(ctx); return err },
	} {
		asked := f.asked.Load()
		wantError(t, name, try(), spec.ErrStaleOwner, errFenced)
		if f.asked.Load() == asked {
			t.Errorf("%s: the fence was not asked", name)
		}
	}
	f.closed.Store(false)
	data, err := sb.Files().ReadFile(ctx, "kept")
	if err != nil {
		t.Errorf("read: %v", err)
	}
	wantText(t, "the file", data, "before")
}

func ownerFenceProvision(ctx context.Context, t T, e *Env) {
	var f fence
	f.closed.Store(true)
	s := e.Keyed()
	refused := berth.ProvisionOptions{Authority: f.authority()}
	if sb, err := berth.ProvisionWith(ctx, e.Driver, s, refused); err == nil {
		e.Cleanup(sb.Close)
		t.Errorf("provision went through a refused fence")
	} else {
		wantError(t, "provision", err, spec.ErrStaleOwner)
	}
	e.wantAbsent(ctx, t, s.Key)
	sb := e.Provision(ctx, t, s)
	wantError(t, "reap", berth.Reap(ctx, e.Driver, s.Key, berth.ReapOptions{Authority: f.authority()}), spec.ErrStaleOwner)
	if err := sb.Ping(ctx); err != nil {
		t.Errorf("the place after a refused reap: %v", err)
	}
	if _, err := berth.AttachWith(ctx, e.Driver, s.Key, berth.AttachOptions{Authority: f.authority()}); !errors.Is(err, spec.ErrStaleOwner) {
		t.Errorf("attach through a refused fence: %v; want stale_owner", err)
	}
}
