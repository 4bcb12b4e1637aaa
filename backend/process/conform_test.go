//go:build linux

package process_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/guest/selfexec"
	"github.com/berth-dev/berth/internal/place"
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
		case workerArg:
			os.Exit(worker(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
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
func testEnv() []string { return append(place.BaseEnv(os.Environ()), "GORACE=atexit_sleep_ms=0") }

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

// TestConform runs the suite at both levels, over the socket as it is and over one that
// fragments, delays and stalls.
func TestConform(t *testing.T) {
	levels(t, func(t *testing.T, level spec.Isolation) {
		for name, transport := range map[string]func(io.ReadWriteCloser) io.ReadWriteCloser{"plain": nil, "slow": drivertest.SlowStream} {
			t.Run(name, func(t *testing.T) {
				if testing.Short() && transport != nil {
					t.Skip("the quick tier leaves the slow stream to the full one")
				}
				o := options(t)
				o.Transport = transport
				t.Run("suite", func(t *testing.T) { // it clears up when its test ends
					suite := drivertest.Options{
						Open:        func() (driver.Driver, error) { return process.New(o) },
						Spec:        spec.Spec{Isolation: level},
						OrphanAfter: orphanAfter, ResumeWindow: resumeWindow,
						Soak: os.Getenv("BERTH_TEST_SOAK") != "",
					}
					if testing.Short() && level == spec.IsolationGuard {
						suite.Only = atTheWall
					}
					drivertest.Run(t, suite)
				})
				left(t, o)
			})
		}
	})
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
