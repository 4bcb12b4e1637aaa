//go:build linux

package place_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/environ"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/spec"
)

// TestGuestProcess defends what a guest starts with: a session of its own, / as its
// directory, none of the environment that commands get, but in a file that nobody can
// change; and that its files are closed to others.
func TestGuestProcess(t *testing.T) {
	r := newRoot(t)
	r.BaseEnv = environ.Base([]string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "LD_PRELOAD=x", "AWS_SECRET=x", "TZ=UTC"})
	s := keyed("k")
	s.Env = map[string]string{"TZ": "spec\xff wins", "EXTRA": "1"}
	_, rec := provision(t, r, s, place.ProvisionOptions{})
	if sid, err := syscall.Getpgid(rec.PID); err != nil || sid != rec.PID {
		t.Errorf("process group %d, %v", sid, err)
	}
	for name, mode := range map[string]os.FileMode{"": 0o700, "record.json": 0o600, "sock": 0o600, "guest.log": 0o600, "workspace": 0o700, "..": 0o700} {
		st, err := os.Stat(filepath.Join(r.Dir, rec.ID, name))
		if err != nil || st.Mode().Perm() != mode {
			t.Errorf("%q: mode %v, %v; want %v", name, st.Mode(), err, mode)
		}
	}
	if data, err := os.ReadFile(filepath.Join(r.Dir, rec.ID, "record.json")); err != nil || strings.Contains(string(data), "EXTRA") {
		t.Errorf("the record holds environment, or %v", err)
	}

	// A guest does not let itself be looked at; what stands in for it tells.
	for want, args := range map[string][]string{
		"EXTRA=1\x00HOME=/h\x00LC_ALL=C\x00PATH=/bin\x00TZ=spec\xff wins\x00": {"/bin/cat", "/proc/self/fd/4"},
		"":            {"/bin/sh", "-c", "grep -aE 'EXTR[A]=|win[s]|HOM[E]=' /proc/$$/environ /proc/$$/cmdline; (echo x >&4) 2>/dev/null && echo written; true"},
		"/\n":         {"/bin/readlink", "/proc/self/cwd"},
		"/dev/null\n": {"/bin/readlink", "/proc/self/fd/0"},
	} {
		r.Guest = func(context.Context, place.Launch) (place.Plan, error) {
			return place.Plan{Path: args[0], Args: args[1:]}, nil
		}
		s.Key = "tell"
		conn, rec, err := r.Provision(within(t), s, place.ProvisionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = greet(within(t), conn, rec.ID) // when it has ended
		wantCode(t, err, spec.CodeUnavailable)
		conn.Close()
		if said, err := os.ReadFile(filepath.Join(r.Dir, rec.ID, "guest.log")); err != nil || string(said) != want {
			t.Errorf("%s: %q, %v; want %q", args, said, err, want)
		}
		if err := r.Discard(within(t), rec); err != nil {
			t.Error(err)
		}
	}
}

// TestLongDir defends: the state directory may be longer than a socket's name, and a
// workdir need not be UTF-8.
func TestLongDir(t *testing.T) {
	r := newRoot(t)
	r.Dir = filepath.Join(r.Dir, strings.Repeat("d", 200), "state")
	s := keyed("k")
	s.Workdir = filepath.Join(t.TempDir(), "new\xff\n", "dir")
	_, rec := provision(t, r, s, place.ProvisionOptions{})
	conn, again, err := r.Attach(within(t), "k")
	if err != nil || again.Workdir != s.Workdir {
		t.Fatalf("attach: %q, %v", again.Workdir, err)
	}
	defer conn.Close()
	if h := hello(t, conn, rec.ID); string(h.Workdir) != s.Workdir {
		t.Errorf("the guest works in %q, want %q", h.Workdir, s.Workdir)
	}
	if st, err := os.Stat(s.Workdir); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("the new workdir: %v, %v", st, err)
	}
}

// TestAuthority defends: a refused fence and a lower epoch do nothing.
func TestAuthority(t *testing.T) {
	r, ctx := newRoot(t), within(t)
	refused := &spec.Error{Code: spec.CodeStaleOwner, Err: errors.New("fenced")}
	fenced := place.Guard{Epoch: 7, Check: func(context.Context) error { return refused }}
	_, _, err := r.Provision(ctx, keyed("k"), place.ProvisionOptions{Guard: fenced})
	wantCode(t, err, spec.CodeStaleOwner)
	empty2, _ := filepath.Glob(filepath.Join(r.Dir, "sb_*"))
	if len(empty2) != 0 {
		t.Errorf("a fenced Provision left %v", empty2)
	}
	conn, rec, err := r.Provision(ctx, keyed("k"), place.ProvisionOptions{Guard: place.Guard{Epoch: 7}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for name, g := range map[string]place.Guard{"fence": fenced, "epoch": {Epoch: 6}} {
		for verb, end := range map[string]func(context.Context, spec.Key, place.EndOptions) error{"reap": r.Reap, "stop": r.Stop} {
			if err := end(ctx, "k", place.EndOptions{Guard: g}); spec.CodeOf(err) != spec.CodeStaleOwner || !exists(rec) {
				t.Errorf("%s with a bad %s: %v, guest there: %t", verb, name, err, exists(rec))
			}
		}
	}
	if err := r.Reap(ctx, "k", place.EndOptions{Guard: place.Guard{Epoch: 8}}); err != nil || exists(rec) {
		t.Errorf("reap by a newer owner: %v", err)
	}
}

// TestClosedDirectories defends: directories that a command has closed to itself go with
// the place, and a link in the workspace is not followed.
func TestClosedDirectories(t *testing.T) {
	r := newRoot(t)
	_, rec := provision(t, r, keyed("k"), place.ProvisionOptions{})
	outside := filepath.Join(t.TempDir(), "outside")
	deep := filepath.Join(rec.Workdir, "a", "b")
	for _, err := range []error{os.MkdirAll(deep, 0o755), os.WriteFile(filepath.Join(deep, "f"), nil, 0), os.Mkdir(outside, 0o500), os.Symlink(outside, filepath.Join(rec.Workdir, "link")), os.Chmod(deep, 0), os.Chmod(filepath.Dir(deep), 0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Reap(within(t), "k", place.EndOptions{}); err != nil {
		t.Fatal(err)
	}
	empty(t, r)
	if st, err := os.Stat(outside); err != nil || st.Mode().Perm() != 0o500 {
		t.Errorf("outside: %v, %v", st, err)
	}
}

// TestCancel defends: a ctx that ends while another holds the lock ends the call.
func TestCancel(t *testing.T) {
	r := newRoot(t)
	_, rec := provision(t, r, keyed("k"), place.ProvisionOptions{})
	f, err := os.OpenFile(filepath.Join(r.Dir, "locks", rec.ID), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := r.Reap(ctx, "k", place.EndOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if !exists(rec) {
		t.Error("the guest is gone")
	}
}

// TestLeaks defends: what a place has cost this process - the goroutine that waits for the
// guest, descriptors - is given back when the place has ended.
func TestLeaks(t *testing.T) {
	r := newRoot(t)
	count := func() (goroutines, files int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(fds)
	}
	cycle := func() {
		conn, rec, err := r.Provision(within(t), keyed("k"), place.ProvisionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		hello(t, conn, rec.ID)
		conn.Close()
		if err := r.Reap(within(t), "k", place.EndOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	cycle() // the runtime's own poller is there from now on
	goroutines, files := count()
	for range 5 {
		cycle()
	}
	eventually(t, "goroutines and descriptors are given back", func() bool {
		g, f := count()
		return g <= goroutines && f <= files
	})
}

// TestInheritedDescriptors defends: neither a guest nor what wraps it holds open what this
// program has inherited.
func TestInheritedDescriptors(t *testing.T) {
	r := newRoot(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	const high = 77
	if err := syscall.Dup2(int(out.Fd()), high); err != nil { // without close-on-exec
		t.Fatal(err)
	}
	out.Close()
	// What stands for the wrapper holds what it gets for as long as it lives.
	r.Guest = func(context.Context, place.Launch) (place.Plan, error) {
		return place.Plan{Path: "/bin/sleep", Args: []string{"1000"}}, nil
	}
	conn, _, err := r.Provision(within(t), keyed("k"), place.ProvisionOptions{})
	syscall.Close(high)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := in.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := in.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the pipe does not end: %d, %v", n, err)
	}
}
