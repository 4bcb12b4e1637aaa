package fake_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/fake"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func wantIs(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v; want %v", what, err, target)
	}
}

func write(t *testing.T, sb *berth.Sandbox, name, text string) error {
	t.Helper()
	return sb.Files().WriteFile(t.Context(), name, []byte(text), files.WriteOptions{})
}

// A fault strikes after so many requests, so many times, and nothing is done meanwhile.
func TestFaultsAreCounted(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{}, func(t *testing.T, d *fake.Driver, sb *berth.Sandbox) {
		fault := d.Inject(fake.Fault{
			Op: fake.OpWrite, Match: func(r fake.Request) bool { return r.Path == "a" }, After: 1, Times: 2,
			Delay: time.Minute, Err: spec.New(spec.CodeUnavailable, "the network is down"),
		})
		began := time.Now()
		var got []string
		for i := range 5 {
			err := write(t, sb, "a", fmt.Sprint(i))
			got = append(got, string(spec.CodeOf(err)))
			if err := write(t, sb, "b", "other"); err != nil {
				t.Errorf("another file: %v", err)
			}
			data, err := sb.Files().ReadFile(t.Context(), "a")
			got = append(got, string(data))
			if err != nil {
				t.Error(err)
			}
		}
		if want := "|0|unavailable|0|unavailable|0||3||4"; strings.Join(got, "|") != want || fault.Hits() != 2 {
			t.Errorf("codes and contents %q, %d hits; want %q", got, fault.Hits(), want)
		}
		if d := time.Since(began); d != 2*time.Minute {
			t.Errorf("it took %v", d)
		}
		if n := d.Count(fake.OpWrite); n != 10 {
			t.Errorf("%d writes were counted", n)
		}
		d.Inject(fake.Fault{Op: fake.OpStatus, Times: -1, Err: errors.New("own")}).Remove()
		if _, err := sb.Status(t.Context()); err != nil {
			t.Errorf("a fault that was removed: %v", err)
		}
	})
}

// A delay ends with the caller's context, before anything happened.
func TestDelayEndsWithTheContext(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{}, func(t *testing.T, d *fake.Driver, sb *berth.Sandbox) {
		d.Inject(fake.Fault{Delay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := sb.Exec(ctx, []string{"touch", "x"}, berth.ExecOptions{})
		wantIs(t, "exec", err, context.DeadlineExceeded)
		_, err = sb.Files().Stat(t.Context(), "x", files.StatOptions{})
		wantIs(t, "stat", err, spec.ErrFileNotFound)
	})
}

// An answer that is lost leaves what was done; a key finds it again.
func TestLostAnswers(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{Key: "k"}, func(t *testing.T, d *fake.Driver, sb *berth.Sandbox) {
		for _, op := range []fake.Op{fake.OpWrite, fake.OpStart, fake.OpWait} {
			d.Inject(fake.Fault{Op: op, Lost: true})
		}
		wantIs(t, "write", write(t, sb, "a", "landed"), spec.ErrUnknownOutcome)
		if data, err := sb.Files().ReadFile(t.Context(), "a"); string(data) != "landed" || err != nil {
			t.Errorf("the file holds %q, %v", data, err)
		}
		o := berth.ExecOptions{Key: "once"}
		for range 2 { // the start, and then the end
			_, err := sb.Exec(t.Context(), berth.Shell("echo ran >>runs; sleep 5; echo out"), o)
			wantIs(t, "exec", err, spec.ErrUnknownOutcome)
		}
		r, err := sb.Exec(t.Context(), berth.Shell("echo ran >>runs; sleep 5; echo out"), o)
		if err != nil || string(r.Stdout) != "out\n" {
			t.Errorf("the third time: %+v, %v", r, err)
		}
		if data, err := sb.Files().ReadFile(t.Context(), "runs"); string(data) != "ran\n" || err != nil {
			t.Errorf("it ran: %q, %v", data, err)
		}
		d.Inject(fake.Fault{Op: fake.OpProvision, Lost: true})
		_, err = berth.Provision(t.Context(), d, berth.Spec{Key: "other"})
		wantIs(t, "provision", err, spec.ErrUnknownOutcome)
		again, err := berth.Attach(t.Context(), d, "other")
		if err != nil {
			t.Fatalf("what was provisioned all the same: %v", err)
		}
		if err := again.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A place that crashes under a command answers with an unknown outcome, keeps its files
// and marks its jobs as lost; the others are told that it is down until it comes back.
func TestCrash(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{Key: "k"}, func(t *testing.T, d *fake.Driver, sb *berth.Sandbox) {
		job, err := sb.Jobs("").Start(t.Context(), berth.Shell("echo line; sleep 1000"), berth.JobOptions{})
		if err != nil {
			t.Fatal(err)
		}
		d.Inject(fake.Fault{Op: fake.OpStart, Crash: true, CrashAfter: time.Second, BackAfter: time.Minute})
		_, err = sb.Exec(t.Context(), berth.Shell("echo half >f; sleep 1000"), berth.ExecOptions{})
		wantIs(t, "exec", err, spec.ErrUnknownOutcome)
		wantIs(t, "ping", sb.Ping(t.Context()), spec.ErrUnavailable)
		_, err = berth.Attach(t.Context(), d, "k")
		wantIs(t, "attach", err, spec.ErrNotFound)
		time.Sleep(time.Minute + time.Second)
		r, err := sb.Exec(t.Context(), []string{"cat", "f"}, berth.ExecOptions{})
		if err != nil || string(r.Stdout) != "half\n" {
			t.Errorf("afterwards: %+v, %v", r, err)
		}
		info, err := job.Wait(t.Context())
		if err != nil || info.State != spec.JobLost || info.LogLines != 1 {
			t.Errorf("the job: %+v, %v; want it lost, with its log", info, err)
		}
		if err := d.Crash("k", 0); err != nil {
			t.Error(err)
		}
		again, err := berth.Provision(t.Context(), d, berth.Spec{Key: "k"})
		if err != nil || again.ID() != sb.ID() {
			t.Fatalf("provision starts what crashed: %v", err)
		}
		wantIs(t, "crash of no place", d.Crash("none", 0), spec.ErrNotFound)
	})
}

// A full disk keeps the old content, says no space, and is one for programs too.
func TestFullDisk(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{Key: "k"}, func(t *testing.T, d *fake.Driver, sb *berth.Sandbox) {
		if err := write(t, sb, "a", "old"); err != nil {
			t.Fatal(err)
		}
		if err := d.LimitDisk("k", 10); err != nil {
			t.Fatal(err)
		}
		wantIs(t, "write", write(t, sb, "a", "more than ten bytes"), spec.ErrNoSpace)
		if data, err := sb.Files().ReadFile(t.Context(), "a"); string(data) != "old" || err != nil {
			t.Errorf("the file holds %q, %v", data, err)
		}
		if err := write(t, sb, "a", "ten bytes!"); err != nil {
			t.Errorf("what fits: %v", err)
		}
		r, err := sb.Exec(t.Context(), berth.Shell("cat a >b; echo $?; wc -c <b"), berth.ExecOptions{})
		if err != nil || string(r.Stdout) != "1\n0\n" || !strings.Contains(string(r.Stderr), "No space left on device") {
			t.Errorf("%+v, %v", r, err)
		}
		if err := d.LimitDisk("k", -1); err != nil {
			t.Error(err)
		}
		if err := write(t, sb, "a", "more than ten bytes"); err != nil {
			t.Errorf("without a limit: %v", err)
		}
	})
}

// A reader that stalls costs time and no output; a connection that breaks is an error.
func TestOutputFaults(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{}, func(t *testing.T, d *fake.Driver, sb *berth.Sandbox) {
		d.Inject(fake.Fault{Op: fake.OpOutput, After: 2, Delay: time.Hour})
		r, err := sb.Exec(t.Context(), berth.Shell("seq 1 100000"), berth.ExecOptions{NoOutputTimeout: time.Minute})
		if err != nil || r.TimedOut || bytes.Count(r.Stdout, []byte("\n")) != 100000 {
			t.Errorf("timed out %v, %d bytes, %v", r.TimedOut, len(r.Stdout), err)
		}
		d.Inject(fake.Fault{Op: fake.OpOutput, After: 2, Err: spec.New(spec.CodeUnknownOutcome, "the connection broke")})
		_, err = sb.Exec(t.Context(), berth.Shell("seq 1 100000"), berth.ExecOptions{})
		wantIs(t, "exec", err, spec.ErrUnknownOutcome)
	})
}

// An owner that another one has taken over from is refused everything.
func TestUsurp(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{Key: "k"}, func(t *testing.T, d *fake.Driver, sb *berth.Sandbox) {
		if err := d.Usurp("k", 7); err != nil {
			t.Fatal(err)
		}
		wantIs(t, "write", write(t, sb, "a", ""), spec.ErrStaleOwner)
		wantIs(t, "reap", berth.Reap(t.Context(), d, "k", berth.ReapOptions{}), spec.ErrStaleOwner)
		authority := driver.Authority{Epoch: 7}
		if err := berth.Reap(t.Context(), d, "k", berth.ReapOptions{Authority: authority}); err != nil {
			t.Errorf("the new owner: %v", err)
		}
	})
}

// Places of another owner are not seen, and not taken.
func TestOwners(t *testing.T) {
	world := fake.NewWorld()
	mine, other := fake.New(fake.Options{World: world, Owner: "me"}), fake.New(fake.Options{World: world, Owner: "you"})
	sb, err := berth.Provision(t.Context(), mine, berth.Spec{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) })
	_, err = berth.Provision(t.Context(), other, berth.Spec{Key: "k"})
	wantIs(t, "provision", err, spec.ErrExists)
	_, err = berth.Attach(t.Context(), other, "k")
	wantIs(t, "attach", err, spec.ErrNotFound)
	if list, err := berth.List(t.Context(), other); len(list) > 0 || err != nil {
		t.Errorf("the other owner sees %v, %v", list, err)
	}
}

// What Options.Claim names is taken; the rest is refused as everywhere.
func TestClaim(t *testing.T) {
	want := berth.Spec{Image: "python:3.14-slim", Isolation: spec.IsolationStrict, Network: spec.NetworkOpen, Limits: spec.Limits{MemoryBytes: 1 << 30}}
	_, err := berth.Provision(t.Context(), fake.New(fake.Options{}), want)
	wantIs(t, "without a claim", err, spec.ErrUnsupported)
	d := fake.New(fake.Options{Name: "docker", Claim: spec.Caps{
		Image: true, LimitMemory: true, Isolation: spec.IsolationSet(spec.IsolationStrict), Network: spec.NetworkSet(spec.NetworkOpen),
	}})
	sb, err := berth.Provision(t.Context(), d, want)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close(t.Context())
	caps, err := sb.Caps(t.Context())
	if err != nil || caps.Backend != "docker" || caps.Isolation.String() != "strict" || caps.Network.String() != "open" {
		t.Errorf("%+v, %v", caps, err)
	}
	want.Hardening.ReadOnlyRoot = true
	_, err = berth.Provision(t.Context(), d, want)
	wantIs(t, "what was not claimed", err, spec.ErrUnsupported)
}

// Calls say what ran, by whom, with what.
func TestCalls(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{Env: map[string]string{"FROM": "spec"}}, func(t *testing.T, d *fake.Driver, sb *berth.Sandbox) {
		d.On(fake.Script("rm -rf /"), fake.Reply{Exit: 99})
		rule := d.On(fake.Args("deploy", "*"), fake.Reply{Stdout: "deployed\n", Signal: spec.SIGKILL, Delay: time.Hour})
		r, err := sb.Exec(t.Context(), []string{"deploy", "prod"}, berth.ExecOptions{Stdin: strings.NewReader("manifest"), Dir: "/tmp", Env: map[string]string{"A": "1"}})
		if err != nil || string(r.Stdout) != "deployed\n" || r.Signal != 9 || r.Duration != time.Hour {
			t.Errorf("%+v, %v", r, err)
		}
		for _, argv := range [][]string{{"deploy"}, {"deploy", "a", "b"}} {
			_, err := sb.Exec(t.Context(), argv, berth.ExecOptions{})
			wantIs(t, "what no rule answers", err, spec.ErrStartFailed)
		}
		if r, err := sb.Exec(t.Context(), berth.Shell("cd / && rm -rf /"), berth.ExecOptions{}); err != nil || r.ExitCode != 99 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := sb.Exec(t.Context(), berth.Shell("deploy x; true"), berth.ExecOptions{Timeout: 2 * time.Hour}); err != nil {
			t.Error(err)
		}
		if rule.Used() != 2 {
			t.Errorf("the rule answered %d calls", rule.Used())
		}
		calls := d.Find(fake.Args("deploy", "..."))
		var got []string
		for _, c := range calls {
			got = append(got, fmt.Sprintf("%v nested=%v", c, c.Nested))
		}
		if want := "deploy prod nested=false, deploy nested=false, deploy a b nested=false, deploy x nested=true"; strings.Join(got, ", ") != want {
			t.Errorf("calls %q; want %s", got, want)
		}
		if c := calls[0]; c.Stdin() != "manifest" || c.Dir != "/tmp" || c.Env["A"] != "1" || c.Env["FROM"] != "spec" {
			t.Errorf("the call was %+v, with input %q", c, c.Stdin())
		}
	})
}

// A Program that ignores its end is named, and its place is gone all the same.
func TestProgramThatDoesNotReturn(t *testing.T) {
	release := make(chan struct{})
	d := fake.New(fake.Options{Programs: map[string]fake.Program{"stubborn": func(context.Context, *fake.Invocation) int {
		<-release
		return 0
	}}})
	sb, err := berth.Provision(t.Context(), d, berth.Spec{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := sb.Exec(t.Context(), []string{"stubborn"}, berth.ExecOptions{Timeout: time.Millisecond, Grace: -1})
	if err != nil || !r.TimedOut {
		t.Errorf("%+v, %v; want a timeout", r, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = berth.Reap(ctx, d, "k", berth.ReapOptions{})
	wantIs(t, "reap", err, spec.ErrUnavailable)
	close(release)
	if list, err := berth.List(t.Context(), d); len(list) > 0 || err != nil {
		t.Errorf("left: %v, %v", list, err)
	}
}
