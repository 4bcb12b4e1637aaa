//go:build linux

package process_test

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// hidesGuests is set, in the environment of a test program, where /proc does not show what
// does not let itself be looked at.
const hidesGuests = "BERTH_TEST_HIDEPID"

// TestHidepid defends: where /proc is mounted with hidepid, as systemd's ProtectProc does, a
// place is what it is elsewhere; see TestHidden.
func TestHidepid(t *testing.T) {
	for _, mode := range []string{"1", "2"} {
		t.Run(mode, func(t *testing.T) {
			cmd := userCommand(t, "-test.run", "^TestHidden$", "-test.v", "-test.timeout", "5m")
			user := strconv.Itoa(testUID)
			cmd.Args = append([]string{"sh", "-c", `mount -t proc -o hidepid=` + mode + ` proc /proc && exec setpriv --reuid ` + user + ` --regid ` + user + ` --clear-groups "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
			cmd.Path, cmd.Env = "/bin/sh", append(cmd.Env, hidesGuests+"="+mode)
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			out, err := cmd.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("--- PASS: TestHidden")) {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}

// TestHidden defends: a place whose guest /proc hides runs, is found and adopted, and ends
// when it is told to; one that was killed is stopped, and is started again.
func TestHidden(t *testing.T) {
	if os.Getenv(hidesGuests) == "" {
		t.Skip("TestHidepid runs it")
	}
	levels(t, func(t *testing.T, level spec.Isolation) {
		o := options(t)
		d := open(t, o)
		want := spec.Spec{Key: "k", Isolation: level}
		s := provision(t, d, want)
		must(t, s, "echo x >left")
		_, err := os.ReadFile("/proc/" + must(t, s, "echo $PPID") + "/stat")
		if level == spec.IsolationNone && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			t.Fatalf("the guest can be seen, %v: this test shows nothing", err)
		}
		state := func(want spec.State) {
			t.Helper()
			owned, err := d.Owned(within(t))
			if err != nil || len(owned) != 1 || owned[0].State != want {
				t.Fatalf("%+v, %v; want one that is %s", owned, err, want)
			}
		}
		state(spec.StateRunning)
		must(t, provision(t, d, want), "cat left")
		attached, err := d.Attach(within(t), "k", driver.AttachOptions{})
		if err != nil {
			t.Fatal(err)
		}
		must(t, attached, "cat left")
		if err := errors.Join(attached.Close(within(t)), d.(driver.Stopper).Stop(within(t), "k", driver.ReapOptions{})); err != nil {
			t.Fatal(err)
		}
		state(spec.StateStopped)
		must(t, provision(t, d, want), "cat left")
		if level == spec.IsolationNone {
			// Nobody is left to say how it went.
			if p, err := provision(t, d, want).Start(within(t), &spec.Command{Args: spec.Shell("kill -9 $PPID")}, driver.Stdio{}); err == nil {
				_, _ = p.Wait(within(t))
			}
			eventually(t, "the place is stopped", func() error {
				if owned, err := d.Owned(within(t)); err != nil || owned[0].State != spec.StateStopped {
					return errors.Join(err, errors.New("it is not"))
				}
				return nil
			})
			must(t, provision(t, d, want), "cat left")
		}
		if err := d.Reap(within(t), "k", driver.ReapOptions{}); err != nil {
			t.Fatal(err)
		}
		left(t, o)
	})
}
