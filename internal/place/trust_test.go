//go:build linux

package place_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/environ"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/spec"
)

// The arguments that make the test binary something else than a test.
const (
	reexecListen    = "berth-listen-reexec"
	reexecNamespace = "berth-namespace-reexec"
)

// nobody is a user who is not the one that runs the tests.
const nobody = 65534

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user, and make namespaces")
	}
}

// entries are all ways into a state directory.
func entries(r *place.Root) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"provision": func(ctx context.Context) error {
			conn, _, err := r.Provision(ctx, keyed("k"), place.ProvisionOptions{})
			if conn != nil {
				conn.Close()
			}
			return err
		},
		"attach": func(ctx context.Context) error { _, _, err := r.Attach(ctx, "k"); return err },
		"dial":   func(ctx context.Context) error { _, err := r.Dial(ctx, place.ID(r.Owner, "k")); return err },
		"owned":  func(ctx context.Context) error { _, err := r.Owned(ctx); return err },
		"reap":   func(ctx context.Context) error { return r.Reap(ctx, "k", place.EndOptions{}) },
		"stop":   func(ctx context.Context) error { return r.Stop(ctx, "k", place.EndOptions{}) },
	}
}

// TestTrustedDirectory defends: a state directory in which another user may have put
// something is not used at all.
func TestTrustedDirectory(t *testing.T) {
	chmod := func(mode os.FileMode) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	give := func(t *testing.T, path string) {
		needRoot(t)
		if err := os.Lchown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, path string
		spoil      func(t *testing.T, path string)
	}{
		{"it belongs to somebody else", "a/state", give},
		{"others can write to it", "a/state", chmod(0o777)},
		{"others can write to it, as to /tmp", "a/state", chmod(0o777 | os.ModeSticky)},
		{"a group can write to it", "a/state", chmod(0o770)},
		{"its parent belongs to somebody else", "a", give},
		{"others can write to its parent", "a", chmod(0o777)},
		{"the link to it belongs to somebody else", "link", give},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := t.TempDir()
			for _, err := range []error{os.MkdirAll(filepath.Join(base, "a", "state"), 0o700), os.Symlink("a", filepath.Join(base, "link"))} {
				if err != nil {
					t.Fatal(err)
				}
			}
			r := &place.Root{Dir: filepath.Join(base, "a", "state"), Owner: "test", Guest: self}
			if tt.path == "link" {
				r.Dir = filepath.Join(base, "link", "state")
			}
			tt.spoil(t, filepath.Join(base, tt.path))
			for name, enter := range entries(r) {
				if err := enter(within(t)); spec.CodeOf(err) != spec.CodePermission || spec.HintOf(err) == "" {
					t.Errorf("%s: %v (hint %q), want permission and a hint", name, err, spec.HintOf(err))
				}
			}
			if names, _ := os.ReadDir(filepath.Join(base, "a", "state")); len(names) > 0 {
				t.Errorf("something was made: %v", names)
			}
		})
	}
}

// TestUsualDirectories defends: what is ours, or root's, or sticky is a fine way to a state
// directory, and one that others can read is closed to them.
func TestUsualDirectories(t *testing.T) {
	base := t.TempDir()
	for _, err := range []error{os.MkdirAll(filepath.Join(base, "tmp", "state"), 0o755), os.Chmod(filepath.Join(base, "tmp"), 0o777|os.ModeSticky), os.Symlink("tmp", filepath.Join(base, "link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := newRoot(t)
	r.Dir = filepath.Join(base, "link", "state")
	provision(t, r, keyed("k"), place.ProvisionOptions{})
	if st, err := os.Stat(r.Dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// TestRecordIsNoReason defends: no process is ended because a record names it.
func TestRecordIsNoReason(t *testing.T) {
	r := newRoot(t)
	for name, end := range map[string]func(ctx context.Context) error{
		"owned": entries(r)["owned"], "reap": entries(r)["reap"], "stop": entries(r)["stop"],
		"provision": func(ctx context.Context) error {
			conn, _, err := r.Provision(ctx, keyed("k"), place.ProvisionOptions{Replace: true})
			if conn != nil {
				conn.Close()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, rec := provision(t, r, keyed("k"), place.ProvisionOptions{})
			if err := r.Stop(within(t), "k", place.EndOptions{}); err != nil {
				t.Fatal(err)
			}
			bystander := exec.Command("sleep", "1000")
			if err := bystander.Start(); err != nil {
				t.Fatal(err)
			}
			defer bystander.Process.Kill()
			rewrite(t, r, rec.ID, func(m map[string]any) {
				m["ephemeral"] = name == "owned" // whose leftovers are swept
				for _, field := range []string{"wrapper_", ""} {
					m[field+"pid"] = bystander.Process.Pid
				}
				m["start_ticks"], m["wrapper_ticks"] = 1, ticksOf(t, bystander.Process.Pid)
				m["spec_hash"] = "another"
			})
			if err := end(within(t)); err != nil {
				t.Error(err)
			}
			if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("the bystander was ended: %v", err)
			}
			var st unix.Siginfo
			if err := unix.Waitid(unix.P_PID, bystander.Process.Pid, &st, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil || st.Signo != 0 {
				t.Errorf("the bystander has ended: %v", err)
			}
			if err := r.Reap(within(t), "k", place.EndOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// rewrite changes the record of a place.
func rewrite(t *testing.T, r *place.Root, id string, change func(m map[string]any)) {
	t.Helper()
	path := filepath.Join(r.Dir, id, "record.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	change(m)
	if data, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ticksOf is when a process started.
func ticksOf(t *testing.T, pid int) uint64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var ticks uint64
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if _, err := fmt.Sscan(fields[19], &ticks); err != nil {
		t.Fatal(err)
	}
	return ticks
}

// TestForeignServer defends: nothing is said to a socket on which another user listens in
// the place of the guest.
func TestForeignServer(t *testing.T) {
	needRoot(t)
	r := newRoot(t)
	_, rec := provision(t, r, keyed("k"), place.ProvisionOptions{})
	dir, err := os.MkdirTemp("", "berth-foreign-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Open("/proc/self/exe") // the way to it is closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	cmd := exec.Command("/proc/self/fd/3", reexecListen, filepath.Join(dir, "sock"))
	cmd.ExtraFiles = []*os.File{exe}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); _ = cmd.Wait() }()
	var ready [6]byte
	if _, err := out.Read(ready[:]); err != nil {
		t.Fatal(err)
	}
	sock := filepath.Join(r.Dir, rec.ID, "sock")
	if err := os.Rename(sock, sock+".real"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "sock"), sock); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"attach", "dial"} {
		if err := entries(r)[name](within(t)); spec.CodeOf(err) != spec.CodePermission {
			t.Errorf("%s: %v, want permission", name, err)
		}
	}
	if err := os.Rename(sock+".real", sock); err != nil {
		t.Fatal(err)
	}
}

// listenForever is the other user.
func listenForever(path string) int {
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := os.Chmod(path, 0o777); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	for {
		if _, err := l.Accept(); err != nil {
			return 1
		}
	}
}

// TestPidNamespace defends: a guest that was started in another pid namespace is adopted,
// listed as running, and ended; it is never taken for a stopped one.
func TestPidNamespace(t *testing.T) {
	needRoot(t)
	r := newRoot(t)
	_, rec := provision(t, r, keyed("k"), place.ProvisionOptions{})
	elsewhere := func(do string) string {
		t.Helper()
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe, reexecNamespace, r.Dir, do)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", do, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got, want := elsewhere("provision"), fmt.Sprintf("%d false", rec.PID); got != want {
		t.Errorf("provision: %q, want %q: the same guest", got, want)
	}
	if got := elsewhere("attach"); got != fmt.Sprint(rec.PID) {
		t.Errorf("attach: %q", got)
	}
	if got := elsewhere("owned"); got != "running" {
		t.Errorf("owned: %q", got)
	}
	// From there a guest is gone when the kernel has closed what it held.
	if got := elsewhere("stop"); got != "<nil>" {
		t.Errorf("stop: %q", got)
	}
	eventually(t, "the guest has ended", func() bool { return !exists(rec) })
	_, again := provision(t, r, keyed("k"), place.ProvisionOptions{})
	if got := elsewhere("reap"); got != "<nil>" {
		t.Errorf("reap: %q", got)
	}
	eventually(t, "the guest has ended", func() bool { return !exists(again) })
	empty(t, r)
}

// inNamespace is the other side of TestPidNamespace.
func inNamespace(dir, do string) int {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println(err)
		return 1
	}
	r, ctx := &place.Root{Dir: dir, Owner: "test", BaseEnv: environ.Base(os.Environ()), Guest: self}, context.Background()
	switch do {
	case "provision":
		conn, rec, err := r.Provision(ctx, keyed("k"), place.ProvisionOptions{})
		if err == nil {
			defer conn.Close()
			_, err = greet(ctx, conn, rec.ID)
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(rec.PID, rec.Started)
	case "attach":
		conn, rec, err := r.Attach(ctx, "k")
		if err == nil {
			defer conn.Close()
			_, err = greet(ctx, conn, rec.ID)
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(rec.PID)
	case "owned":
		owned, err := r.Owned(ctx)
		if err != nil || len(owned) != 1 {
			fmt.Println(owned, err)
			return 1
		}
		fmt.Println(owned[0].State)
	case "stop":
		fmt.Println(r.Stop(ctx, "k", place.EndOptions{}))
	case "reap":
		fmt.Println(r.Reap(ctx, "k", place.EndOptions{}))
	}
	return 0
}
