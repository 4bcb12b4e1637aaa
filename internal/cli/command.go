package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/internal/config"
	"github.com/berth-dev/berth/spec"
)

const sigpipe spec.Signal = 13

// commandFlags are the flags of the verbs that run a command and wait for it.
type commandFlags struct {
	verb.CommandFlags
	noStdin, keepOutput bool
}

func (f *commandFlags) add(flags *pflag.FlagSet) {
	f.Add(flags)
	flags.BoolVarP(&f.noStdin, "no-stdin", "n", false, "give the command an empty input instead of ours")
	flags.BoolVar(&f.keepOutput, "keep-output", false, "keep all output in the sandbox too, to be read with \"berth jobs logs\"")
	verb.AddSettings(flags, "timeout")
}

// command builds the command that args and flags ask for.
func (f *commandFlags) command(c *config.Config, args []string) (*berth.Command, error) {
	command, err := f.Command(c, args)
	if err != nil {
		return nil, err
	}
	command.Timeout, command.KeepOutput = c.Timeout, f.keepOutput
	return command, nil
}

// outcome is what became of a command, as JSON has it.
type outcome struct {
	verb.Ending
	DurationMS    int64             `json:"duration_ms"`
	Stdout        *string           `json:"stdout,omitempty"`
	StdoutB64     *string           `json:"stdout_b64,omitempty"` // instead of stdout that is not UTF-8
	Stderr        *string           `json:"stderr,omitempty"`
	StderrB64     *string           `json:"stderr_b64,omitempty"`
	Truncated     bool              `json:"truncated"`
	StdoutOmitted int64             `json:"stdout_omitted_bytes"`
	StderrOmitted int64             `json:"stderr_omitted_bytes"`
	Kill          spec.KillOutcome  `json:"kill,omitempty"`
	Survivors     []spec.Survivor   `json:"survivors,omitempty"`
	UserMS        int64             `json:"user_ms"`
	SystemMS      int64             `json:"system_ms"`
	MaxRSSBytes   int64             `json:"max_rss_bytes"`
	LogID         string            `json:"log_id,omitempty"`
	Sandbox       map[string]string `json:"sandbox"`
}

// execute runs one command in a sandbox with our streams and signals, and reports
// what became of it. The error is a status where the command ran.
func (a *app) execute(cmd *cobra.Command, sb *berth.Sandbox, c *berth.Command, noStdin bool) error {
	ctx := cmd.Context()
	stdio := berth.Stdio{Stdin: a.Stdin}
	if noStdin {
		stdio.Stdin = nil
	}
	broken := make(chan struct{})
	var once sync.Once
	through := func(w io.Writer) *passThrough {
		return &passThrough{w: w, failed: func() { once.Do(func() { close(broken) }) }}
	}
	stdout, stderr := through(a.Stdout), through(a.Stderr)
	outCapture, errCapture := &capture{limit: berth.DefaultMaxOutputBytes}, &capture{limit: berth.DefaultMaxOutputBytes}
	if stdio.Stdout, stdio.Stderr = stdout, stderr; a.JSON {
		stdio.Stdout, stdio.Stderr = outCapture, errCapture
	}
	a.signals.hold()
	defer a.signals.forwardTo(nil)
	p, err := sb.Start(ctx, c, stdio)
	if err != nil {
		return verb.ExplainStart(err, c)
	}
	a.signals.forwardTo(p)
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() { endWhenBroken(p, broken, ended) })
	exit, left, err := a.await(ctx, p, a.outlived(ended, stdout, stderr))
	close(ended)
	waiting.Wait()
	if err != nil {
		return err
	}
	if left {
		a.Note("%s: the command has been ended; nobody reads its output, the rest of it is lost", cmd.Name())
		return exitOf(exit)
	}
	if a.JSON {
		if err := a.Print(newOutcome(sb, exit, outCapture, errCapture)); err != nil {
			return err
		}
	} else {
		a.remark(cmd, c, exit)
		if endedFromOutside(exit) && !a.signals.passedOn() && gone(ctx, sb) {
			a.Note("%s: the sandbox was ended while the command ran", cmd.Name())
		}
	}
	for _, w := range []*passThrough{stdout, stderr} {
		if w.err != nil && !errors.Is(w.err, syscall.EPIPE) {
			return &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("writing the command's output: %w", w.err), Hint: "what the command wrote after that is lost"}
		}
	}
	return exitOf(exit)
}

// await waits for a command, or until there is a status to leave with before that.
func (a *app) await(ctx context.Context, p *berth.Process, leave <-chan verb.Status) (exit spec.Exit, left bool, err error) {
	type answer struct {
		exit spec.Exit
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		exit, err := p.Wait(ctx)
		done <- answer{exit, err}
	}()
	select {
	case got := <-done:
		return got.exit, false, got.err
	case status := <-leave:
		return spec.Exit{Code: int(status)}, true, nil
	}
}

// endedFromOutside reports whether a command died of what ends a sandbox.
func endedFromOutside(exit spec.Exit) bool {
	return !exit.TimedOut && exit.OOM == nil && (exit.Signal == int(spec.SIGTERM) || exit.Signal == int(spec.SIGKILL))
}

// gone reports whether a sandbox ends in these moments: its guest does so after its
// commands.
func gone(ctx context.Context, sb *berth.Sandbox) bool {
	const patience, pause = 500 * time.Millisecond, 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if code := spec.CodeOf(sb.Ping(ctx)); code == spec.CodeNotFound || code == spec.CodeUnavailable {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// exitOf turns a result into an exit status.
func exitOf(exit spec.Exit) error {
	switch {
	case exit.TimedOut:
		return verb.Status(verb.StatusTimedOut)
	case exit.Code == 0:
		return nil
	default:
		return verb.Status(exit.Code)
	}
}

// endWhenBroken ends a command whose output nobody takes any more, as a pipe would
// have done.
func endWhenBroken(p target, broken, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-broken:
	}
	ctx, cancel := context.WithTimeout(context.Background(), spec.DefaultGrace+forwardTimeout)
	defer cancel()
	_ = p.Signal(ctx, sigpipe)
	select {
	case <-ended:
	case <-time.After(spec.DefaultGrace):
		_ = p.Kill(ctx)
	}
}

// remark tells a person what an exit status cannot say.
func (a *app) remark(cmd *cobra.Command, c *berth.Command, exit spec.Exit) {
	switch {
	case exit.NoOutput:
		a.Note("%s: ended after %v without output; --no-output-timeout DURATION allows more, 0 any time", cmd.Name(), c.NoOutputTimeout)
	case exit.TimedOut:
		a.Note("%s: timed out after %v; --timeout DURATION allows more, --timeout 0 any time", cmd.Name(), c.Timeout)
	}
	if exit.LogID != "" {
		a.Note("%s: the output is kept as %s", cmd.Name(), exit.LogID)
	}
	if exit.OOM != nil {
		a.Note("%s: the kernel killed part of the command for want of memory: %s", cmd.Name(), exit.OOM.Hint)
	}
	for _, path := range exit.HostExecutable {
		a.Note("%s: programs outside of the sandbox run or obey a file that was made in it: %s", cmd.Name(), path)
	}
	if exit.Hint != "" {
		a.Note("%s: %s", cmd.Name(), exit.Hint)
	}
	for _, s := range exit.Survivors {
		a.Note("%s: process %d (%s) outlived the end of the command", cmd.Name(), s.PID, s.Name)
	}
	a.Detail("%s: %v after %s, %d bytes of output", cmd.Name(), exit, console.Short(exit.Duration), exit.StdoutBytes+exit.StderrBytes)
}

func newOutcome(sb *berth.Sandbox, exit spec.Exit, stdout, stderr *capture) outcome {
	o := outcome{
		Ending: verb.NewEnding(exit),
		LogID:  exit.LogID, DurationMS: exit.Duration.Milliseconds(), Kill: exit.Kill, Survivors: exit.Survivors,
		UserMS: exit.UserTime.Milliseconds(), SystemMS: exit.SystemTime.Milliseconds(), MaxRSSBytes: exit.MaxRSSBytes,
		Sandbox: map[string]string{"id": sb.ID(), "key": string(sb.Key())},
	}
	var data []byte
	data, o.StdoutOmitted = stdout.bytes()
	o.Stdout, o.StdoutB64 = console.Text(data)
	data, o.StderrOmitted = stderr.bytes()
	o.Stderr, o.StderrB64 = console.Text(data)
	o.Truncated = o.StdoutOmitted > 0 || o.StderrOmitted > 0
	return o
}

// passThrough hands bytes on until that fails. From then on it takes and drops them,
// so that the command can be ended and its result be had.
type passThrough struct {
	w      io.Writer
	failed func()
	err    error        // read it after the command has ended
	since  atomic.Int64 // when the write that is under way began, as Unix nanoseconds; 0: none is
}

func (p *passThrough) Write(b []byte) (int, error) {
	if p.err == nil {
		p.since.Store(time.Now().UnixNano())
		if _, p.err = p.w.Write(b); p.err != nil {
			p.failed()
		}
		p.since.Store(0)
	}
	return len(b), nil
}

// stuck reports whether whoever reads has taken nothing for so long.
func (p *passThrough) stuck(now time.Time, long time.Duration) bool {
	since := p.since.Load()
	return since != 0 && now.UnixNano()-since > int64(long)
}
