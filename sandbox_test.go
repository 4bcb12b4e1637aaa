package berth_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// A Sandbox that never started makes no driver call when it is closed, nor does it
// when New made it.
func TestLazyCostsNothing(t *testing.T) {
	ctx := testContext(t)
	for _, end := range []func(*berth.Sandbox) error{
		func(sb *berth.Sandbox) error { return sb.Close(ctx) },
		func(sb *berth.Sandbox) error { return sb.Detach(ctx) },
	} {
		f := newFake()
		sb := berth.New(f, berth.Spec{Key: "k"}, berth.ProvisionOptions{})
		if err := errors.Join(end(sb), end(sb)); err != nil || f.log() != "" {
			t.Errorf("%v, calls %q; want none", err, f.log())
		}
		if _, err := sb.Status(ctx); !errors.Is(err, berth.ErrNotFound) {
			t.Errorf("use after the end: %v", err)
		}
	}
}

// Concurrent first uses share one start.
func TestStartIsShared(t *testing.T) {
	ctx := testContext(t)
	f := newFake()
	f.provision = func(context.Context) error { time.Sleep(20 * time.Millisecond); return nil }
	sb := berth.New(f, berth.Spec{Key: "k"}, berth.ProvisionOptions{})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := sb.Caps(ctx); err != nil {
				t.Errorf("caps: %v", err)
			}
		})
	}
	all.Wait()
	if f.log() != "probe, provision" {
		t.Errorf("calls %q", f.log())
	}
}

// A start that failed is not remembered.
func TestFailedStartIsForgotten(t *testing.T) {
	ctx := testContext(t)
	f := newFake()
	fail := true
	f.provision = func(context.Context) error {
		if fail {
			return spec.New(spec.CodeUnavailable, "not now")
		}
		return nil
	}
	sb := berth.New(f, berth.Spec{Key: "k"}, berth.ProvisionOptions{})
	if _, err := sb.Caps(ctx); !errors.Is(err, berth.ErrUnavailable) {
		t.Errorf("the first use: %v", err)
	}
	fail = false
	if _, err := sb.Caps(ctx); err != nil {
		t.Errorf("the second use: %v", err)
	}
}

// A start goes on while one caller waits, whoever began it; it ends with the last
// one; and whoever comes then is not told of it.
func TestStartBelongsToItsWaiters(t *testing.T) {
	ctx := testContext(t)
	f := newFake()
	entered, release := make(chan struct{}, 4), make(chan struct{})
	f.provision = func(ctx context.Context) error {
		entered <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	sb := berth.New(f, berth.Spec{Key: "k"}, berth.ProvisionOptions{})
	use := func(ctx context.Context) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := sb.Caps(ctx)
			done <- err
		}()
		return done
	}
	first, cancelFirst := context.WithCancel(ctx)
	a := use(first)
	<-entered
	b := use(ctx)
	// The second waits once it does not begin a start of its own.
	time.Sleep(20 * time.Millisecond)
	cancelFirst()
	if err := <-a; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	close(release)
	if err := <-b; err != nil {
		t.Errorf("the second: %v", err)
	}

	release = make(chan struct{})
	sb = berth.New(f, berth.Spec{Key: "k2"}, berth.ProvisionOptions{})
	only, cancelOnly := context.WithCancel(ctx)
	a = use(only)
	<-entered
	cancelOnly()
	<-a
	b = use(ctx)
	<-entered
	close(release)
	if err := <-b; err != nil {
		t.Errorf("who comes after an abandoned start: %v", err)
	}
}

// What cannot be enforced is refused before anything is created.
func TestRefusedBeforeCreation(t *testing.T) {
	ctx := testContext(t)
	for name, try := range map[string]struct {
		spec  berth.Spec
		want  error
		calls string
	}{
		"invalid":               {berth.Spec{Workdir: "relative"}, spec.ErrInvalidPath, ""},
		"unsupported":           {berth.Spec{Isolation: berth.IsolationGuard}, berth.ErrUnsupported, "probe"},
		"persist, no stopper":   {berth.Spec{Key: "k", Persist: true}, berth.ErrUnsupported, ""},
		"persist without a key": {berth.Spec{Persist: true}, berth.ErrInvalid, ""},
	} {
		f := newFake()
		_, err := berth.Provision(ctx, f, try.spec)
		if !errors.Is(err, try.want) || f.log() != try.calls {
			t.Errorf("%s: %v, calls %q", name, err, f.log())
		}
		if !strings.HasPrefix(err.Error(), "provision fake") {
			t.Errorf("%s: the message is %q", name, err)
		}
	}
}

// A session that breaks its driver's promise is never handed out.
func TestSessionIsChecked(t *testing.T) {
	ctx := testContext(t)
	for name, try := range map[string]struct {
		break_ func(s *fakeSession)
		want   error
	}{
		"no id":         {func(s *fakeSession) { s.id = "" }, spec.ErrInternal},
		"no files":      {func(s *fakeSession) { s.fs = nil }, spec.ErrInternal},
		"another name":  {func(s *fakeSession) { s.caps.Backend = "other" }, spec.ErrInternal},
		"a weaker wall": {func(s *fakeSession) { s.caps.Isolation = 0 }, berth.ErrUnsupported},
	} {
		f := newFake()
		f.session = try.break_
		_, err := berth.Provision(ctx, f, berth.Spec{Key: "k", Isolation: berth.IsolationNone})
		if !errors.Is(err, try.want) || !strings.HasSuffix(f.log(), "close") {
			t.Errorf("%s: %v, calls %q; want it refused and let go of", name, err, f.log())
		}
	}
}

// Close, Detach and Destroy do what the contract says, once.
func TestEnds(t *testing.T) {
	type sandbox = berth.Sandbox
	ctx := testContext(t)
	closeIt := func(sb *sandbox) error { return sb.Close(ctx) }
	detach := func(sb *sandbox) error { return sb.Detach(ctx) }
	destroy := func(sb *sandbox) error { return sb.Destroy(ctx) }
	keyed, persistent := berth.Spec{Key: "k"}, berth.Spec{Key: "k", Persist: true}
	for _, try := range []struct {
		name   string
		spec   berth.Spec
		attach bool
		ends   []func(*sandbox) error
		want   string
	}{
		{"close removes", keyed, false, []func(*sandbox) error{closeIt, closeIt}, "close, reap k"},
		{"close stops a persistent one", persistent, false, []func(*sandbox) error{closeIt, closeIt}, "close, stop k"},
		{"close lets go of an attached one", keyed, true, []func(*sandbox) error{closeIt, closeIt}, "close"},
		{"close finds the made-up key", berth.Spec{}, false, []func(*sandbox) error{closeIt, closeIt}, "owned, close, reap tmp-made-up"},
		{"destroy removes", persistent, false, []func(*sandbox) error{destroy, destroy}, "close, reap k"},
		{"destroy removes an attached one", keyed, true, []func(*sandbox) error{destroy, closeIt}, "close, reap k"},
		{"destroy after close of a persistent one", persistent, false, []func(*sandbox) error{closeIt, destroy}, "close, stop k, reap k"},
		{"destroy after close", keyed, false, []func(*sandbox) error{closeIt, destroy}, "close, reap k"},
		{"detach leaves it", keyed, false, []func(*sandbox) error{detach, detach}, "close"},
		{"a deferred close after detach", keyed, false, []func(*sandbox) error{detach, closeIt}, "close"},
		{"destroy after detach", keyed, false, []func(*sandbox) error{detach, destroy}, "close, reap k"},
	} {
		f := newFake()
		var d driver.Driver = stopper{f}
		var sb *sandbox
		var err error
		begun := "probe, provision, "
		if try.attach {
			begun = "attach, "
			sb, err = berth.Attach(ctx, d, try.spec.Key)
		} else {
			sb, err = berth.Provision(ctx, d, try.spec)
		}
		if err != nil {
			t.Fatalf("%s: %v", try.name, err)
		}
		for _, end := range try.ends {
			if err := end(sb); err != nil {
				t.Errorf("%s: %v", try.name, err)
			}
		}
		if got := strings.TrimPrefix(f.log(), begun); got != try.want {
			t.Errorf("%s: calls %q, want %q", try.name, got, try.want)
		}
		if _, err := sb.Exec(ctx, []string{"true"}, berth.ExecOptions{}); !errors.Is(err, berth.ErrNotFound) {
			t.Errorf("%s: exec afterwards: %v", try.name, err)
		}
	}
}

// A Close that failed may be repeated, and does then what was not done.
func TestCloseIsRepeatable(t *testing.T) {
	ctx := testContext(t)
	f := newFake()
	sb, err := berth.Provision(ctx, f, berth.Spec{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	f.reapErr = spec.New(spec.CodeUnavailable, "engine down")
	if err := sb.Close(ctx); !errors.Is(err, berth.ErrUnavailable) || !strings.HasPrefix(err.Error(), "close fake fk_1: ") {
		t.Errorf("close: %v", err)
	}
	f.reapErr = nil
	if err := sb.Close(ctx); err != nil || !strings.HasSuffix(f.log(), "reap k, close, reap k") {
		t.Errorf("close again: %v, calls %q", err, f.log())
	}
}

// A Close while a start is under way removes what the start makes.
func TestCloseDuringStart(t *testing.T) {
	ctx := testContext(t)
	f := newFake()
	entered, release := make(chan struct{}), make(chan struct{})
	f.provision = func(context.Context) error {
		close(entered)
		<-release
		return nil
	}
	sb := berth.New(f, berth.Spec{Key: "k"}, berth.ProvisionOptions{})
	used := make(chan error, 1)
	go func() {
		_, err := sb.Caps(ctx)
		used <- err
	}()
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- sb.Close(ctx) }()
	close(release)
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	<-used
	if !strings.HasSuffix(f.log(), "close, reap k") {
		t.Errorf("calls %q", f.log())
	}
}

// An error says where it happened, once, and keeps its code and cause.
func TestErrorsAreWrappedOnce(t *testing.T) {
	ctx := testContext(t)
	sb, err := berth.Provision(ctx, newFake(), berth.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		`read fake fk_1 "no/such": no such file`: second(sb.Files().ReadFile(ctx, "no/such")),
		`stat fake fk_1 "no": no such file`:      second(sb.Files().Stat(ctx, "no", files.StatOptions{})),
		`remove fake fk_1 "no": no such file`:    sb.Files().Remove(ctx, "no", files.RemoveOptions{}),
		`exec fake fk_1: cannot start`:           second(sb.Exec(ctx, []string{"nothing"}, berth.ExecOptions{})),
		`start fake fk_1: cannot start`:          sb.Command("nothing").Run(),
		`wait fake fk_1: unknown outcome`:        sb.Command("lost").Run(),
		`exec fake fk_1: invalid`:                second(sb.Exec(ctx, nil, berth.ExecOptions{})),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Count(err.Error(), "fk_1") != 1 {
			t.Errorf("the message is %q, want it to begin %q", err, want)
		}
	}
	if _, err := sb.Files().ReadFile(ctx, "no"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := sb.Status(cancelled); err != context.Canceled { //nolint:errorlint // unwrapped on purpose
		t.Errorf("a cancelled call: %v, want the context's error as it is", err)
	}
}

func second[T any](_ T, err error) error { return err }

// Inputs are copied before the first thing that may wait.
func TestInputsAreCopied(t *testing.T) {
	ctx := testContext(t)
	f := newFake()
	release := make(chan struct{})
	entered := make(chan struct{})
	f.provision = func(context.Context) error {
		close(entered)
		<-release
		return nil
	}
	s := berth.Spec{Env: map[string]string{"A": "1"}}
	sb := berth.New(f, s, berth.ProvisionOptions{})
	s.Env["A=B"] = "bad"
	env := map[string]string{"A": "before"}
	argv := []string{"env"}
	done := make(chan *berth.Result, 1)
	go func() {
		r, err := sb.Exec(ctx, argv, berth.ExecOptions{Env: env})
		if err != nil {
			t.Errorf("exec: %v", err)
		}
		done <- r
	}()
	<-entered
	env["A"], argv[0] = "after", "nothing"
	close(release)
	if r := <-done; r == nil || string(r.Stdout) != "map[A:before]" {
		t.Errorf("the command saw what its caller changed later: %+v", r)
	}
}
