//go:build linux

package process_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/guest/selfexec"
	"github.com/berth-dev/berth/internal/environ"
	"github.com/berth-dev/berth/internal/testutil/race"
	"github.com/berth-dev/berth/spec"
)

// The lifetimes that tests use: long enough for a slow machine, short enough to wait for.
const (
	orphanAfter  = 3 * time.Second
	resumeWindow = 3 * time.Second
)

func TestMain(m *testing.M) {
	selfexec.Main()
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case victimArg:
			os.Exit(victim(os.Args[2:]))
		case crowdArg:
			os.Exit(crowd(os.Args[2:]))
		case sharedArg:
			os.Exit(shared(os.Args[2:]))
		case wallsArg:
			os.Exit(walls(os.Args[2:]))
		case exhaustedArg:
			os.Exit(exhausted(os.Args[2:]))
		case workerArg:
			os.Exit(worker(os.Args[2:]))
		}
	}
	before := socketDirs()
	code := m.Run()
	clearSockets(before)
	os.Exit(code)
}

// options are those of a test's drivers, which all find each other's places.
func options(t *testing.T) process.Options {
	t.Helper()
	return process.Options{
		Owner: "test", StateDir: filepath.Join(t.TempDir(), "state"), BaseEnv: testEnv(),
		OrphanAfter: orphanAfter, ResumeWindow: resumeWindow,
	}
}

// testEnv keeps the race detector from sleeping for a second at the end of a guest.
func testEnv() []string { return append(environ.Base(os.Environ()), race.QuickExit) }

// levels runs a test at level none and behind guard.
func levels(t *testing.T, run func(t *testing.T, level spec.Isolation)) {
	for _, level := range []spec.Isolation{spec.IsolationNone, spec.IsolationGuard} {
		t.Run(string(level), func(t *testing.T) {
			if level == spec.IsolationGuard {
				needBwrap(t)
			}
			run(t, level)
		})
	}
}

func needBwrap(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Fatal("bubblewrap is missing: apt-get install bubblewrap")
	}
}

// atTheWall are the cases in which it may matter that there is one. The quick tier
// leaves the others to level none.
var atTheWall = regexp.MustCompile("^(Exec[CKRM]|Timeout|Cancel|Kill|Signals|Guest|Orphans|Caps|Ephemeral|Job(Ends|Runs|Is|LogIs)|Files|Root|User|Rlimits|Setup|Provision|Attach|Workdir)")

// inTheJail are those in which it may matter what exists. The quick tier leaves the others
// to guard.
var inTheJail = regexp.MustCompile("^(Exec[CR]|Caps|Files(Read|Write)|Root|Setup|Provision|Workdir)")

// TestConform runs the suite at each level, over the socket as it is and over one that
// fragments, delays and stalls.
func TestConform(t *testing.T) {
	for _, level := range []spec.Isolation{spec.IsolationNone, spec.IsolationGuard, spec.IsolationJail} {
		t.Run(string(level), func(t *testing.T) {
			if level != spec.IsolationNone {
				needBwrap(t)
			}
			for name, transport := range map[string]func(io.ReadWriteCloser) io.ReadWriteCloser{"plain": nil, "slow": drivertest.SlowStream} {
				t.Run(name, func(t *testing.T) { conform(t, level, transport) })
			}
		})
	}
}

func conform(t *testing.T, level spec.Isolation, transport func(io.ReadWriteCloser) io.ReadWriteCloser) {
	switch {
	case testing.Short() && transport != nil:
		t.Skip("the quick tier leaves the slow stream to the full one")
	case level == spec.IsolationJail && transport != nil:
		t.Skip("the stream of a jail is that of a guard")
	case level == spec.IsolationGuard && transport != nil && os.Getenv("BERTH_TEST_SOAK") == "":
		t.Skip("the stream goes through the same socket at every level: the soak tries it behind a wall too")
	}
	o := options(t)
	o.Transport = transport
	t.Run("suite", func(t *testing.T) { // it clears up when its test ends
		suite := drivertest.Options{
			Open:        func() (driver.Driver, error) { return process.New(o) },
			Spec:        spec.Spec{Isolation: level},
			OrphanAfter: orphanAfter, ResumeWindow: resumeWindow,
			Soak: os.Getenv("BERTH_TEST_SOAK") != "", Brief: level == spec.IsolationJail || transport != nil,
		}
		if testing.Short() {
			suite.Only = map[spec.Isolation]*regexp.Regexp{spec.IsolationGuard: atTheWall, spec.IsolationJail: inTheJail}[level]
		}
		drivertest.Run(t, suite)
	})
	left(t, o)
}

// Many clients use one place for an hour, at each of two levels, and nothing is lost or left.
func TestMixedWorkForAnHour(t *testing.T) {
	if os.Getenv("BERTH_TEST_SOAK") == "" {
		t.Skip("minutes of it are in the suite; the soak takes the hour")
	}
	levels(t, func(t *testing.T, level spec.Isolation) {
		t.Parallel()
		o := options(t)
		t.Run("suite", func(t *testing.T) {
			drivertest.Run(t, drivertest.Options{
				Open: func() (driver.Driver, error) { return process.New(o) }, Spec: spec.Spec{Isolation: level},
				OrphanAfter: orphanAfter, ResumeWindow: resumeWindow,
				Soak: true, Only: regexp.MustCompile("^MixedWork$"), Timeout: 2 * time.Hour, // half of it is worked
			})
		})
		left(t, o)
	})
}

// TestSuiteAsUser runs the suite behind walls once more as an ordinary user: whole in the
// soak, else behind guard the cases in which it may matter.
func TestSuiteAsUser(t *testing.T) {
	needBwrap(t)
	args := []string{"-test.run", "^TestConform$/^(guard|jail)$/^plain$", "-test.timeout", "60m"}
	if os.Getenv("BERTH_TEST_SOAK") == "" {
		args = []string{"-test.run", "^TestConform$/^guard$/^plain$", "-test.timeout", "60m", "-test.short"}
	}
	asUser(t, args...)
}

// TestGuardAsUser runs the tests of guard once more as an ordinary user.
func TestGuardAsUser(t *testing.T) {
	needBwrap(t)
	asUser(t, "-test.run", "^(TestGuard|TestWorktree)", "-test.timeout", "20m")
}

// needUser skips a test of what an ordinary user finds in the home directory behind a wall,
// where root finds nothing.
func needUser(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("TestGuardAsUser runs it")
	}
}

// asUser runs this test program once more, as an ordinary user with a home directory that
// is gone afterwards.
func asUser(t *testing.T, args ...string) {
	t.Helper()
	cmd := userCommand(t, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// testUID is the ordinary user of tests.
const testUID = 1001

// userCommand is the command of asUser.
func userCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the other tests run as an ordinary user already")
	}
	dir, err := os.MkdirTemp("/var/lib", "berth-user-") // no temporary directory: those are writable behind a wall
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "program"), program, 0o755)
	}
	home, tmp := filepath.Join(dir, "home"), filepath.Join(dir, "tmp")
	for _, own := range []string{home, tmp} {
		err = errors.Join(err, os.Mkdir(own, 0o755), os.Chown(own, testUID, testUID))
	}
	if err = errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "program"), args...)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + tmp, "USER=u", "PATH=" + os.Getenv("PATH"), "BERTH_TEST_SOAK=" + os.Getenv("BERTH_TEST_SOAK")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// left fails if anything of a place is left in the state directory.
func left(t *testing.T, o process.Options) {
	t.Helper()
	d, err := process.New(o)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left in the state directory", func() error {
		if _, err := d.Owned(t.Context()); err != nil { // sweeps
			return err
		}
		for _, pattern := range []string{"process/sb_*", "process/locks/*"} {
			if names, _ := filepath.Glob(filepath.Join(o.StateDir, pattern)); len(names) > 0 {
				return fmt.Errorf("left over: %v", names)
			}
		}
		return nil
	})
}
