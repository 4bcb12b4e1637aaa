package berth_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// odd is a driver whose commands are one function.
type odd struct {
	*fake
	start func(ctx context.Context, c *spec.Command, stdio driver.Stdio) driver.Process
}

func (o odd) Provision(context.Context, *spec.Spec, driver.ProvisionOptions) (driver.Session, error) {
	return oddSession{o.open(), o}, nil
}

type oddSession struct {
	*fakeSession
	o odd
}

func (s oddSession) Start(ctx context.Context, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
	return s.o.start(ctx, c, stdio), nil
}

// oddProcess is a command whose Wait is a function.
type oddProcess struct {
	wait   func() (spec.Exit, error)
	killed chan struct{} // closed by Kill; nil: it is not to be killed
}

func (p *oddProcess) ID() string                                { return "p1" }
func (p *oddProcess) Signal(context.Context, spec.Signal) error { return nil }

func (p *oddProcess) Kill(context.Context) error {
	close(p.killed)
	return nil
}

func (p *oddProcess) Wait(context.Context) (spec.Exit, error) { return p.wait() }

func provisionOdd(t *testing.T, start func(ctx context.Context, c *spec.Command, stdio driver.Stdio) driver.Process) *berth.Sandbox {
	t.Helper()
	sb, err := berth.Provision(testContext(t), odd{newFake(), start}, berth.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

// kept is a place that has kept three bytes of each stream of which the command wrote more.
func kept(t *testing.T, exit spec.Exit) *berth.Sandbox {
	return provisionOdd(t, func(_ context.Context, _ *spec.Command, stdio driver.Stdio) driver.Process {
		return &oddProcess{wait: func() (spec.Exit, error) {
			_, err1 := io.WriteString(stdio.Stdout, "abc")
			_, err2 := io.WriteString(stdio.Stderr, "xyz")
			return exit, errors.Join(err1, err2)
		}}
	})
}

// Output that the place has not kept for a repeated key is never told as whole.
func TestKeptOutputIsNotWhole(t *testing.T) {
	r, err := kept(t, spec.Exit{StdoutBytes: 10, StderrBytes: 3}).Exec(testContext(t), []string{"x"}, berth.ExecOptions{Key: "k"})
	if err != nil || string(r.Stdout) != "abc" || r.StdoutOmitted != 7 || r.StderrOmitted != 0 || !r.Truncated || !r.Success() {
		t.Errorf("Exec: %+v, %v; want 7 bytes omitted", r, err)
	}
	r, err = kept(t, spec.Exit{StdoutBytes: 10, StderrBytes: 7}).Exec(testContext(t), []string{"x"}, berth.ExecOptions{Key: "k", MaxOutputBytes: 2})
	if err != nil || string(r.Stdout) != "ac" || r.StdoutOmitted != 8 || r.StderrOmitted != 5 || !r.Truncated {
		t.Errorf("Exec with a cap: %+v, %v; want 8 and 5 bytes omitted", r, err)
	}
	r, err = kept(t, spec.Exit{StdoutBytes: 3, StderrBytes: 3}).Exec(testContext(t), []string{"x"}, berth.ExecOptions{Key: "k"})
	if err != nil || r.Truncated || r.StdoutOmitted != 0 {
		t.Errorf("Exec of what was kept whole: %+v, %v", r, err)
	}

	c := kept(t, spec.Exit{StdoutBytes: 10, StderrBytes: 3}).Command("x")
	c.Key = "k"
	if out, err := c.Output(); !errors.Is(err, berth.ErrTooLarge) || string(out) != "abc" || spec.HintOf(err) == "" {
		t.Errorf("Output: %q, %v; want an error that says so", out, err)
	}
	c = kept(t, spec.Exit{Code: 3, StdoutBytes: 3, StderrBytes: 10}).Command("x")
	c.Key = "k"
	var exit *berth.ExitError
	if out, err := c.Output(); !errors.As(err, &exit) || string(out) != "abc" || !strings.Contains(string(exit.Stderr), "omitting 7 bytes") {
		t.Errorf("Output of a failure: %q, %v", out, err)
	}
}

// What a caller's own reader or writer fails with is the caller's error, unchanged, and the
// command's result is known beside it; an error of the place stays one.
func TestOwnErrorsAreNoneOfThePlace(t *testing.T) {
	boom := spec.New(spec.CodeUnavailable, "another place's error")
	// An end that fails: the process copies as a driver does.
	failing := func(exit spec.Exit) *berth.Sandbox {
		return provisionOdd(t, func(_ context.Context, _ *spec.Command, stdio driver.Stdio) driver.Process {
			return &oddProcess{wait: func() (spec.Exit, error) {
				if stdio.Stdin != nil {
					_, err := io.ReadAll(stdio.Stdin)
					return exit, err
				}
				_, err := stdio.Stdout.Write([]byte("abc"))
				return exit, err
			}}
		})
	}
	ctx := testContext(t)
	r, err := failing(spec.Exit{Code: 3}).Exec(ctx, []string{"x"}, berth.ExecOptions{Stdin: io.MultiReader(strings.NewReader("some"), failingEnd{boom})})
	if err != error(boom) || r == nil || r.ExitCode != 3 { //nolint:errorlint // the very value
		t.Errorf("Exec: %+v, %v; want the result and the reader's error", r, err)
	}
	p, err := failing(spec.Exit{Code: 3}).Start(ctx, &berth.Command{Args: []string{"x"}}, berth.Stdio{Stdout: failingEnd{boom}})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.Wait(ctx); err != error(boom) || e.Code != 3 { //nolint:errorlint // the very value
		t.Errorf("Process: %+v, %v; want the exit and the writer's error", e, err)
	}
	for name, tt := range map[string]struct {
		w    io.Writer
		code int
		want error
	}{
		"a success":       {failingEnd{boom}, 0, boom},
		"a failure":       {failingEnd{boom}, 3, nil},
		"a short write":   {shortEnd{}, 0, io.ErrShortWrite},
		"nothing is lost": {io.Discard, 0, nil},
	} {
		c := failing(spec.Exit{Code: tt.code}).Command("x")
		c.Stdout = tt.w
		err := c.Run()
		var exit *berth.ExitError
		if failed := errors.As(err, &exit); failed != (tt.code != 0) || !failed && err != tt.want { //nolint:errorlint // the very value
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if c.Exit == nil || c.Exit.Code != tt.code {
			t.Errorf("%s: exit %v, want code %d", name, c.Exit, tt.code)
		}
	}
	if r, err := provision(t).Exec(ctx, []string{"lost"}, berth.ExecOptions{}); !errors.Is(err, berth.ErrUnknownOutcome) || r != nil {
		t.Errorf("a lost place: %v, %v", r, err)
	}
}

type failingEnd struct{ err error }

func (f failingEnd) Read([]byte) (int, error)  { return 0, f.err }
func (f failingEnd) Write([]byte) (int, error) { return 0, f.err }

type shortEnd struct{}

func (shortEnd) Write(p []byte) (int, error) { return len(p) - 1, nil }

// Wait ends after the context, also where Cancel is set and nobody takes the output of a
// command that was killed for it.
func TestCancelledWaitEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		cancel error
		kills  bool
	}{"": {nil, true}, "already done": {os.ErrProcessDone, false}} {
		t.Run(name, func(t *testing.T) {
			killed := make(chan struct{})
			sb := provisionOdd(t, func(ctx context.Context, _ *spec.Command, _ driver.Stdio) driver.Process {
				return &oddProcess{killed: killed, wait: func() (spec.Exit, error) {
					<-ctx.Done() // no exit comes before its output is taken
					return spec.Exit{}, ctx.Err()
				}}
			})
			ctx, cancel := context.WithCancel(testContext(t))
			c := sb.CommandContext(ctx, "x")
			c.Cancel, c.WaitDelay = func() error { return tt.cancel }, -1
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			cancel()
			done := make(chan error, 1)
			go func() { done <- c.Wait() }()
			select {
			case err := <-done:
				if !errors.Is(err, context.Canceled) || c.Exit != nil {
					t.Errorf("%v, exit %v; want the context's error", err, c.Exit)
				}
			case <-time.After(15 * time.Second):
				t.Fatal("Wait hangs")
			}
			select {
			case <-killed:
				if !tt.kills {
					t.Error("a command that is over was killed")
				}
			default:
				if tt.kills {
					t.Error("it was not killed")
				}
			}
		})
	}
}

// Wait ends after a Kill although nobody reads the pipe of what was written before, and all
// of that can still be read.
func TestKilledWaitEnds(t *testing.T) {
	const size = 1 << 20
	want := make([]byte, size)
	for i := range want {
		want[i] = byte(i / 256 * i)
	}
	killed := make(chan struct{})
	sb := provisionOdd(t, func(_ context.Context, _ *spec.Command, stdio driver.Stdio) driver.Process {
		return &oddProcess{killed: killed, wait: func() (spec.Exit, error) {
			for rest := want; len(rest) > 0; rest = rest[min(1000, len(rest)):] {
				if _, err := stdio.Stdout.Write(rest[:min(1000, len(rest))]); err != nil {
					return spec.Exit{}, err
				}
			}
			<-killed
			return spec.Exit{Code: 137, Signal: 9}, nil
		}}
	})
	c := sb.Command("x")
	out, err := c.StdoutPipe()
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 12345) // so that the pipe's oldest byte is somewhere within
	if _, err := io.ReadFull(out, head); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(testContext(t)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case err := <-done:
		var exit *berth.ExitError
		if !errors.As(err, &exit) || exit.Signal != 9 {
			t.Errorf("%v; want signal 9", err)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("Wait hangs")
	}
	if rest, err := io.ReadAll(out); err != nil || !bytes.Equal(append(head, rest...), want) {
		t.Errorf("%d bytes of %d, %v", len(head)+len(rest), size, err)
	}
}
