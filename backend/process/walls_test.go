//go:build linux

package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/spec"
)

// wallsArg makes the test binary a program that probes one level as whoever runs it.
const wallsArg = "berth-walls-reexec"

// ordinary is a user who is not root.
const ordinary = 1001

// promised is what a level says that it stops, in the package comments of process and
// isolate. What is not here may be stopped or not.
var promised = map[spec.Isolation][]string{
	spec.IsolationGuard: guardStops,
	spec.IsolationJail:  append([]string{"ReadHome", "ReadTmp", "ReadElsewhere", "WriteTmp"}, guardStops...),
}

var guardStops = []string{
	"ReadKeys", "ReadOtherHome",
	"WriteRoot", "WriteUsr", "WriteEtc", "WriteHome", "WriteKeys", "WriteElsewhere", "WriteHook",
	"LoopbackClosed", "OutsideClosed", "AbstractClosed", "AbstractOpened", "SocketRun", "SocketTmp", "SocketWorkdir",
	"SeeProcess", "ReadProcess", "ReadProcessMemory", "TraceProcess", "SignalProcess",
	"ReadGuest", "ReadGuestMemory", "ReplaceGuest", "TraceGuest", "EndGuest",
	"WriteSettings", "WriteSysrq", "WriteSys", "OpenDisk", "MakeDevice", "Mount", "UserNamespace", "ChangeRoot", "IoUring",
	"Privileges", "Capabilities", "Terminal", "Setuid", "LimitGuest",
}

// TestWalls defends: each level stops what it says that it stops, for root and for an
// ordinary user, and what is not stopped but reported is reported. At level none most of
// it works, so that the probes are known to be able to.
func TestWalls(t *testing.T) {
	for _, level := range []spec.Isolation{spec.IsolationNone, spec.IsolationGuard, spec.IsolationJail} {
		for _, uid := range []int{0, ordinary} {
			t.Run(fmt.Sprintf("%s/%d", level, uid), func(t *testing.T) {
				if level != spec.IsolationNone {
					needBwrap(t)
				}
				verdicts := map[string]drivertest.Verdict{}
				for _, f := range probed(t, level, uid) {
					verdicts[f.Probe] = f.Verdict
					if slices.Contains(promised[level], f.Probe) && f.Verdict == drivertest.WallOpen {
						t.Errorf("%s: %s works (%s)", f.Topic, f.What, f.Probe)
					}
				}
				want := map[string]drivertest.Verdict{"ReadWorkdir": drivertest.WallOpen, "WriteWorkdir": drivertest.WallOpen, "MakeHook": drivertest.WallReported}
				if level == spec.IsolationNone {
					want = map[string]drivertest.Verdict{}
					for _, name := range []string{"ReadKeys", "ReadHome", "WriteHome", "WriteHook", "LoopbackOpened", "AbstractOpened", "SocketTmp", "SeeProcess", "TraceProcess", "SignalProcess", "EndGuest", "Setuid", "LimitGuest"} {
						want[name] = drivertest.WallOpen
					}
				}
				for name, verdict := range want {
					if verdicts[name] != verdict {
						t.Errorf("%s is %s; want %s", name, verdicts[name], verdict)
					}
				}
			})
		}
	}
}

// probed runs the probes in a process of that user.
func probed(t *testing.T, level spec.Isolation, uid int) []drivertest.Finding {
	t.Helper()
	state, err := os.MkdirTemp("/var/lib", "berth-walls-state-")
	if err != nil {
		state = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	cmd := exec.CommandContext(within(t), mustExecutable(t), wallsArg, state, string(level))
	if uid != os.Geteuid() {
		if os.Geteuid() != 0 {
			t.Skip("only root can be another user")
		}
		cmd.Path = copied(t, mustExecutable(t), state)
		if err := os.Chown(state, uid, uid); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		cmd.Env = append(slices.DeleteFunc(testEnv(), func(e string) bool { return strings.HasPrefix(e, "HOME=") }), "HOME="+state)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var found []drivertest.Finding
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	if want := len(drivertest.Probes()); len(found) != want {
		t.Errorf("%d findings of %d probes", len(found), want)
	}
	return found
}

// copied makes a copy of a program that every user can run.
func copied(t *testing.T, program, dir string) string {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "program")
	if err := os.WriteFile(name, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// walls prints what the probes find at one level.
func walls(args []string) int {
	state, level := args[0], spec.Isolation(args[1])
	found, err := drivertest.Walls(context.Background(), drivertest.WallOptions{
		Open: func(home string) (driver.Driver, error) {
			return process.New(withHome(process.Options{Owner: "test", StateDir: filepath.Join(state, "state"), BaseEnv: testEnv()}, home))
		},
		Spec: spec.Spec{Isolation: level},
	})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
