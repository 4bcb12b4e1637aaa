package fake_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/fake"
	"github.com/berth-dev/berth/spec"
)

// bubble runs a test in a bubble with a place of its own, and wants it to take no time
// outside.
func bubble(t *testing.T, o fake.Options, s berth.Spec, run func(t *testing.T, d *fake.Driver, sb *berth.Sandbox)) {
	t.Helper()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		d := fake.New(o)
		sb, err := berth.Provision(t.Context(), d, s)
		if err != nil {
			t.Fatal(err)
		}
		run(t, d, sb)
		if err := sb.Destroy(t.Context()); err != nil {
			t.Errorf("destroy: %v", err)
		}
		if key := s.Key; key != "" {
			if err := berth.Reap(t.Context(), d, key, berth.ReapOptions{}); err != nil {
				t.Errorf("reap: %v", err)
			}
		}
	})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v outside of the bubble", took)
	}
}

// A deadline of an hour passes at once in a bubble: the fake's clock is the bubble's.
func TestHourLongTimeout(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{}, func(t *testing.T, _ *fake.Driver, sb *berth.Sandbox) {
		began := time.Now()
		r, err := sb.Exec(t.Context(), berth.Shell("trap 'sleep 1; echo bye; exit 7' TERM; echo begun; sleep 86400 & wait"), berth.ExecOptions{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if !r.TimedOut || string(r.Stdout) != "begun\nbye\n" || r.ExitCode != 7 || r.Duration < time.Hour {
			t.Errorf("%+v; want a timeout after an hour, and what was printed", r)
		}
		if d := time.Since(began); d < time.Hour || d > time.Hour+time.Minute {
			t.Errorf("it took %v of the bubble's time", d)
		}
	})
}

// An agent that polls a job for a day, with a stall in between, is tested in no time.
func TestDayLongJob(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{Key: "k"}, func(t *testing.T, _ *fake.Driver, sb *berth.Sandbox) {
		jobs := sb.Jobs("agent")
		job, err := jobs.Start(t.Context(), berth.Shell("echo building; sleep 36000; echo done"), berth.JobOptions{StallAfter: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		watch, stop := context.WithCancel(t.Context())
		err = jobs.Watch(watch, berth.JobWatch{
			OnStall: func(j berth.JobInfo, silent time.Duration) error {
				told = append(told, "stalled for "+silent.String())
				return nil
			},
			OnExit: func(j berth.JobInfo) error {
				told = append(told, j.Exit.String())
				stop()
				return nil
			},
		})
		if want := "stalled for 1h0m0s, exit status 0"; strings.Join(told, ", ") != want || !errors.Is(err, context.Canceled) {
			t.Errorf("told %q, %v; want %s", told, err, want)
		}
		lines, err := job.Lines(t.Context(), -1, 0)
		if err != nil || string(lines.Data) != "done\n" || !lines.Complete {
			t.Errorf("the last line is %+v, %v", lines, err)
		}
	})
}

// Idle places end by the bubble's clock too, and leave nothing behind.
func TestLifetimesInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New(fake.Options{})
		for _, s := range []berth.Spec{{}, {Key: "idle", IdleTimeout: time.Hour}, {Key: "old", TTL: 2 * time.Hour}} {
			sb, err := berth.Provision(t.Context(), d, s)
			if err != nil {
				t.Fatal(err)
			}
			if err := sb.Detach(t.Context()); err != nil {
				t.Error(err)
			}
		}
		states := func() string {
			owned, err := berth.List(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, o := range owned {
				out = append(out, string(o.Key)+" "+string(o.State))
			}
			return strings.Join(out, ", ")
		}
		for _, step := range []struct {
			after time.Duration
			want  string
		}{
			{29 * time.Second, "fake-1 running, idle running, old running"},
			{2 * time.Second, "idle running, old running"},
			{time.Hour, "idle stopped, old running"},
			{time.Hour, "idle stopped, old stopped"},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			if got := states(); got != step.want {
				t.Errorf("%v later: %s; want %s", step.after, got, step.want)
			}
		}
	})
}

// A Program sees the end of its process by its context, takes signals if it asks for
// them, and has the place's files.
func TestPrograms(t *testing.T) {
	programs := map[string]fake.Program{
		"serve": func(ctx context.Context, c *fake.Invocation) int {
			signals := c.Notify(spec.SIGHUP, spec.SIGTERM)
			_, _ = io.WriteString(c.Stdout, "ready\n")
			for {
				select {
				case s := <-signals:
					if s == spec.SIGTERM {
						return 5
					}
					_, _ = io.WriteString(c.Stdout, "reloaded\n")
				case <-ctx.Done():
					return 1
				}
			}
		},
		"upper": func(_ context.Context, c *fake.Invocation) int {
			data, err := io.ReadAll(c.Stdin)
			if err != nil {
				return 1
			}
			_, _ = io.WriteString(c.Stdout, strings.ToUpper(string(data))+c.Env["SUFFIX"])
			return len(c.Args) - 1
		},
	}
	bubble(t, fake.Options{Programs: programs}, berth.Spec{}, func(t *testing.T, _ *fake.Driver, sb *berth.Sandbox) {
		r, err := sb.Exec(t.Context(), berth.Shell("echo loud | SUFFIX=! upper a b"), berth.ExecOptions{})
		if err != nil || string(r.Stdout) != "LOUD\n!" || r.ExitCode != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		r, err = sb.Exec(t.Context(), berth.Shell("serve & sleep 1; kill -HUP $!; sleep 1; kill $!; wait $!"), berth.ExecOptions{})
		if err != nil || string(r.Stdout) != "ready\nreloaded\n" || r.ExitCode != 5 {
			t.Errorf("%+v, %v", r, err)
		}
		r, err = sb.Exec(t.Context(), []string{"serve"}, berth.ExecOptions{Timeout: time.Minute, Grace: -1})
		if err != nil || !r.TimedOut || r.Signal != int(spec.SIGKILL) {
			t.Errorf("%+v, %v; want the end by KILL", r, err)
		}
	})
}

// A listener that another one has taken over from has a while to tell of its event; then
// the other one is told of it too, and neither is told again.
func TestTakeOverFromASlowListener(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{}, func(t *testing.T, _ *fake.Driver, sb *berth.Sandbox) {
		jobs := sb.Jobs("me")
		if _, err := jobs.Start(t.Context(), []string{"true"}, berth.JobOptions{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		first := make(chan error, 1)
		go func() {
			first <- jobs.Watch(t.Context(), berth.JobWatch{OnExit: func(berth.JobInfo) error {
				time.Sleep(time.Minute)
				return nil
			}})
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var told []time.Duration
		err := jobs.Watch(ctx, berth.JobWatch{OnExit: func(berth.JobInfo) error {
			told = append(told, time.Since(began))
			return nil
		}})
		if !errors.Is(err, context.DeadlineExceeded) || len(told) != 1 || told[0] < 5*time.Second || told[0] > 10*time.Second {
			t.Errorf("the second is told at %v, %v; want once, some 5 s after it came", told, err)
		}
		if err := <-first; !errors.Is(err, spec.ErrStaleOwner) {
			t.Errorf("the first ends with %v", err)
		}
	})
}
