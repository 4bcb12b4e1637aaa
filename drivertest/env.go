package drivertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// markName is the environment variable by which the processes of a case are found.
const markName = "BERTH_CONFORM"

// Env is what a case works with.
type Env struct {
	Options Options
	// Driver is the driver of this case's places.
	Driver driver.Driver
	// Sandbox is the case's place: its own if Case.Own, else shared.
	Sandbox *berth.Sandbox
	// Caps are those of Sandbox.
	Caps spec.Caps
	// Mark is unique to the case; every command that Exec and Cmd start carries
	// it in its environment.
	Mark string

	mu       sync.Mutex
	cleanups []func(ctx context.Context) error
}

// Open returns another driver, as another process would have it.
func (e *Env) Open(t T) driver.Driver {
	t.Helper()
	d, err := e.Options.Open()
	if err != nil {
		t.Fatalf("open another driver: %v", err)
	}
	return d
}

// Spec returns a copy of the base spec, without a key.
func (e *Env) Spec() spec.Spec { return *e.Options.Spec.Clone() }

// Keyed returns a copy of the base spec with a key of its own, whose place is
// reaped after the case.
func (e *Env) Keyed() spec.Spec { return e.KeyedBy(driver.Authority{}) }

// KeyedBy is Keyed where the place is reaped with an authority.
func (e *Env) KeyedBy(a driver.Authority) spec.Spec {
	s := e.Spec()
	s.Key = spec.Key("conform-" + randomHex())
	e.Cleanup(func(ctx context.Context) error { return e.Driver.Reap(ctx, s.Key, driver.ReapOptions{Authority: a}) })
	return s
}

// Cleanup runs fn after the case, whatever became of it, in reverse order. An error
// of fn fails the case.
func (e *Env) Cleanup(fn func(ctx context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cleanups = append(e.cleanups, fn)
}

func (e *Env) cleanup(t T) {
	ctx, cancel := context.WithTimeout(context.Background(), e.Options.Timeout)
	defer cancel()
	e.mu.Lock()
	fns := e.cleanups
	e.cleanups = nil
	e.mu.Unlock()
	for i := len(fns) - 1; i >= 0; i-- {
		if err := fns[i](ctx); err != nil {
			t.Errorf("cleaning up after the case: %v", err)
		}
	}
}

// Provision provisions s with the case's driver; the place is removed after the
// case.
func (e *Env) Provision(ctx context.Context, t T, s spec.Spec) *berth.Sandbox {
	t.Helper()
	return e.ProvisionWith(ctx, t, e.Driver, s, berth.ProvisionOptions{})
}

// ProvisionWith provisions s with d; the place is removed after the case.
func (e *Env) ProvisionWith(ctx context.Context, t T, d driver.Driver, s spec.Spec, o berth.ProvisionOptions) *berth.Sandbox {
	t.Helper()
	sb, err := berth.ProvisionWith(ctx, d, s, o)
	if err != nil {
		t.Fatalf("provision: %v", err)
	}
	e.Cleanup(sb.Close)
	return sb
}

// Attach attaches to key with a driver of another client.
func (e *Env) Attach(ctx context.Context, t T, key spec.Key) *berth.Sandbox {
	t.Helper()
	sb, err := berth.Attach(ctx, e.Open(t), key)
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	e.Cleanup(sb.Close)
	return sb
}

// Exec runs argv in the case's place and returns its result; an error is fatal.
func (e *Env) Exec(ctx context.Context, t T, argv []string, o berth.ExecOptions) *berth.Result {
	t.Helper()
	return e.ExecIn(ctx, t, e.Sandbox, argv, o)
}

// ExecIn is Exec in another place.
func (e *Env) ExecIn(ctx context.Context, t T, sb *berth.Sandbox, argv []string, o berth.ExecOptions) *berth.Result {
	t.Helper()
	r, err := sb.Exec(ctx, argv, e.marked(o))
	if err != nil {
		t.Fatalf("exec %.80q: %v", argv, err)
	}
	return r
}

// Sh is Exec of a shell script without options.
func (e *Env) Sh(ctx context.Context, t T, script string) *berth.Result {
	t.Helper()
	return e.Exec(ctx, t, berth.Shell(script), berth.ExecOptions{})
}

// Cmd returns a marked Cmd in the case's place.
func (e *Env) Cmd(ctx context.Context, argv ...string) *berth.Cmd {
	c := e.Sandbox.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = []string{markName + "=" + e.Mark}
	return c
}

// marked adds the mark to the environment, unless that is to be exact.
func (e *Env) marked(o berth.ExecOptions) berth.ExecOptions {
	if o.CleanEnv {
		return o
	}
	env := map[string]string{markName: e.Mark}
	for name, value := range o.Env {
		env[name] = value
	}
	o.Env = env
	return o
}

// findMarked prints the pids of the processes whose environment holds $1: with a grep
// that can read past a NUL, or where there is none with builtins and cat. A zombie has
// no environment, so it is not found.
const findMarked = `if echo x | grep -qzF x 2>/dev/null; then
	set -- $(grep -lszF -- "$1" /proc/[0-9]*/environ)
	for f; do f=${f%/environ}; echo "${f#/proc/}"; done
else
	for d in /proc/[0-9]*; do
		{ x=$(cat "$d/environ"); } 2>/dev/null
		case $x in *"$1"*) echo "${d#/proc/}" ;; esac
	done
fi`

// Marked returns the pids, inside sb, of the processes that carry mark. It needs a
// shell.
func (e *Env) Marked(ctx context.Context, t T, sb *berth.Sandbox, mark string) []string {
	t.Helper()
	r, err := sb.Exec(ctx, []string{"/bin/sh", "-c", findMarked, "sh", markName + "=" + mark}, berth.ExecOptions{})
	if err != nil {
		t.Fatalf("look for processes: %v", err)
	}
	return strings.Fields(string(r.Stdout))
}

// WaitGone waits until no process of the case is left.
func (e *Env) WaitGone(ctx context.Context, t T) {
	t.Helper()
	var left []string
	ok := e.Eventually(ctx, func() bool {
		left = e.Marked(ctx, t, e.Sandbox, e.Mark)
		return len(left) == 0
	})
	if !ok {
		t.Errorf("processes of the command are left: pids %v", left)
	}
}

// Eventually asks cond again and again until it is true, and says whether it became
// so within 15 s.
func (e *Env) Eventually(ctx context.Context, cond func() bool) bool {
	return within(ctx, 15*time.Second, cond)
}

func within(ctx context.Context, most time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(most)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if cond() {
			return true
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}

func randomHex() string {
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(fmt.Sprintf("no randomness: %v", err)) // crypto/rand does not fail
	}
	return hex.EncodeToString(b[:])
}
