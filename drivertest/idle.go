package drivertest

import (
	"context"
	"slices"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// idleCases are about places that nobody uses.
func idleCases() []Case {
	return []Case{
		{Name: "IdlePlaceIsSuspended", Rule: "A place that is not used is suspended, one that is used is not, and the next call resumes it.", Need: all(needSuspend, needKeyed, needCoreutils), Run: idleSuspended},
		{Name: "SuspendIdleSparesTheUsed", Rule: "SuspendIdle suspends what nobody uses or is connected to, and nothing else.", Need: all(needSuspend, needKeyed, needCoreutils, needJobs), Run: idleSpared},
	}
}

func idleSuspended(ctx context.Context, t T, e *Env) {
	const after = berth.MinSuspendAfter
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	wantError(t, "a time that is too short", sb.SuspendWhenIdle(after/2), spec.ErrInvalid)
	if err := sb.SuspendWhenIdle(after); err != nil {
		t.Fatalf("suspend when idle: %v", err)
	}
	paused := func() bool { return stateOf(ctx, t, e.Driver, s.Key) == spec.StatePaused }
	for range 2 {
		e.await(ctx, t, "suspended", paused)
		r, err := sb.Exec(ctx, []string{"sleep", "2"}, berth.ExecOptions{})
		if err != nil || !r.Success() || r.Duration > 2*after+5*time.Second {
			t.Fatalf("the call that resumes it: %+v, %v", r, err)
		}
	}
	e.await(ctx, t, "suspended", paused)
	if err := sb.SuspendWhenIdle(0); err != nil {
		t.Errorf("no more: %v", err)
	}
	if err := sb.Ping(ctx); err != nil {
		t.Errorf("ping: %v", err)
	}
	if err := sb.SuspendWhenIdle(after); err != nil {
		t.Fatalf("suspend when idle: %v", err)
	}
	e.await(ctx, t, "suspended", paused)
	if err := sb.Detach(ctx); err != nil {
		t.Errorf("detach of a place that sleeps: %v", err)
	}
	wantError(t, "a call after it", sb.SuspendWhenIdle(after), spec.ErrNotFound)
	if paused() {
		t.Errorf("it was let go of and is suspended")
	}
}

// lister is a driver that lists one place.
type lister struct {
	driver.Driver
	driver.Suspender
	key spec.Key
}

func (o lister) Owned(ctx context.Context) ([]spec.Owned, error) {
	owned, err := o.Driver.Owned(ctx)
	return slices.DeleteFunc(owned, func(p spec.Owned) bool { return p.Key != o.key }), err
}

func idleSpared(ctx context.Context, t T, e *Env) {
	const after = berth.MinSuspendAfter
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	suspender, ok := e.Driver.(driver.Suspender)
	if !ok {
		t.Fatalf("the driver declares suspend, and is no Suspender")
	}
	d := lister{e.Driver, suspender, s.Key}
	suspended := func() bool {
		t.Helper()
		places, err := berth.SuspendIdle(ctx, d, after, berth.ReapOptions{})
		if err != nil {
			t.Fatalf("suspend idle: %v", err)
		}
		return len(places) > 0
	}
	unused := func() bool {
		t.Helper()
		st, err := sb.Status(ctx)
		if err != nil {
			t.Fatalf("status: %v", err)
		}
		return st.UnusedFor >= after
	}
	e.await(ctx, t, "without use", unused)
	if suspended() {
		t.Errorf("it was suspended beside another client")
	}
	job, err := sb.Jobs("").Start(ctx, []string{"sleep", "600"}, berth.JobOptions{})
	if err != nil {
		t.Fatalf("start a job: %v", err)
	}
	if unused() {
		t.Errorf("it is without use while a job runs")
	}
	if err := sb.Detach(ctx); err != nil {
		t.Fatalf("detach: %v", err)
	}
	if suspended() {
		t.Errorf("it was suspended with a job")
	}
	sb = e.Attach(ctx, t, s.Key)
	if job, err = sb.Jobs("").Get(ctx, job.ID()); err != nil {
		t.Fatalf("the job: %v", err)
	}
	if _, err := job.Kill(ctx, -1); err != nil {
		t.Fatalf("kill the job: %v", err)
	}
	if err := sb.Detach(ctx); err != nil {
		t.Fatalf("detach: %v", err)
	}
	e.await(ctx, t, "suspended", suspended)
	if state := stateOf(ctx, t, e.Driver, s.Key); state != spec.StatePaused {
		t.Errorf("it is listed as %s; want paused", state)
	}
	if suspended() {
		t.Errorf("a suspended place was suspended")
	}
}

// await waits until the place is as it should become.
func (e *Env) await(ctx context.Context, t T, what string, so func() bool) {
	t.Helper()
	if !e.Eventually(ctx, so) {
		t.Fatalf("the place was not %s in time", what)
	}
}
