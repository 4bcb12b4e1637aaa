//go:build linux

package confine_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/confine"
)

// A test starts its own binary under bwrap as the guest of a place, and that starts it
// again as a command, which does what is to be tested and prints what it has met.
const (
	asGuest   = "confine-guest"
	asCommand = "confine-command"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case asGuest:
			os.Exit(guest(os.Args[2:]))
		case asCommand:
			os.Exit(command(os.Args[2], os.Args[3:]))
		}
	}
	os.Exit(runTests(m))
}

// guestBinary is this program where every user can read it.
var guestBinary string

func runTests(m *testing.M) int {
	self, err := os.Executable()
	if err != nil {
		return complain(err)
	}
	dir, err := os.MkdirTemp("", "confine-test-")
	if err != nil {
		return complain(err)
	}
	defer os.RemoveAll(dir)
	guestBinary = filepath.Join(dir, "guest")
	if err := errors.Join(os.Chmod(dir, 0o755), copyFile(self, guestBinary)); err != nil {
		return complain(err)
	}
	return m.Run()
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// guest is what serve does, as far as it matters here.
func guest(args []string) int {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return complain(err)
	}
	if text := os.Getenv("NOFILE"); text != "" { // of the guest, and of its commands as well
		most, err := strconv.ParseUint(text, 10, 32)
		if err == nil {
			err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: 1024})
		}
		if err != nil {
			return complain(err)
		}
	}
	notice, err := confine.Install(confine.Options{RefuseClone3: os.Getenv("REFUSE_CLONE3") != ""})
	if err != nil {
		return complain(err)
	}
	if notice != "" {
		fmt.Println("notice:", notice)
	}
	cmd := exec.Command("/proc/self/exe", append([]string{asCommand}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return complain(err)
	}
	return 0
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// command runs a scenario.
func command(name string, args []string) int {
	run, ok := scenarios[name]
	if !ok {
		return complain(fmt.Errorf("no scenario %q", name))
	}
	if err := run(args); err != nil {
		return complain(err)
	}
	return 0
}

// place says in which sandbox a scenario runs.
type place struct {
	openNetwork bool
	uid         int // 0: as the test
	env         []string
	more        []string // arguments of bwrap
}

// places are those in which everything is to hold.
func places(t *testing.T) map[string]place {
	t.Helper()
	all := map[string]place{"closed network": {}, "open network": {openNetwork: true}}
	if os.Getuid() == 0 {
		all["ordinary user"] = place{uid: 1001}
		all["ordinary user, open network"] = place{uid: 1001, openNetwork: true}
	}
	return all
}

// run runs a scenario in a place whose writable directory is dir, and returns what it
// prints.
func (p place) run(t testing.TB, dir, scenario string, args ...string) string {
	t.Helper()
	out, err := p.try(t, dir, scenario, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", scenario, err, out)
	}
	return out
}

func (p place) try(t testing.TB, dir, scenario string, args ...string) (string, error) {
	t.Helper()
	cmd := p.command(t, dir, scenario, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (p place) command(t testing.TB, dir, scenario string, args ...string) *exec.Cmd {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("there is no bwrap")
	}
	words := []string{
		"--ro-bind", "/", "/", "--bind", dir, dir, "--dev", "/dev", "--proc", "/proc", "--ro-bind", guestBinary, "/dev/guest", "--chdir", dir,
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--disable-userns", "--cap-drop", "ALL", "--as-pid-1", "--die-with-parent",
	}
	if !p.openNetwork {
		words = append(words, "--unshare-net")
	}
	words = append(words, p.more...)
	cmd := exec.Command(bwrap, append(append(words, "--", "/dev/guest", asGuest, scenario), args...)...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.uid != 0 {
		if err := os.Chown(dir, p.uid, p.uid); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}
	}
	return cmd
}

// openDir is a directory that every user can reach, with a short name.
func openDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bc-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// name is an errno as the tests write it.
func name(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// long is a path of exactly 108 bytes in dir, the most that an address holds.
func long(dir string) string {
	return filepath.Join(dir, strings.Repeat("x", 108-len(dir)-1))
}
