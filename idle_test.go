package berth_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/spec"
)

// sleepy returns a Sandbox that is to be suspended after a minute, and what it is made of.
func sleepy(t *testing.T, suspend func() error) (*berth.Sandbox, suspender) {
	t.Helper()
	d := suspender{newFake(), suspend}
	d.caps.Suspend = true
	d.status = spec.Status{Clients: 1, UnusedFor: time.Hour}
	sb, err := berth.Provision(t.Context(), d, spec.Spec{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if err := sb.SuspendWhenIdle(time.Minute); err != nil {
		t.Fatal(err)
	}
	return sb, d
}

func run(t *testing.T, sb *berth.Sandbox) {
	t.Helper()
	if _, err := sb.Exec(t.Context(), []string{"true"}, berth.ExecOptions{}); err != nil {
		t.Errorf("exec: %v", err)
	}
}

func detach(t *testing.T, sb *berth.Sandbox) {
	t.Helper()
	if err := sb.Detach(t.Context()); err != nil {
		t.Errorf("detach: %v", err)
	}
}

// wantCalls compares the calls that change something with what is expected.
func wantCalls(t *testing.T, d suspender, want string) {
	t.Helper()
	var got []string
	for _, call := range strings.Split(d.log(), ", ") {
		if call != "probe" && call != "provision" && call != "status" && call != "owned" {
			got = append(got, call)
		}
	}
	if strings.Join(got, ", ") != want {
		t.Errorf("the calls were %q, want %q", strings.Join(got, ", "), want)
	}
}

// A place is suspended only if nothing goes on in it, and nobody else is there.
func TestSuspendWhenIdleSparesTheUsed(t *testing.T) {
	for name, st := range map[string]spec.Status{
		"a command":      {Clients: 1, Commands: 1, UnusedFor: time.Hour},
		"another client": {Clients: 2, UnusedFor: time.Hour},
		"in use":         {Clients: 1},
		"not known":      {Clients: 1, UnusedFor: 0},
		"used lately":    {Clients: 1, UnusedFor: 59 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sb, d := sleepy(t, nil)
				d.mu.Lock()
				d.status = st
				d.mu.Unlock()
				time.Sleep(10 * time.Minute)
				detach(t, sb)
				wantCalls(t, d, "close")
			})
		})
	}
}

// What was suspended is resumed by the next call, once, and by the end of the Sandbox.
func TestSuspendWhenIdleResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sb, d := sleepy(t, nil)
		time.Sleep(90 * time.Second)
		for range 2 {
			run(t, sb)
		}
		time.Sleep(10 * time.Minute)
		detach(t, sb)
		wantCalls(t, d, "suspend, resume, start, start, suspend, resume, close")
	})
}

// roused is a driver whose place has been resumed by others, as far as its list says.
type roused struct{ suspender }

func (r roused) Owned(context.Context) ([]spec.Owned, error) {
	return []spec.Owned{{Key: "k", ID: "fk_1", State: spec.StateRunning}}, nil
}

// A place that others have resumed, or that was not suspended after all, is suspended again
// when it is not used.
func TestSuspendWhenIdleAgain(t *testing.T) {
	for name, failure := range map[string]error{"resumed": nil, "failed": spec.New(spec.CodeUnavailable, "no answer")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := suspender{newFake(), func() error { return failure }}
				d.caps.Suspend = true
				d.status = spec.Status{Clients: 1, UnusedFor: time.Hour}
				sb, err := berth.Provision(t.Context(), roused{d}, spec.Spec{Key: "k"})
				if err != nil {
					t.Fatal(err)
				}
				if err := sb.SuspendWhenIdle(time.Minute); err != nil {
					t.Fatal(err)
				}
				time.Sleep(200 * time.Second) // suspended, found awake, suspended
				detach(t, sb)
				wantCalls(t, d, "suspend, suspend, resume, close")
			})
		})
	}
}

// slowAuditor takes its time to record that something begins.
type slowAuditor struct{ time.Duration }

func (a slowAuditor) Record(_ context.Context, r spec.AuditRecord) error {
	if !r.Ended && r.Kind == spec.AuditCommand {
		time.Sleep(a.Duration)
	}
	return nil
}

// A call that is recorded for so long that the place is suspended meanwhile resumes it: it
// is not sent to a place that stands still.
func TestSlowRecordMeetsSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sb, d := sleepy(t, nil)
		sb.Audit(slowAuditor{5 * time.Minute})
		run(t, sb)
		detach(t, sb)
		wantCalls(t, d, "suspend, resume, start, close")
	})
}

// Calls within the time keep the place awake.
func TestCallsKeepAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sb, d := sleepy(t, nil)
		for range 10 {
			time.Sleep(50 * time.Second)
			run(t, sb)
		}
		detach(t, sb)
		wantCalls(t, d, strings.Repeat("start, ", 10)+"close")
	})
}

// A call that comes while the place is being suspended waits for that, and resumes it.
func TestCallMeetsSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sb, d := sleepy(t, func() error {
			time.Sleep(10 * time.Second)
			return nil
		})
		time.Sleep(65 * time.Second)
		run(t, sb)
		detach(t, sb)
		wantCalls(t, d, "suspend, resume, start, close")
	})
}

// A call whose time is over does not wait for a suspension.
func TestCallIsCancelledInSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sb, d := sleepy(t, func() error {
			time.Sleep(20 * time.Second)
			return nil
		})
		time.Sleep(65 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := sb.Ping(ctx); err == nil {
			t.Errorf("the place answered while it was being suspended")
		}
		time.Sleep(time.Minute)
		detach(t, sb)
		wantCalls(t, d, "suspend, resume, close")
	})
}

// Where it is not known whether a suspension happened the next call resumes; where it is
// known that it did not, there is nothing to resume.
func TestFailedSuspension(t *testing.T) {
	for name, test := range map[string]struct {
		code spec.Code
		want string
	}{
		"unknown":     {spec.CodeUnknownOutcome, "suspend, resume, start, close"},
		"unavailable": {spec.CodeUnavailable, "suspend, resume, start, close"},
		"refused":     {spec.CodePermission, "suspend, start, close"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sb, d := sleepy(t, func() error { return spec.New(test.code, "no") })
				time.Sleep(90 * time.Second)
				run(t, sb)
				detach(t, sb)
				wantCalls(t, d, test.want)
			})
		})
	}
}

// Only what can be suspended takes the wish, and only a time that makes sense is one.
func TestSuspendWhenIdleIsRefused(t *testing.T) {
	sb, err := berth.Provision(t.Context(), newFake(), spec.Spec{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if err := sb.SuspendWhenIdle(time.Minute); spec.CodeOf(err) != spec.CodeUnsupported {
		t.Errorf("a driver that cannot: %v", err)
	}
	if _, err := berth.SuspendIdle(t.Context(), newFake(), time.Minute, berth.ReapOptions{}); spec.CodeOf(err) != spec.CodeUnsupported {
		t.Errorf("a driver that cannot: %v", err)
	}
	for _, after := range []time.Duration{-1, 1, berth.MinSuspendAfter - 1} {
		if err := sb.SuspendWhenIdle(after); spec.CodeOf(err) != spec.CodeInvalid {
			t.Errorf("after %v: %v", after, err)
		}
	}
}

// twoRunning is a driver of two places that run.
type twoRunning struct{ suspender }

func (twoRunning) Owned(context.Context) ([]spec.Owned, error) {
	return []spec.Owned{{ID: "a", Key: "a", State: spec.StateRunning}, {ID: "b", Key: "b", State: spec.StateRunning}}, nil
}

// A sweep that was cancelled says so, also where everything went well up to there.
func TestSuspendIdleIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := twoRunning{suspender{fake: newFake(), suspend: func() error { cancel(); return nil }}}
	d.status = spec.Status{Clients: 1, UnusedFor: time.Hour}
	suspended, err := berth.SuspendIdle(ctx, d, time.Minute, berth.ReapOptions{})
	if len(suspended) != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("suspended %v, %v; want one, and that it was cancelled", suspended, err)
	}
}

// stuck is a driver that resumes nothing before it is let go on, whatever its context says.
type stuck struct {
	suspender
	free chan struct{}
}

func (s stuck) Resume(context.Context, spec.Key, berth.ReapOptions) error {
	s.note("resume")
	<-s.free
	return nil
}

// TestEndBehindAnothersResume defends: Close, Detach, Destroy and another time for
// SuspendWhenIdle take no longer than their context has it, although another call waits for a
// place that does not resume.
func TestEndBehindAnothersResume(t *testing.T) {
	for name, end := range map[string]func(*berth.Sandbox, context.Context) error{
		"close":   (*berth.Sandbox).Close,
		"detach":  (*berth.Sandbox).Detach,
		"destroy": (*berth.Sandbox).Destroy,
		"never":   func(sb *berth.Sandbox, _ context.Context) error { return sb.SuspendWhenIdle(0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := stuck{suspender{newFake(), nil}, make(chan struct{})}
				d.caps.Suspend = true
				d.status = spec.Status{Clients: 1, UnusedFor: time.Hour}
				sb, err := berth.Provision(t.Context(), d, spec.Spec{Key: "k"})
				if err != nil {
					t.Fatal(err)
				}
				if err := sb.SuspendWhenIdle(time.Minute); err != nil {
					t.Fatal(err)
				}
				time.Sleep(90 * time.Second)
				waits := make(chan struct{})
				go func() { defer close(waits); _ = sb.Ping(context.Background()) }()
				time.Sleep(45 * time.Second) // the sleeper has looked again: it waits for the call
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- end(sb, ctx) }()
				select {
				case <-ended:
				case <-time.After(6 * time.Second):
					t.Errorf("it waits behind another's call, past its context")
				}
				close(d.free)
				<-waits
				detach(t, sb)
			})
		})
	}
}
