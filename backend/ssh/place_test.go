//go:build linux

package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/backend/ssh"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/spec"
)

// clientArg makes the test binary a client that starts a command and waits to be
// killed.
const clientArg = "ssh-test-client"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case clientArg:
			client(os.Args[2:])
		case workerArg:
			os.Exit(worker(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// client provisions key, starts a shell script there and says so. It never ends by
// itself.
func client(args []string) {
	addr, user, keyFile, knownHosts, dir, key, script := args[0], args[1], args[2], args[3], args[4], args[5], args[6]
	fail := func(err error) {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	d, err := ssh.New(ssh.Options{
		Addr: addr, User: user, KeyFiles: []string{keyFile}, KnownHostsFiles: []string{knownHosts}, RemoteDir: dir,
		OrphanAfter: orphanAfter, ResumeWindow: resumeWindow,
	})
	if err != nil {
		fail(err)
	}
	ctx := context.Background()
	sess, err := d.Provision(ctx, &spec.Spec{Key: spec.Key(key)}, driver.ProvisionOptions{})
	if err != nil {
		fail(err)
	}
	if _, err := sess.Start(ctx, &spec.Command{Args: spec.Shell(script)}, driver.Stdio{Stdout: os.Stdout}); err != nil {
		fail(err)
	}
	select {}
}

// run runs a shell script to its end.
func run(t *testing.T, s driver.Session, script string) (spec.Exit, string, error) {
	t.Helper()
	var out bytes.Buffer
	p, err := s.Start(t.Context(), &spec.Command{Args: spec.Shell(script)}, driver.Stdio{Stdout: &out, Stderr: &out})
	if err != nil {
		return spec.Exit{}, "", err
	}
	exit, err := p.Wait(t.Context())
	return exit, out.String(), err
}

func mustRun(t *testing.T, s driver.Session, script, want string) {
	t.Helper()
	exit, out, err := run(t, s, script)
	if err != nil || !exit.Success() || out != want {
		t.Fatalf("%q = %v, %q, %v, want %q", script, exit, out, err, want)
	}
}

// marked lists the processes that have mark in their arguments.
func marked(mark string) []string {
	var out []string
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range dirs {
		data, err := os.ReadFile(file)
		if err == nil && bytes.Contains(data, []byte(mark)) && !bytes.Contains(data, []byte(clientArg)) {
			out = append(out, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return out
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came about: %s", what)
		}
	}
}

// A connection that is cut in mid-command is dialled again, and the result of the
// command arrives exactly: every byte once, the exit status, one run.
func TestConnectionCutInMidCommand(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	p := sshtest.StartProxy(t, s.Addr, 0)
	s.AlsoKnownAs(t, p.Addr)
	o := farOptions(t, s)
	o.Addr, o.ResumeWindow = p.Addr, 20*time.Second
	sess := provision(t, newDriver(t, o), spec.Spec{Key: "cut"})
	var out bytes.Buffer
	first := make(chan struct{})
	w := writerFunc(func(b []byte) (int, error) {
		if out.Len() == 0 {
			close(first)
		}
		return out.Write(b)
	})
	const script = `echo run >>runs; for i in $(seq 1 2000); do echo "line $i"; [ $((i % 200)) -ne 0 ] || sleep 0.2; done; exit 7`
	c, err := sess.Start(t.Context(), &spec.Command{Args: spec.Shell(script)}, driver.Stdio{Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	<-first
	const cuts = 3
	for i := range cuts {
		taken := p.Accepted()
		p.Cut()
		eventually(t, fmt.Sprint("dialled again, time ", i+1), func() bool { return p.Accepted() > taken })
		time.Sleep(100 * time.Millisecond) // somewhere else in the output each time
	}
	exit, err := c.Wait(t.Context())
	if err != nil || exit.Code != 7 {
		t.Errorf("Wait = %+v, %v, want exit status 7", exit, err)
	}
	var want strings.Builder
	for i := 1; i <= 2000; i++ {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if out.String() != want.String() {
		t.Errorf("the output is not what was written: %s", cmp.Diff(want.String(), out.String()))
	}
	mustRun(t, sess, "cat runs", "run\n")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A client that is killed in mid-command leaves nothing behind: the command is gone
// after the resume window, and the next attach works.
func TestClientKilled(t *testing.T) {
	rounds := 5
	if soak() {
		rounds = 50
	}
	s := sshtest.Start(t, sshtest.Options{})
	o := farOptions(t, s)
	d := newDriver(t, o)
	provision(t, d, spec.Spec{Key: "killed"})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range rounds {
		mark := fmt.Sprintf("77.%d%09d", os.Getpid(), i)
		script := "sleep " + mark + " & setsid sleep " + mark + " & echo started; wait"
		cmd := exec.Command(self, clientArg, o.Addr, o.User, o.KeyFiles[0], o.KnownHostsFiles[0], o.RemoteDir, "killed", script)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 256)
		n, _ := stdout.Read(line)
		if got := string(line[:n]); got != "started\n" {
			t.Fatalf("the client says %q", got)
		}
		if left := marked(mark); len(left) < 2 {
			t.Fatalf("the command does not run: %q", left)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		eventually(t, "the command of a killed client is gone", func() bool { return len(marked(mark)) == 0 })
		sess, err := d.Attach(t.Context(), "killed", driver.AttachOptions{})
		if err != nil {
			t.Fatalf("round %d: attach: %v", i, err)
		}
		mustRun(t, sess, "echo alive", "alive\n")
		if err := sess.Close(t.Context()); err != nil {
			t.Errorf("round %d: close: %v", i, err)
		}
	}
}

// Reap returns when nothing is left: no process, no directory. It is idempotent, and
// so it is where there has never been anything.
func TestReapLeavesNothing(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	o := farOptions(t, s)
	d := newDriver(t, o)
	if err := d.Reap(t.Context(), "never", driver.ReapOptions{}); err != nil {
		t.Errorf("reap where nothing has ever been: %v", err)
	}
	if owned, err := d.Owned(t.Context()); err != nil || len(owned) != 0 {
		t.Errorf("Owned = %v, %v, want nothing", owned, err)
	}
	if _, err := d.Attach(t.Context(), "never", driver.AttachOptions{}); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("Attach = %v, want not found", err)
	}
	if _, err := os.Stat(o.RemoteDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("asking made the state directory: %v", err)
	}
	sess := provision(t, d, spec.Spec{Key: "gone"})
	mark := "77." + strconv.Itoa(os.Getpid()) + "000001"
	if _, err := sess.Start(t.Context(), &spec.Command{Args: spec.Shell("sleep " + mark + " & setsid sleep " + mark + " & sleep " + mark)}, driver.Stdio{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command runs", func() bool { return len(marked(mark)) >= 3 })
	for range 2 {
		if err := d.Reap(t.Context(), "gone", driver.ReapOptions{}); err != nil {
			t.Fatal(err)
		}
		if left := marked(mark); len(left) > 0 {
			t.Errorf("processes are left: %q", left)
		}
		if left := marked(filepath.Join(o.RemoteDir, sess.ID())); len(left) > 0 {
			t.Errorf("a guest is left: %q", left)
		}
		if dirs, _ := filepath.Glob(filepath.Join(o.RemoteDir, "sb_*")); len(dirs) > 0 {
			t.Errorf("directories are left: %q", dirs)
		}
	}
}

// A remote directory is taken literally, whatever a shell would make of its name.
func TestRemoteDirIsLiteral(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	base := t.TempDir()
	for _, name := range []string{`a space and quotes'"\`, "$(touch pwned)`touch pwned`;|&", "new\nline\xff", strings.Repeat("long", 50)} {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			o := farOptions(t, s)
			o.RemoteDir = filepath.Join(base, name)
			sess := provision(t, newDriver(t, o), spec.Spec{Key: "literal"})
			mustRun(t, sess, "pwd", filepath.Join(o.RemoteDir, sess.ID(), "workspace")+"\n")
		})
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "pwned") {
			t.Error("a part of a name was run")
		}
	}
}

// Without a remote directory, places lie in the remote user's home.
func TestDefaultRemoteDir(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	o := farOptions(t, s)
	o.RemoteDir = ""
	sess := provision(t, newDriver(t, o), spec.Spec{Key: "home"})
	mustRun(t, sess, "pwd", filepath.Join(s.Home, ".local/state/berth", sess.ID(), "workspace")+"\n")
}

// Two owners on one host neither see nor touch each other's places, though they use
// the same key.
func TestOwnersApart(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	o := farOptions(t, s)
	a, b := o, o
	a.Owner, b.Owner = "a", "b"
	da, db := newDriver(t, a), newDriver(t, b)
	sa := provision(t, da, spec.Spec{Key: "same"})
	if _, err := db.Attach(t.Context(), "same", driver.AttachOptions{}); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("the other owner's attach = %v, want not found", err)
	}
	sb := provision(t, db, spec.Spec{Key: "same"})
	if sa.ID() == sb.ID() {
		t.Fatal("two owners share a place")
	}
	if err := db.Reap(t.Context(), "same", driver.ReapOptions{}); err != nil {
		t.Fatal(err)
	}
	mustRun(t, sa, "echo mine", "mine\n")
	owned, err := da.Owned(t.Context())
	if err != nil || len(owned) != 1 || owned[0].ID != sa.ID() || owned[0].Backend != "ssh" || owned[0].State != spec.StateRunning {
		t.Errorf("Owned = %+v, %v, want the one place", owned, err)
	}
}

// Eight drivers that meet an empty host at once all get their place, with one guest
// binary, and the sessions of one driver share a connection.
func TestFirstUseRace(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	o := farOptions(t, s)
	t.Cleanup(func() { reapAll(t, o) })
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		d := newDriver(t, o)
		wg.Go(func() {
			key := spec.Key("race-" + strconv.Itoa(i%4)) // two meet at each
			sess, err := d.Provision(t.Context(), &spec.Spec{Key: key}, driver.ProvisionOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = sess.ID()
			if exit, out, err := run(t, sess, "echo $PWD"); err != nil || !exit.Success() || !strings.Contains(out, sess.ID()) {
				t.Errorf("%v, %q, %v", exit, out, err)
			}
			if err := sess.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.Sort(ids)
	if got := len(slices.Compact(ids)); got != 4 {
		t.Errorf("%d places, want 4", got)
	}
	guests, err := os.ReadDir(filepath.Join(o.RemoteDir, "guest"))
	if err != nil || len(guests) != 1 {
		t.Errorf("guest binaries: %v, %v, want one", guests, err)
	}
}

// More sessions than a connection may have channels share as few connections as the
// server allows.
func TestSessionsPastMaxSessions(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Config: []string{"MaxSessions 2"}})
	p := sshtest.StartProxy(t, s.Addr, 0)
	s.AlsoKnownAs(t, p.Addr)
	o := farOptions(t, s)
	o.Addr = p.Addr
	d := newDriver(t, o)
	var sessions []driver.Session
	for i := range 5 {
		sessions = append(sessions, provision(t, d, spec.Spec{Key: spec.Key("max-" + strconv.Itoa(i))}))
	}
	for i, sess := range sessions {
		mustRun(t, sess, "echo "+strconv.Itoa(i), strconv.Itoa(i)+"\n")
	}
	if n := p.Accepted(); n < 3 || n > 4 {
		t.Errorf("%d connections for 5 sessions of 2 a connection, want 3 or 4", n)
	}
}

// A guest binary that somebody removed or cut short is uploaded again.
func TestGuestIsHealed(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	o := farOptions(t, s)
	d := newDriver(t, o)
	provision(t, d, spec.Spec{Key: "healed"})
	files, err := filepath.Glob(filepath.Join(o.RemoteDir, "guest", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("guest binaries: %v, %v", files, err)
	}
	for what, harm := range map[string]func() error{
		"removed": func() error { return os.Remove(files[0]) },
		"cut": func() error {
			return errors.Join(os.Remove(files[0]), os.WriteFile(files[0], []byte("x"), 0o700))
		},
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		sess, err := d.Attach(t.Context(), "healed", driver.AttachOptions{})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		mustRun(t, sess, "echo alive", "alive\n")
		if err := sess.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A fence that refuses stops a call before anything is sent.
func TestFenceSendsNothing(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	p := sshtest.StartProxy(t, s.Addr, 0)
	s.AlsoKnownAs(t, p.Addr)
	o := farOptions(t, s)
	o.Addr = p.Addr
	d := newDriver(t, o)
	fenced := driver.Authority{Fence: func(context.Context) error { return errors.New("lease lost") }}
	for name, call := range map[string]func() error{
		"provision": func() error {
			_, err := d.Provision(t.Context(), &spec.Spec{Key: "fenced"}, driver.ProvisionOptions{Authority: fenced})
			return err
		},
		"attach": func() error {
			_, err := d.Attach(t.Context(), "fenced", driver.AttachOptions{Authority: fenced})
			return err
		},
		"reap": func() error { return d.Reap(t.Context(), "fenced", driver.ReapOptions{Authority: fenced}) },
	} {
		if err := call(); !errors.Is(err, spec.ErrStaleOwner) {
			t.Errorf("%s = %v, want stale owner", name, err)
		}
	}
	if n := p.Accepted(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// Whoever made a place and lost it before the first answer leaves it to those who have found
// it by its key meanwhile.
func TestFailedProvisionLeavesOthersTheirPlace(t *testing.T) {
	o := farOptions(t, sshtest.Start(t, sshtest.Options{}))
	others := newDriver(t, o)
	var other driver.Session
	o.Transport = func(line io.ReadWriteCloser) io.ReadWriteCloser {
		if other == nil {
			other = provision(t, others, spec.Spec{Key: "shared"})
			mustRun(t, other, "echo precious >work; cat work", "precious\n")
			line.Close()
		}
		return line
	}
	if _, err := newDriver(t, o).Provision(t.Context(), &spec.Spec{Key: "shared"}, driver.ProvisionOptions{}); err == nil {
		t.Error("a place was provisioned over a line that was cut")
	}
	mustRun(t, other, "cat work", "precious\n")
}
