//go:build linux

package cli

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// berthCommand returns a command line of berth that runs in a directory of its own, and
// that directory.
func berthCommand(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("berth", args...)
	cmd.Env = home(t, dir)
	cmd.Dir = filepath.Join(dir, "work")
	if err := os.Mkdir(cmd.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nothingLeft(t, dir) })
	return cmd, cmd.Dir
}

// exitStatus of a finished command.
func statusOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	t.Fatalf("the command did not run: %v", err)
	return -1
}

// await waits until a file is there.
func await(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return
		}
	}
	t.Fatalf("%s did not come", name)
}

// "Bytes untouched both ways", more of them than any buffer holds, and the end of
// the input is passed on.
func TestBytesUntouched(t *testing.T) {
	for _, isolation := range []string{"none", "guard"} {
		t.Run(isolation, func(t *testing.T) {
			cmd, _ := berthCommand(t, "run", "--isolation", isolation, "--", "cat")
			data := make([]byte, 3<<20)
			if _, err := rand.Read(data); err != nil {
				t.Fatal(err)
			}
			copy(data, "\x00\xff\r\n\x04\x1b[2J\xc3\x28")
			cmd.Stdin = bytes.NewReader(data)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, errs.String())
			}
			if sha256.Sum256(out.Bytes()) != sha256.Sum256(data) {
				t.Errorf("%d bytes came back and are not the %d that went in", out.Len(), len(data))
			}
		})
	}
}

// "Signals forwarded": the command decides what they mean, and its status is ours.
func TestSignalsAreForwarded(t *testing.T) {
	for _, test := range []struct {
		signal syscall.Signal
		name   string
	}{
		{syscall.SIGINT, "INT"},
		{syscall.SIGTERM, "TERM"},
		{syscall.SIGHUP, "HUP"},
		{syscall.SIGQUIT, "QUIT"},
		{syscall.SIGUSR1, "USR1"},
		{syscall.SIGUSR2, "USR2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			script := "trap 'echo got " + test.name + "; exit 42' " + test.name + "; touch ready; while :; do sleep 0.05; done"
			cmd, dir := berthCommand(t, "run", "-n", "--isolation", "none", "--", "sh", "-c", script)
			var out bytes.Buffer
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, filepath.Join(dir, "ready"))
			if err := cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			if got := statusOf(t, cmd.Wait()); got != 42 {
				t.Errorf("exit status %d, want the command's 42", got)
			}
			if want := "got " + test.name + "\n"; out.String() != want {
				t.Errorf("output %q, want %q", out.String(), want)
			}
		})
	}
}

// A command that a forwarded signal kills ends with 128+n.
func TestSignalDeath(t *testing.T) {
	cmd, dir := berthCommand(t, "run", "-n", "--isolation", "none", "--", "sh", "-c", "touch ready; exec sleep 1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, filepath.Join(dir, "ready"))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := statusOf(t, cmd.Wait()); got != 128+15 {
		t.Errorf("exit status %d, want 143", got)
	}
}

// "Three interrupts within two seconds kill it", whatever it does about them.
func TestThreeInterruptsKill(t *testing.T) {
	cmd, dir := berthCommand(t, "run", "-n", "--isolation", "none", "--", "sh", "-c", "trap '' INT; touch ready; sleep 1000 & wait; wait; sleep 1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, filepath.Join(dir, "ready"))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for range 5 { // signals of one number do not queue, so one of three may be lost
		for range insistCount {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		select {
		case err := <-ended:
			if got := statusOf(t, err); got != 128+9 {
				t.Errorf("exit status %d, want 137", got)
			}
			return
		case <-time.After(5 * insistTime): // the next three are counted anew
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	t.Error("it is not killed")
}

// A client that is killed leaves nothing: its guest ends the place after it, and the
// next attach to a place with a key works.
func TestClientKilled(t *testing.T) {
	up, dir := berthCommand(t, "up", "--key", "k", "--isolation", "none")
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	again := func(args ...string) *exec.Cmd {
		cmd := exec.Command("berth", args...)
		cmd.Env, cmd.Dir = up.Env, up.Dir
		return cmd
	}
	cmd := again("exec", "-n", "--key", "k", "--", "sh", "-c", "touch ready; exec sleep 1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, filepath.Join(dir, "ready"))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	out, err := again("exec", "-n", "--key", "k", "--", "echo", "works").CombinedOutput()
	if err != nil || string(out) != "works\n" {
		t.Errorf("the next exec: %v %q", err, out)
	}
	if out, err := again("down", "--key", "k").CombinedOutput(); err != nil {
		t.Errorf("down: %v\n%s", err, out)
	}
}

// An output that nobody reads any more ends the command, as a pipe of a shell would.
func TestBrokenPipe(t *testing.T) {
	cmd, _ := berthCommand(t, "run", "-n", "--isolation", "none", "--", "yes")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if got := statusOf(t, cmd.Wait()); got != 128+13 {
		t.Errorf("exit status %d, want 141", got)
	}
	if errs.Len() > 0 {
		t.Errorf("stderr %q, want nothing", errs.String())
	}
}

// The output of a command that is too much for --json is cut in the middle and
// counted; bytes that are no text come whole.
func TestJSONOutput(t *testing.T) {
	cmd, _ := berthCommand(t, "run", "-n", "--isolation", "none", "--json", "--", "sh", "-c", `head -c 3000000 /dev/zero | tr '\0' x; printf '\377' >&2; exit 3`)
	out, err := cmd.Output()
	if got := statusOf(t, err); got != 3 {
		t.Errorf("exit status %d, want 3", got)
	}
	var o outcome
	if err := json.Unmarshal(out, &o); err != nil {
		t.Fatalf("%v in %.200q", err, out)
	}
	if o.ExitCode != 3 || o.TimedOut || o.Signal != 0 {
		t.Errorf("outcome %+v", o)
	}
	if o.Stdout == nil || len(*o.Stdout) != 1<<20 || o.StdoutOmitted != 3000000-1<<20 || !o.Truncated {
		t.Errorf("truncated %v, omitted %d", o.Truncated, o.StdoutOmitted)
	}
	if o.Stderr != nil || o.StderrB64 == nil || *o.StderrB64 != "/w==" || o.StderrOmitted != 0 {
		t.Errorf("stderr %v, base64 %v", o.Stderr, o.StderrB64)
	}
	if strings.Count(string(out), "\n") != 1 {
		t.Error("it is not one object on one line")
	}
}

// A timeout is 124, whatever the command's own status would be, and leaves nothing.
func TestTimeoutLeavesNothing(t *testing.T) {
	for _, isolation := range []string{"none", "guard"} {
		t.Run(isolation, func(t *testing.T) {
			cmd, dir := berthCommand(t, "run", "-n", "--isolation", isolation, "--timeout", "1500ms", "--", "sh", "-c", "echo first; setsid sleep 1000 & sleep 1000")
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if got := statusOf(t, err); got != 124 {
				t.Errorf("exit status %d, want 124", got)
			}
			if string(out) != "first\n" || !strings.Contains(errs.String(), "timed out after 1.5s") {
				t.Errorf("stdout %q, stderr %q", out, errs.String())
			}
			nothingLeft(t, dir)
		})
	}
}

// Each start of a sandbox and its end leave no file in the state directory.
func TestStateIsEmptied(t *testing.T) {
	cmd, dir := berthCommand(t, "run", "-n", "--isolation", "none", "--", "true")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var found []string
	state := filepath.Join(filepath.Dir(dir), "home", "state")
	_ = filepath.WalkDir(state, func(p string, d os.DirEntry, err error) error {
		if err == nil && strings.Contains(p, "sb_") {
			found = append(found, fmt.Sprint(p, " ", d.Type()))
		}
		return nil
	})
	if len(found) > 0 {
		t.Errorf("left: %v", found)
	}
}

// Whoever started berth and does not read what it prints cannot keep it from ending: a
// timeout and a TERM are obeyed.
func TestStalledReader(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want int
	}{
		"timeout": {[]string{"run", "-n", "--isolation", "none", "--timeout", "1s", "--", "sh", "-c", "touch ready; exec yes"}, 124},
		"TERM":    {[]string{"run", "-n", "--isolation", "none", "--", "sh", "-c", "touch ready; exec yes"}, 128 + 15},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, dir := berthCommand(t, test.args...)
			out, err := cmd.StdoutPipe() // which nobody reads
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, filepath.Join(dir, "ready"))
			if name == "TERM" {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			ended := make(chan *os.ProcessState, 1)
			go func() {
				state, _ := cmd.Process.Wait()
				ended <- state
			}()
			select {
			case state := <-ended:
				if state.ExitCode() != test.want {
					t.Errorf("%v, want exit status %d", state, test.want)
				}
			case <-time.After(60 * time.Second):
				t.Fatal("it does not end")
			}
			nothingLeft(t, dir)
		})
	}
}

// A sandbox that is kept does not keep what berth had inherited.
func TestKeptSandboxKeepsNoPipe(t *testing.T) {
	for _, isolation := range []string{"none", "guard"} {
		t.Run(isolation, func(t *testing.T) {
			in, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			up, _ := berthCommand(t, "up", "--isolation", isolation, "--key", "k")
			up.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, nil, out}
			err = up.Run()
			out.Close()
			if err != nil {
				t.Fatal(err)
			}
			down := exec.Command(up.Path, up.Args[1:]...)
			down.Args = []string{up.Args[0], "down", "--key", "k"}
			down.Env, down.Dir = up.Env, up.Dir
			defer func() {
				if out, err := down.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			}()
			if err := in.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if n, err := in.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("the pipe does not end: %d, %v", n, err)
			}
		})
	}
}
