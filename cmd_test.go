package berth_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/spec"
)

func provision(t *testing.T) *berth.Sandbox {
	t.Helper()
	sb, err := berth.Provision(testContext(t), newFake(), berth.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

// Run answers as os/exec does: nil, an *ExitError, or an error of the place.
func TestCmdAnswers(t *testing.T) {
	sb := provision(t)
	if err := sb.Command("true").Run(); err != nil {
		t.Errorf("true: %v", err)
	}
	_, err := sb.Command("exit3").Output()
	var exit *berth.ExitError
	if !errors.As(err, &exit) || exit.Code != 3 || string(exit.Stderr) != "it went wrong\n" || err.Error() != "exit status 3" {
		t.Errorf("exit3: %v, %+v", err, exit)
	}
	c := sb.Command("timeout")
	if err := c.Run(); !errors.As(err, &exit) || !exit.TimedOut || c.Exit == nil || !c.Exit.TimedOut {
		t.Errorf("timeout: %v; want a result", err)
	}
	c = sb.Command("lost")
	if err := c.Run(); !errors.Is(err, berth.ErrUnknownOutcome) || c.Exit != nil {
		t.Errorf("lost: %v, exit %v; want no result", err, c.Exit)
	}
	ctx, cancel := context.WithTimeout(testContext(t), 10*time.Millisecond)
	defer cancel()
	if err := sb.CommandContext(ctx, "wait").Run(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait: %v; want the context's error", err)
	}
}

// A misuse is an error and not a surprise.
func TestCmdMisuse(t *testing.T) {
	sb := provision(t)
	ctx := testContext(t)
	used := sb.Command("true")
	if err := used.Run(); err != nil {
		t.Fatal(err)
	}
	withStdout, withStdin, withStderr := sb.Command("true"), sb.Command("true"), sb.Command("true")
	withStdout.Stdout, withStdin.Stdin, withStderr.Stderr = io.Discard, strings.NewReader(""), io.Discard
	negative := sb.Command("true")
	negative.MaxCapture = -1
	for name, err := range map[string]error{
		"start twice":          used.Start(),
		"wait twice":           used.Wait(),
		"wait before start":    sb.Command("true").Wait(),
		"signal before start":  sb.Command("true").Signal(ctx, spec.SIGTERM),
		"kill before start":    sb.Command("true").Kill(ctx),
		"output with stdout":   second(withStdout.Output()),
		"combined with stderr": second(withStderr.CombinedOutput()),
		"stdin pipe twice":     second(withStdin.StdinPipe()),
		"stdout pipe twice":    second(withStdout.StdoutPipe()),
		"pipe after start":     second(used.StderrPipe()),
		"a negative capture":   second(negative.Output()),
	} {
		if !errors.Is(err, berth.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Stdout and Stderr that are one writer get one pipe, in order.
func TestCombinedOutput(t *testing.T) {
	sb := provision(t)
	out, err := sb.Command("both").CombinedOutput()
	if err != nil || string(out) != "o0 e0 o1 e1 o2 e2 o3 e3 o4 e4 " {
		t.Errorf("%q, %v", out, err)
	}
	c := sb.Command("both")
	r, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	out, err = io.ReadAll(r)
	if werr := c.Wait(); err != nil || werr != nil || len(out) != 30 {
		t.Errorf("%q, %v, %v", out, err, werr)
	}
	// A writer that cannot be compared is no reason to panic.
	c = sb.Command("both")
	c.Stdout, c.Stderr = incomparable{func() {}}, incomparable{func() {}}
	if err := c.Run(); err != nil {
		t.Error(err)
	}
}

type incomparable struct{ f func() }

func (incomparable) Write(p []byte) (int, error) { return len(p), nil }

// What is over the cap of Output is an error and never silently cut.
func TestOutputIsBounded(t *testing.T) {
	c := provision(t).Command("write")
	c.MaxCapture = 1000
	out, err := c.Output()
	if !errors.Is(err, berth.ErrTooLarge) || len(out) != 1000 || spec.HintOf(err) == "" {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	c = provision(t).Command("write")
	c.MaxCapture = 1 << 20
	if out, err := c.Output(); err != nil || len(out) != 1<<20 {
		t.Errorf("exactly the cap: %d bytes, %v", len(out), err)
	}
}

// StdinPipe and StdoutPipe stream both ways, and the end of input is seen.
func TestPipes(t *testing.T) {
	c := provision(t).Command("cat")
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("all of it "), 30_000)
	go func() {
		_, _ = in.Write(data)
		in.Close()
	}()
	got, err := io.ReadAll(out)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes of %d, %v", len(got), len(data), err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// What was written and not yet read when the command ended can still be read.
func TestPipeOutlivesWait(t *testing.T) {
	c := provision(t).Command("both")
	out, err := c.StdoutPipe()
	if err := errors.Join(err, c.Run()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(out); err != nil || string(got) != "o0 o1 o2 o3 o4 " {
		t.Errorf("%q, %v", got, err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if _, err := out.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
}

// A reader that leaves does not make Wait fail: the exit is what counts.
func TestPipeReaderLeaves(t *testing.T) {
	c := provision(t).Command("write")
	out, err := c.StdoutPipe()
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	var exit *berth.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.Signal != 13 {
		t.Errorf("%v; want the command's own end", err)
	}
}

// The output of a command whose place was lost never looks whole.
func TestPipeOfALostPlace(t *testing.T) {
	c := provision(t).Command("lost")
	out, err := c.StdoutPipe()
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(out); !errors.Is(err, berth.ErrUnknownOutcome) || string(got) != "half" {
		t.Errorf("%q, %v", got, err)
	}
	_ = c.Wait()
}

// A command that does not read its input lets go of who writes it.
func TestStdinPipeOfACommandThatEnded(t *testing.T) {
	c := provision(t).Command("true")
	in, err := c.StdinPipe()
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "nobody reads this"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write: %v", err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// Cancel replaces the default ending; KILL follows WaitDelay later.
func TestCancel(t *testing.T) {
	for name, try := range map[string]struct {
		cancel func(c *berth.Cmd) error
		want   error
		code   int
	}{
		"a signal of one's own": {func(c *berth.Cmd) error { return c.Signal(context.Background(), 15) }, context.Canceled, 15},
		"too weak":              {func(*berth.Cmd) error { return nil }, context.Canceled, 137},
		"already done":          {func(c *berth.Cmd) error { _ = c.Signal(context.Background(), 7); return os.ErrProcessDone }, nil, 7},
		"an error":              {func(c *berth.Cmd) error { _ = c.Signal(context.Background(), 7); return errWritten }, errWritten, 7},
	} {
		ctx, cancel := context.WithCancel(testContext(t))
		c := provision(t).CommandContext(ctx, "wait")
		c.WaitDelay = 20 * time.Millisecond
		c.Cancel = func() error { return try.cancel(c) }
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		cancel()
		err := c.Wait()
		var exit *berth.ExitError
		if try.want == nil && (!errors.As(err, &exit) || exit.Code != try.code) {
			t.Errorf("%s: %v", name, err)
		}
		if try.want != nil && !errors.Is(err, try.want) {
			t.Errorf("%s: %v, want %v", name, err, try.want)
		}
		if c.Exit == nil || c.Exit.Code != try.code {
			t.Errorf("%s: exit %v, want code %d", name, c.Exit, try.code)
		}
	}
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	c := provision(t).CommandContext(ctx, "true")
	c.Cancel = func() error { t.Error("Cancel of a command that never started"); return nil }
	if err := c.Run(); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that had ended: %v", err)
	}
}

// Entries of Env are "NAME=value"; the last of a name wins; values are not quoted.
func TestCmdEnv(t *testing.T) {
	sb := provision(t)
	c := sb.Command("env")
	c.Env = []string{"A=1", "B=x=y", "A=2", "C="}
	if out, err := c.Output(); err != nil || string(out) != "map[A:2 B:x=y C:]" {
		t.Errorf("%q, %v", out, err)
	}
	for _, bad := range []string{"sEcReT", "=sEcReT", "A B=sEcReT", "A=sEcReT\x00"} {
		c := sb.Command("env")
		c.Env = []string{bad}
		if err := c.Run(); !errors.Is(err, berth.ErrInvalid) || strings.Contains(err.Error(), "sEcReT") && strings.Contains(bad, "=") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Exec keeps head and tail, and a result is a result.
func TestExec(t *testing.T) {
	sb := provision(t)
	ctx := testContext(t)
	r, err := sb.Exec(ctx, []string{"write"}, berth.ExecOptions{MaxOutputBytes: 33})
	if err != nil || string(r.Stdout) != "0123456789abcdef0"+"0123456789abcdef" || !r.Truncated || r.StdoutOmitted != 1<<20-33 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = sb.Exec(ctx, []string{"write"}, berth.ExecOptions{})
	if err != nil || r.Truncated || len(r.Stdout) != berth.DefaultMaxOutputBytes || !r.Success() {
		t.Errorf("exactly the default cap: truncated %v, %v", r.Truncated, err)
	}
	r, err = sb.Exec(ctx, []string{"exit3"}, berth.ExecOptions{})
	if err != nil || r.ExitCode != 3 || string(r.Stderr) != "it went wrong\n" || r.Success() {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = sb.Exec(ctx, []string{"timeout"}, berth.ExecOptions{})
	if err != nil || !r.TimedOut || r.Success() {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := sb.Exec(ctx, []string{"true"}, berth.ExecOptions{MaxOutputBytes: -1}); !errors.Is(err, berth.ErrInvalid) {
		t.Errorf("a negative cap: %v", err)
	}
	if r, err := sb.Exec(ctx, []string{"lost"}, berth.ExecOptions{}); !errors.Is(err, berth.ErrUnknownOutcome) || r != nil {
		t.Errorf("lost: %v, %v", r, err)
	}
}
