//go:build linux

package drop_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/drop"
)

// The words that make this a program which becomes somebody else, in the same process or
// by beginning again.
const (
	arg      = "become"
	argAgain = "become-again"
)

// TestMain is, with one of them, a program that becomes somebody else and then says who
// every one of its threads is.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && (os.Args[1] == arg || os.Args[1] == argAgain) {
		os.Exit(become(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

func become(who string, own []string) int {
	id, err := drop.Parse(who)
	if err == nil {
		signal.Notify(make(chan os.Signal, 1)) // what is taken already is no hindrance
		idleThreads()
		if os.Args[1] == argAgain && os.Getuid() == 0 {
			err = id.BeginAgain(own, os.Environ())
		} else {
			err = id.Take(own, os.Environ())
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	threads, _ := filepath.Glob("/proc/self/task/*/status")
	for _, thread := range threads {
		data, _ := os.ReadFile(thread)
		for line := range strings.Lines(string(data)) {
			for _, name := range []string{"Uid:", "Gid:", "Groups:", "NoNewPrivs:", "Cap"} {
				if strings.HasPrefix(line, name) {
					fmt.Println(strings.Join(strings.Fields(line), " "))
				}
			}
		}
	}
	for what, err := range map[string]error{
		"setuid":  syscall.Setuid(0),
		"groups":  syscall.Setgroups([]int{0}),
		"chown":   os.Chown(own[0], 0, 0),
		"shadow":  open("/etc/shadow"),
		"reach":   open("/proc/1/environ"),
		"unshare": unix.Unshare(unix.CLONE_NEWNS),
	} {
		if err == nil {
			fmt.Println("could", what)
		}
	}
	if err := os.WriteFile(filepath.Join(own[0], "made"), nil, 0o600); err != nil {
		fmt.Println(err)
	}
	fmt.Println("env", os.Getenv("DROP_TEST"))
	return 0
}

// idleThreads are some that wait in the kernel, and one whose goroutine keeps it.
func idleThreads() {
	for range 8 {
		go func() { _, _ = unix.Poll(nil, -1) }()
	}
	started := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(started)
		select {}
	}()
	<-started
	for threads := 0; threads < 9; {
		tasks, _ := os.ReadDir("/proc/self/task")
		threads = len(tasks)
		time.Sleep(time.Millisecond)
	}
}

func open(path string) error {
	f, err := os.Open(path)
	if err == nil {
		f.Close()
	}
	return err
}

func run(t *testing.T, change func(*exec.Cmd), way string, args ...string) (string, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, append([]string{way}, args...)...)
	cmd.Env = append(os.Environ(), "DROP_TEST=kept")
	if change != nil {
		change(cmd)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root has something to give up")
	}
}

// owned is a directory of root on the way to which everybody can go.
func owned(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestTake defends: every thread of the process is the other user afterwards, those too
// that wait in the kernel, with no group, no capability in any set and no new privileges;
// it can get nothing back, the directories that it was given are its own, and its
// environment is what it was. The same holds for a process that begins again.
func TestTake(t *testing.T) {
	for _, way := range []string{arg, argAgain} {
		t.Run(way, func(t *testing.T) { testTake(t, way) })
	}
}

func testTake(t *testing.T, way string) {
	needRoot(t)
	dir := owned(t)
	out, err := run(t, nil, way, "64000:64001", dir)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(out) {
		lines[strings.TrimSpace(line)] = true
	}
	const none = "0000000000000000"
	for _, want := range []string{
		"Uid: 64000 64000 64000 64000", "Gid: 64001 64001 64001 64001", "Groups:", "NoNewPrivs: 1",
		"CapInh: " + none, "CapPrm: " + none, "CapEff: " + none, "CapBnd: " + none, "CapAmb: " + none, "env kept",
	} {
		if !lines[want] {
			t.Errorf("no line %q", want)
		}
		delete(lines, want)
	}
	for line := range lines {
		t.Errorf("it says %q", line)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "made"), &st); err != nil || st.Uid != 64000 || st.Gid != 64001 {
		t.Errorf("made: %d:%d, %v", st.Uid, st.Gid, err)
	}
}

// TestTakeRefuses defends: who cannot become the user says so and goes no further: an
// ordinary user, a root without the right to empty its bounding set, a directory that is a
// link, a binary that the user may not execute.
func TestTakeRefuses(t *testing.T) {
	needRoot(t)
	dir := owned(t)
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	closed, public := filepath.Join(dir, "closed"), filepath.Join(dir, "public")
	if err := errors.Join(os.WriteFile(closed, exe, 0o700), os.WriteFile(public, exe, 0o755)); err != nil {
		t.Fatal(err)
	}
	wrapped := func(words ...string) func(*exec.Cmd) {
		return func(c *exec.Cmd) { c.Path, c.Args = words[0], append(append([]string{}, words...), c.Args...) }
	}
	for _, tc := range []struct {
		name   string
		change func(*exec.Cmd)
		own    string
		says   string
	}{
		{"an ordinary user", func(c *exec.Cmd) {
			c.Path, c.SysProcAttr = public, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1001, Gid: 1001}}
		}, dir, "Uid is"},
		{"the user itself, with groups", func(c *exec.Cmd) {
			c.Path, c.SysProcAttr = public, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64000, Gid: 64001, Groups: []uint32{7}}}
		}, dir, "is"},
		{"no SETPCAP", wrapped("/usr/bin/setpriv", "--bounding-set=-setpcap", "--inh-caps=-all"), dir, "bounding set"},
		{"a link", nil, link, "own"},
		{"a closed binary", func(c *exec.Cmd) { c.Path = closed }, dir, "may not execute the guest binary"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := run(t, tc.change, arg, "64000:64001", tc.own)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(out, "drop to 64000:64001: ") || !strings.Contains(out, tc.says) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	var st unix.Stat_t
	if err := unix.Stat("/etc", &st); err != nil || st.Uid != 0 {
		t.Errorf("/etc: %d, %v", st.Uid, err)
	}
}
