package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/config"
	"github.com/berth-dev/berth/spec"
)

const sigpipe spec.Signal = 13

// commandFlags are the flags of the verbs that run a command.
type commandFlags struct {
	env     []string
	dir     string
	noStdin bool
	clean   bool
}

func (f *commandFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.env, "env", "e", nil, "`NAME=VALUE` for the command's environment, or NAME to take the value from ours; repeatable")
	flags.StringVar(&f.dir, "cwd", "", "`DIR` of the command, relative to the sandbox's workdir")
	flags.BoolVarP(&f.noStdin, "no-stdin", "n", false, "give the command an empty input instead of ours")
	flags.BoolVar(&f.clean, "clean-env", false, "give the command nothing but --env for an environment")
	addSettings(flags, "timeout")
}

// command builds the command that args and flags ask for.
func (f *commandFlags) command(c *config.Config, args []string) (*berth.Command, error) {
	env, err := environment(c, f.env)
	if err != nil {
		return nil, err
	}
	return &berth.Command{Args: args, Dir: f.dir, Env: env, CleanEnv: f.clean, Timeout: c.Timeout}, nil
}

// environment reads --env flags: NAME=VALUE, or NAME for the value that we have.
func environment(c *config.Config, entries []string) (map[string]string, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	env := make(map[string]string, len(entries))
	for _, entry := range entries {
		name, value, given := strings.Cut(entry, "=")
		if !given {
			var ok bool
			if value, ok = c.Lookup(name); !ok {
				return nil, usageError("--env %s: there is no such variable here to take the value from", name)
			}
		}
		env[name] = value
	}
	return env, spec.ValidateEnv(env)
}

// outcome is what became of a command, as JSON has it.
type outcome struct {
	ExitCode      int               `json:"exit_code"`
	Signal        int               `json:"signal"`
	TimedOut      bool              `json:"timed_out"`
	OOM           bool              `json:"oom"`
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
	Sandbox       map[string]string `json:"sandbox"`
}

// execute runs one command in a sandbox with our streams and signals, and reports
// what became of it. The error is a status where the command ran.
func (a *app) execute(cmd *cobra.Command, sb *berth.Sandbox, c *berth.Command, noStdin bool) error {
	ctx := cmd.Context()
	stdio := berth.Stdio{Stdin: a.stdin}
	if noStdin {
		stdio.Stdin = nil
	}
	broken := make(chan struct{})
	var once sync.Once
	through := func(w io.Writer) *passThrough {
		return &passThrough{w: w, failed: func() { once.Do(func() { close(broken) }) }}
	}
	stdout, stderr := through(a.stdout), through(a.stderr)
	outCapture, errCapture := &capture{limit: berth.DefaultMaxOutputBytes}, &capture{limit: berth.DefaultMaxOutputBytes}
	if stdio.Stdout, stdio.Stderr = stdout, stderr; a.json {
		stdio.Stdout, stdio.Stderr = outCapture, errCapture
	}
	a.signals.hold()
	defer a.signals.forwardTo(nil)
	p, err := sb.Start(ctx, c, stdio)
	if err != nil {
		return explainStart(err, c.Args[0])
	}
	a.signals.forwardTo(p)
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() { endWhenBroken(p, broken, ended) })
	exit, err := p.Wait(ctx)
	close(ended)
	waiting.Wait()
	if err != nil {
		return err
	}
	if a.json {
		if err := a.print(newOutcome(sb, exit, outCapture, errCapture)); err != nil {
			return err
		}
	} else {
		a.remark(cmd, c, exit)
	}
	for _, w := range []*passThrough{stdout, stderr} {
		if w.err != nil && !errors.Is(w.err, syscall.EPIPE) {
			return &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("writing the command's output: %w", w.err), Hint: "what the command wrote after that is lost"}
		}
	}
	return exitOf(exit)
}

// exitOf turns a result into an exit status.
func exitOf(exit spec.Exit) error {
	switch {
	case exit.TimedOut:
		return status(statusTimedOut)
	case exit.Code == 0:
		return nil
	default:
		return status(exit.Code)
	}
}

// explainStart adds what people most often did wrong.
func explainStart(err error, program string) error {
	if spec.CodeOf(err) != spec.CodeStartFailed || spec.HintOf(err) != "" {
		return err
	}
	e := spec.Wrap(err, "", "", "", "").(*spec.Error)
	e.Hint = "the program is looked up inside the sandbox, on the PATH there"
	if strings.ContainsAny(program, " |&;<>$") {
		e.Hint = "for a shell's command line write: sh -c '" + strings.ReplaceAll(program, "'", `'\''`) + "'"
	}
	return e
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
	if exit.TimedOut {
		a.note("%s: timed out after %v; --timeout DURATION allows more, --timeout 0 any time", cmd.Name(), c.Timeout)
	}
	if exit.OOM {
		a.note("%s: the sandbox's memory limit killed part of the command", cmd.Name())
	}
	for _, s := range exit.Survivors {
		a.note("%s: process %d (%s) outlived the end of the command", cmd.Name(), s.PID, s.Name)
	}
	a.detail("%s: %v after %s, %d bytes of output", cmd.Name(), exit, short(exit.Duration), exit.StdoutBytes+exit.StderrBytes)
}

func newOutcome(sb *berth.Sandbox, exit spec.Exit, stdout, stderr *capture) outcome {
	o := outcome{
		ExitCode: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut, OOM: exit.OOM,
		DurationMS: exit.Duration.Milliseconds(), Kill: exit.Kill, Survivors: exit.Survivors,
		UserMS: exit.UserTime.Milliseconds(), SystemMS: exit.SystemTime.Milliseconds(), MaxRSSBytes: exit.MaxRSSBytes,
		Sandbox: map[string]string{"id": sb.ID(), "key": string(sb.Key())},
	}
	var data []byte
	data, o.StdoutOmitted = stdout.bytes()
	o.Stdout, o.StdoutB64 = textOrBase64(data)
	data, o.StderrOmitted = stderr.bytes()
	o.Stderr, o.StderrB64 = textOrBase64(data)
	o.Truncated = o.StdoutOmitted > 0 || o.StderrOmitted > 0
	return o
}

// textOrBase64 gives bytes the form in which JSON keeps them whole.
func textOrBase64(data []byte) (text, b64 *string) {
	if utf8.Valid(data) {
		s := string(data)
		return &s, nil
	}
	s := base64.StdEncoding.EncodeToString(data)
	return nil, &s
}

// passThrough hands bytes on until that fails. From then on it takes and drops them,
// so that the command can be ended and its result be had.
type passThrough struct {
	w      io.Writer
	failed func()
	err    error // read it after the command has ended
}

func (p *passThrough) Write(b []byte) (int, error) {
	if p.err == nil {
		if _, p.err = p.w.Write(b); p.err != nil {
			p.failed()
		}
	}
	return len(b), nil
}
