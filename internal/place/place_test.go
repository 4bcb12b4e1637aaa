//go:build linux

package place_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/environ"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/internal/place/remote"
	"github.com/berth-dev/berth/internal/testutil/race"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// reexec is the first argument that makes the test binary something else.
const (
	reexecGuest  = "berth-guest-reexec"
	reexecClient = "berth-client-reexec"
	reexecFar    = "berth-far-reexec"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case reexecGuest:
			os.Exit(agent.Main(os.Args[2:]))
		case reexecClient:
			os.Exit(client(os.Args[2], os.Args[3]))
		case reexecListen:
			os.Exit(listenForever(os.Args[2]))
		case reexecNamespace:
			os.Exit(inNamespace(os.Args[2], os.Args[3]))
		case reexecFar:
			os.Exit(remote.Main(os.Args[2:]))
		case "serve": // the far side runs itself as the guest
			os.Exit(agent.Main(os.Args[1:]))
		}
	}
	os.Exit(m.Run())
}

// self runs this program as the guest.
func self(_ context.Context, l place.Launch) (place.Plan, error) {
	path, err := os.Executable()
	return place.Plan{Path: path, Args: append([]string{reexecGuest}, l.Args...)}, err
}

// says is a guest that says text and ends.
func says(text string) place.Starter {
	return func(context.Context, place.Launch) (place.Plan, error) {
		return place.Plan{Path: "/bin/sh", Args: []string{"-c", "echo " + text + " >&2; exit 3"}}, nil
	}
}

func newRoot(t *testing.T) *place.Root {
	t.Helper()
	r := &place.Root{Dir: filepath.Join(t.TempDir(), "state"), Owner: "test", BaseEnv: append(environ.Base(os.Environ()), race.QuickExit), Guest: self}
	t.Cleanup(func() { clear(t, r) })
	return r
}

// clear ends what a test has left running.
func clear(t *testing.T, r *place.Root) {
	owned, err := r.Owned(context.Background())
	if err != nil {
		t.Error(err)
	}
	for _, o := range owned {
		if err := r.Reap(context.Background(), o.Key, place.EndOptions{Guard: place.Guard{Epoch: 1 << 32}}); err != nil {
			t.Error(err)
		}
	}
}

func keyed(key string) *spec.Spec {
	return &spec.Spec{Key: spec.Key(key), Isolation: spec.IsolationNone, Network: spec.NetworkOpen}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// provision provisions and says hello.
func provision(t *testing.T, r *place.Root, s *spec.Spec, o place.ProvisionOptions) (net.Conn, place.Record) {
	t.Helper()
	conn, rec, err := r.Provision(within(t), s, o)
	if err != nil {
		t.Fatalf("provision: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	hello(t, conn, rec.ID)
	return conn, rec
}

func hello(t *testing.T, conn net.Conn, id string) *wire.GuestHello {
	t.Helper()
	h, err := greet(within(t), conn, id)
	if err != nil {
		t.Fatalf("hello: %v", err)
	}
	return h
}

func greet(ctx context.Context, conn net.Conn, id string) (*wire.GuestHello, error) {
	return wire.SendHello(ctx, conn, wire.HostHello{ID: id, Client: "test", Profile: wire.Local()})
}

// exists reports whether the process of rec is in the process table. What init has not
// yet waited for has left it as far as anybody here can see to it.
func exists(rec place.Record) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", rec.PID))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	return fields[19] == strconv.FormatUint(rec.StartTicks, 10) && !(fields[0] == "Z" && fields[1] == "1")
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// empty fails if anything of a place is left in the state directory.
func empty(t *testing.T, r *place.Root) {
	t.Helper()
	for _, pattern := range []string{"sb_*", "locks/*"} {
		left, _ := filepath.Glob(filepath.Join(r.Dir, pattern))
		for _, path := range left {
			t.Errorf("left over: %s", path)
		}
	}
}

func wantCode(t *testing.T, err error, want spec.Code) {
	t.Helper()
	if spec.CodeOf(err) != want {
		t.Fatalf("got %v, want code %q", err, want)
	}
}

// TestLife defends: a key finds one place again; a stopped place is not found by Attach,
// is listed, and is started by Provision with its files; Reap leaves nothing and may be
// repeated.
func TestLife(t *testing.T) {
	r, ctx := newRoot(t), within(t)
	_, first := provision(t, r, keyed("k"), place.ProvisionOptions{})
	if !first.Fresh || !first.Started || first.PID == 0 || !exists(first) {
		t.Fatalf("first record: %+v", first)
	}
	file := filepath.Join(first.Workdir, "kept")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}

	other := *r // as another process would have it
	_, again := provision(t, &other, keyed("k"), place.ProvisionOptions{})
	if again.PID != first.PID || again.Fresh || again.Started {
		t.Errorf("adopted record: %+v", again)
	}
	conn, attached, err := other.Attach(ctx, "k")
	if err != nil || attached.PID != first.PID {
		t.Fatalf("attach: %+v, %v", attached, err)
	}
	hello(t, conn, attached.ID)
	conn.Close()

	if err := r.Stop(ctx, "k", place.EndOptions{}); err != nil {
		t.Fatal(err)
	}
	if exists(first) {
		t.Error("the guest is there after Stop")
	}
	_, _, err = r.Attach(ctx, "k")
	wantCode(t, err, spec.CodeNotFound)
	_, err = r.Dial(ctx, first.ID)
	wantCode(t, err, spec.CodeNotFound)
	owned, err := r.Owned(ctx)
	if err != nil || len(owned) != 1 || owned[0].State != spec.StateStopped || owned[0].Key != "k" {
		t.Errorf("owned after stop: %+v, %v", owned, err)
	}

	_, second := provision(t, r, keyed("k"), place.ProvisionOptions{})
	if second.PID == first.PID && second.StartTicks == first.StartTicks || second.Fresh || !second.Started || !second.Created.Equal(first.Created) {
		t.Errorf("restarted record: %+v", second)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the workdir was not kept: %v", err)
	}
	for range 2 {
		if err := r.Reap(ctx, "k", place.EndOptions{}); err != nil {
			t.Fatal(err)
		}
		if exists(second) {
			t.Error("the guest is there after Reap")
		}
		empty(t, r)
	}
}

// TestSpecMismatch defends: another spec under a key is refused and nothing is touched;
// Replace is its remedy.
func TestSpecMismatch(t *testing.T) {
	r := newRoot(t)
	_, first := provision(t, r, keyed("k"), place.ProvisionOptions{})
	changed := keyed("k")
	changed.Workdir = t.TempDir()
	_, _, err := r.Provision(within(t), changed, place.ProvisionOptions{})
	wantCode(t, err, spec.CodeSpecMismatch)
	if !strings.Contains(spec.HintOf(err), "--replace") || !exists(first) {
		t.Errorf("hint %q, guest there: %t", spec.HintOf(err), exists(first))
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("workdir (there %q)", first.Workdir)) || strings.Contains(err.Error(), "network") {
		t.Errorf("%v: it does not say what differs", err)
	}
	_, second := provision(t, r, changed, place.ProvisionOptions{Replace: true})
	if exists(first) || !second.Fresh || second.Workdir != changed.Workdir || second.OwnWorkdir {
		t.Errorf("replaced by %+v; the first guest is there: %t", second, exists(first))
	}
	if err := r.Reap(within(t), "k", place.EndOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(changed.Workdir); err != nil {
		t.Errorf("a person's workdir was removed: %v", err)
	}
}

// edit changes the record of a place as it is on disk.
func edit(t *testing.T, r *place.Root, id, old, new string) {
	t.Helper()
	path := filepath.Join(r.Dir, id, "record.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(data), old, new, 1)
	if changed == string(data) {
		t.Fatalf("%q is not in %s", old, data)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestForeign defends: what carries another owner's label is refused with CodeExists,
// listed by nobody else, and never removed; two owners never meet under one key.
func TestForeign(t *testing.T) {
	r, ctx := newRoot(t), within(t)
	other := *r
	other.Owner = "other"
	t.Cleanup(func() { clear(t, &other) })
	_, mine := provision(t, r, keyed("k"), place.ProvisionOptions{})
	_, theirs := provision(t, &other, keyed("k"), place.ProvisionOptions{})
	if mine.ID == theirs.ID || mine.PID == theirs.PID {
		t.Fatalf("two owners share %+v", mine)
	}
	owned, err := r.Owned(ctx)
	if err != nil || len(owned) != 1 || owned[0].ID != mine.ID {
		t.Errorf("owned: %+v, %v", owned, err)
	}
	if _, err := r.Dial(ctx, theirs.ID); spec.CodeOf(err) != spec.CodeNotFound {
		t.Errorf("dial of a foreign place: %v", err)
	}

	edit(t, r, mine.ID, `"owner":"test"`, `"owner":"evil"`)
	_, _, err = r.Provision(ctx, keyed("k"), place.ProvisionOptions{Replace: true})
	wantCode(t, err, spec.CodeExists)
	wantCode(t, r.Reap(ctx, "k", place.EndOptions{}), spec.CodeExists)
	_, _, err = r.Attach(ctx, "k")
	wantCode(t, err, spec.CodeNotFound)
	if owned, err := r.Owned(ctx); err != nil || len(owned) != 0 || !exists(mine) {
		t.Errorf("owned: %+v, %v; guest there: %t", owned, err, exists(mine))
	}
	edit(t, r, mine.ID, `"owner":"evil"`, `"owner":"test"`)
}

// TestHalfMade defends: a guest whose starter died before it wrote down the pid is found
// and ended, by Provision and by Reap; one of the same id in another state directory is
// another guest.
func TestHalfMade(t *testing.T) {
	r, ctx := newRoot(t), within(t)
	_, bystander := provision(t, newRoot(t), keyed("k"), place.ProvisionOptions{})
	forget := func() place.Record {
		_, rec := provision(t, r, keyed("k"), place.ProvisionOptions{})
		edit(t, r, rec.ID, fmt.Sprintf(`"pid":%d`, rec.PID), `"pid":0`)
		return rec
	}
	first := forget()
	_, second := provision(t, r, keyed("k"), place.ProvisionOptions{})
	if exists(first) || !exists(second) {
		t.Errorf("after Provision: first %t, second %t", exists(first), exists(second))
	}
	third := forget()
	if err := r.Reap(ctx, "k", place.EndOptions{}); err != nil {
		t.Fatal(err)
	}
	if exists(third) {
		t.Error("the unrecorded guest is there after Reap")
	}
	if bystander.ID != first.ID || !exists(bystander) {
		t.Error("the guest of another state directory was ended")
	}
	empty(t, r)
}

// TestRecycledPID defends: a pid that belongs to another process by now is never
// signalled, and is no running guest.
func TestRecycledPID(t *testing.T) {
	r, ctx := newRoot(t), within(t)
	_, rec := provision(t, r, keyed("k"), place.ProvisionOptions{})
	if err := r.Stop(ctx, "k", place.EndOptions{}); err != nil {
		t.Fatal(err)
	}
	edit(t, r, rec.ID, fmt.Sprintf(`"pid":%d`, rec.PID), fmt.Sprintf(`"pid":%d`, os.Getpid()))
	_, _, err := r.Attach(ctx, "k")
	wantCode(t, err, spec.CodeNotFound)
	if err := r.Reap(ctx, "k", place.EndOptions{}); err != nil { // and this test goes on
		t.Fatal(err)
	}
}

// TestHungGuest defends: a guest that does not answer is ended all the same, in bounds.
func TestHungGuest(t *testing.T) {
	r := newRoot(t)
	_, rec := provision(t, r, keyed("k"), place.ProvisionOptions{})
	if err := syscall.Kill(rec.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := r.Reap(within(t), "k", place.EndOptions{Grace: time.Second}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); exists(rec) || took > 15*time.Second {
		t.Errorf("after %v the guest is there: %t", took, exists(rec))
	}
	empty(t, r)
}

// TestDeathAtStart defends: a guest that dies at its start is CodeUnavailable with what
// it said, at the hello; Discard then leaves nothing.
func TestDeathAtStart(t *testing.T) {
	r, ctx := newRoot(t), within(t)
	r.Guest = says("boom")
	for _, key := range []string{"k", ""} {
		conn, rec, err := r.Provision(ctx, keyed(key), place.ProvisionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = greet(ctx, conn, rec.ID)
		conn.Close()
		if spec.CodeOf(err) != spec.CodeUnavailable || !strings.Contains(err.Error(), "boom") || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("got %v", err)
		}
		if err := r.Discard(ctx, rec); err != nil {
			t.Error(err)
		}
		empty(t, r)
	}
	r.Guest = func(context.Context, place.Launch) (place.Plan, error) {
		return place.Plan{Path: "/nonexistent/guest"}, nil
	}
	_, _, err := r.Provision(ctx, keyed("k"), place.ProvisionOptions{})
	wantCode(t, err, spec.CodeUnavailable)
	r.Guest = func(context.Context, place.Launch) (place.Plan, error) {
		return place.Plan{Path: "/bin/sh", Args: []string{"-c", "echo no wall >&2; exit 1"}, Wrapped: true}, nil
	}
	if _, _, err = r.Provision(ctx, keyed("k"), place.ProvisionOptions{}); spec.CodeOf(err) != spec.CodeUnavailable || !strings.Contains(err.Error(), "no wall") {
		t.Errorf("a wrapper that fails: %v", err)
	}
	empty(t, r)
}

// TestDiscard defends: what somebody else may use by now is not removed.
func TestDiscard(t *testing.T) {
	r, ctx := newRoot(t), within(t)
	_, rec := provision(t, r, keyed("k"), place.ProvisionOptions{})
	if err := r.Discard(ctx, rec); err != nil || !exists(rec) {
		t.Errorf("a keyed place that runs: %v, there: %t", err, exists(rec))
	}
	_, tmp := provision(t, r, keyed(""), place.ProvisionOptions{})
	if err := r.Discard(ctx, tmp); err != nil || exists(tmp) {
		t.Errorf("a place without a key: %v, there: %t", err, exists(tmp))
	}
	if err := r.Stop(ctx, "k", place.EndOptions{}); err != nil {
		t.Fatal(err)
	}
	_, now := provision(t, r, keyed("k"), place.ProvisionOptions{})
	if err := r.Discard(ctx, rec); err != nil || !exists(now) {
		t.Errorf("another guest of the place: %v, there: %t", err, exists(now))
	}
}

// TestDamagedRecord defends: a record that cannot be read is passed over by Owned and
// left alone, is an error of Provision that says what to do, and does not stop Reap.
func TestDamagedRecord(t *testing.T) {
	for _, damage := range []string{"", "{", `{"version":99}`, `{"version":1,"id":"sb_0000000000000000"}`, strings.Repeat("x", 1<<20)} {
		r, ctx := newRoot(t), within(t)
		_, rec := provision(t, r, keyed("k"), place.ProvisionOptions{})
		path := filepath.Join(r.Dir, rec.ID, "record.json")
		if err := os.WriteFile(path, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if owned, err := r.Owned(ctx); err != nil || len(owned) != 0 {
			t.Errorf("owned: %+v, %v", owned, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		_, _, err := r.Provision(ctx, keyed("k"), place.ProvisionOptions{})
		if spec.CodeOf(err) != spec.CodeInternal || spec.HintOf(err) == "" {
			t.Errorf("provision: %v", err)
		}
		if err := r.Reap(ctx, "k", place.EndOptions{}); err != nil || exists(rec) {
			t.Errorf("reap: %v, guest there: %t", err, exists(rec))
		}
		empty(t, r)
	}
}

// TestEphemeral defends: a place without a key is listed with its generated one while it
// lives; what a crash leaves of it goes with the next Owned, and with the next Provision.
func TestEphemeral(t *testing.T) {
	r, ctx := newRoot(t), within(t)
	crash := func() place.Record {
		t.Helper()
		_, rec := provision(t, r, keyed(""), place.ProvisionOptions{})
		owned, err := r.Owned(ctx)
		if err != nil || len(owned) != 1 || !owned[0].Ephemeral || owned[0].Key != rec.Key || !strings.HasPrefix(string(rec.Key), "tmp-") || owned[0].State != spec.StateRunning {
			t.Fatalf("owned: %+v, %v", owned, err)
		}
		if err := syscall.Kill(rec.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// This process is the parent: it must take the zombie away.
		eventually(t, "the dead guest leaves the process table", func() bool { return !exists(rec) })
		return rec
	}
	crash()
	if owned, err := r.Owned(ctx); err != nil || len(owned) != 0 {
		t.Errorf("owned: %+v, %v", owned, err)
	}
	empty(t, r)
	gone := crash()
	_, rec := provision(t, r, keyed("k"), place.ProvisionOptions{})
	left, _ := filepath.Glob(filepath.Join(r.Dir, "sb_*"))
	if len(left) != 1 || filepath.Base(left[0]) != rec.ID || rec.ID == gone.ID {
		t.Errorf("left after the sweep: %v", left)
	}
}

// TestOrphan defends: the guest of a place without a key ends after its last client is
// gone, and nothing is left.
func TestOrphan(t *testing.T) {
	r := newRoot(t)
	conn, rec := provision(t, r, keyed(""), place.ProvisionOptions{OrphanAfter: 300 * time.Millisecond})
	conn.Close()
	eventually(t, "the orphan ends", func() bool { return !exists(rec) })
	if owned, err := r.Owned(within(t)); err != nil || len(owned) != 0 {
		t.Errorf("owned: %+v, %v", owned, err)
	}
	empty(t, r)
}
