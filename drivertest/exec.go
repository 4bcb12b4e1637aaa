package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// execCases are about what a command is given and what is told of its end.
func execCases() []Case {
	return []Case{
		{Name: "ExecCapturesBothStreams", Rule: "stdout and stderr are separate and byte-exact.", Need: needShell, Run: execBothStreams},
		{Name: "ExecReportsExitCodes", Rule: "A command's exit status is a result, whatever it is; no status means a timeout.", Need: needShell, Run: execExitCodes},
		{Name: "ExecReportsSignals", Rule: "Exit of a signalled process: Signal set, Code 128+n.", Need: needShell, Run: execSignals},
		{Name: "ExecIsArgvNotShell", Rule: "argv is the base: no shell expands, splits or drops anything.", Need: needCoreutils, Run: execArgv},
		{Name: "ExecKeepsEveryArgument", Rule: "Arguments arrive byte for byte: empty ones, newlines and what is not UTF-8 too.", Need: needShell, Run: execArgs},
		{Name: "ExecMissingProgram", Rule: "A program that is absent is start_failed, caused by fs.ErrNotExist, at once.", Run: execMissing},
		{Name: "ExecNotExecutable", Rule: "A program that is not executable is start_failed, caused by fs.ErrPermission.", Run: execNotExecutable},
		{Name: "ExecRunsWhatWasWritten", Rule: "A file that was written with an executable mode runs; one that is no program is start_failed.", Need: needShell, Run: execWritten},
		{Name: "ExecRefusesNonsense", Rule: "A request that makes no sense is refused with invalid before anything runs.", Run: execNonsense},
		{Name: "ExecManyAtOnce", Rule: "Fast commands lose nothing: the result of a command of 1 ms is as whole as any.", Need: needCoreutils, Run: execMany},
		{Name: "ExecResetsSignals", Rule: "Signal dispositions and mask of a command are reset.", Need: needCoreutils, Run: execDispositions},
		{Name: "ExecDiesOfSIGPIPE", Rule: "A pipeline whose reader ends is ended by SIGPIPE.", Need: needShell, Run: execSIGPIPE},
		{Name: "ExecInheritsNoDescriptors", Rule: "Every descriptor above 2 is closed.", Need: needShell, Run: execDescriptors},
		{Name: "ExecTellsTheOutputLive", Rule: "OnOutput is called with the output as it comes, never concurrently and with all of it; the capped result is the same with and without.", Need: needShell, Run: execOnOutput},
		{Name: "ExecTellsItsCosts", Rule: "The result says what the command used: CPU time, and the most memory that a process of it held.", Need: needShell, Run: execCosts},
		{Name: "ExecCountsOutput", Rule: "Exit counts what the command wrote to its caller, whether or not it was kept.", Need: needCoreutils, Run: execCounts},
		{Name: "WaitAnswersTheSame", Rule: "Wait may be called again and from several goroutines, and answers the same.", Need: needShell, Run: execWaitAgain},
		{Name: "ExecAThousandTimes", Rule: "A place does not tire: the thousandth command is like the first.", Need: needCoreutils, Soak: true, Run: execThousand},
	}
}

func execBothStreams(ctx context.Context, t T, e *Env) {
	r := e.Sh(ctx, t, "echo out; echo err >&2")
	wantText(t, "stdout", r.Stdout, "out\n")
	wantText(t, "stderr", r.Stderr, "err\n")
	if !r.Success() || r.Truncated {
		t.Errorf("exit code %d, timed out %v, truncated %v; want a success, whole", r.ExitCode, r.TimedOut, r.Truncated)
	}
}

func execExitCodes(ctx context.Context, t T, e *Env) {
	for _, code := range []int{0, 1, 2, 7, 42, 124, 125, 126, 127, 128, 137, 143, 254, 255} {
		r := e.Exec(ctx, t, berth.Shell(fmt.Sprintf("exit %d", code)), berth.ExecOptions{Timeout: time.Minute})
		if r.ExitCode != code || r.Signal != 0 || r.TimedOut {
			t.Errorf("exit %d: code %d, signal %d, timed out %v", code, r.ExitCode, r.Signal, r.TimedOut)
		}
	}
}

func execSignals(ctx context.Context, t T, e *Env) {
	for _, sig := range []int{1, 2, 6, 9, 10, 13, 15, 34} {
		r := e.Exec(ctx, t, berth.Shell(fmt.Sprintf("kill -%d $$; echo survived", sig)), berth.ExecOptions{Timeout: time.Minute})
		if r.ExitCode != 128+sig || r.Signal != sig || r.TimedOut {
			t.Errorf("kill -%d $$: code %d, signal %d, timed out %v, stdout %q", sig, r.ExitCode, r.Signal, r.TimedOut, r.Stdout)
		}
	}
}

func execArgv(ctx context.Context, t T, e *Env) {
	args := []string{"$HOME", "*", ";", "&&", "a  b", `'"`, "`id`", "$(id)", "~", ">x", "#", "\\"}
	r := e.Exec(ctx, t, append([]string{"echo"}, args...), berth.ExecOptions{})
	wantText(t, "stdout", r.Stdout, strings.Join(args, " ")+"\n")
}

func execArgs(ctx context.Context, t T, e *Env) {
	args := []string{"", "a\nb", "\xff\xfe\x01", " ", "--", "ü", "", "\t"}
	argv := append([]string{"/bin/sh", "-c", `for a in "$@"; do echo "<$a>"; done`, "sh"}, args...)
	r := e.Exec(ctx, t, argv, berth.ExecOptions{})
	var want strings.Builder
	for _, a := range args {
		want.WriteString("<" + a + ">\n")
	}
	wantText(t, "stdout", r.Stdout, want.String())
}

func execMissing(ctx context.Context, t T, e *Env) {
	for _, program := range []string{"/nonexistent/program", "berth-no-such-program", "./no-such-program"} {
		start := time.Now()
		_, err := e.Sandbox.Exec(ctx, []string{program}, berth.ExecOptions{})
		wantError(t, program, err, spec.ErrStartFailed, fs.ErrNotExist)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: the answer took %v", program, took)
		}
	}
}

func execNotExecutable(ctx context.Context, t T, e *Env) {
	name := e.file("plain")
	e.write(ctx, t, name, []byte("#!/bin/sh\necho ran\n"), files.WriteOptions{Mode: 0o644})
	dir := e.file("dir")
	if err := e.Sandbox.Files().Mkdir(ctx, dir, files.MkdirOptions{}); err != nil {
		t.Fatalf("mkdir: %v", err)
	}
	for _, program := range []string{"./" + name, "./" + dir} {
		_, err := e.Sandbox.Exec(ctx, []string{program}, berth.ExecOptions{})
		wantError(t, program, err, spec.ErrStartFailed, fs.ErrPermission)
	}
}

func execWritten(ctx context.Context, t T, e *Env) {
	script, garbage := e.file("script"), e.file("garbage")
	e.write(ctx, t, script, []byte("#!/bin/sh\necho \"$1\"\n"), files.WriteOptions{Mode: 0o755})
	e.write(ctx, t, garbage, []byte("\x01\x02 no program"), files.WriteOptions{Mode: 0o755})
	r := e.Exec(ctx, t, []string{"./" + script, "it runs"}, berth.ExecOptions{})
	wantText(t, "stdout", r.Stdout, "it runs\n")
	_, err := e.Sandbox.Exec(ctx, []string{"./" + garbage}, berth.ExecOptions{})
	wantError(t, "a file that is no program", err, spec.ErrStartFailed)
}

func execNonsense(ctx context.Context, t T, e *Env) {
	for name, try := range map[string]func() error{
		"no arguments":     func() error { _, err := e.Sandbox.Exec(ctx, nil, berth.ExecOptions{}); return err },
		"an empty program": func() error { _, err := e.Sandbox.Exec(ctx, []string{""}, berth.ExecOptions{}); return err },
		"a NUL byte": func() error {
			_, err := e.Sandbox.Exec(ctx, []string{"echo", "a\x00b"}, berth.ExecOptions{})
			return err
		},
		"a negative timeout": func() error {
			_, err := e.Sandbox.Exec(ctx, []string{"true"}, berth.ExecOptions{Timeout: -1})
			return err
		},
		"an env name with =":  func() error { _, err := e.execEnv(ctx, "A=B", "c"); return err },
		"an empty env name":   func() error { _, err := e.execEnv(ctx, "", "c"); return err },
		"an env name like 1A": func() error { _, err := e.execEnv(ctx, "1A", "c"); return err },
		"a NUL in a value":    func() error { _, err := e.execEnv(ctx, "A", "a\x00b"); return err },
	} {
		wantError(t, name, try(), spec.ErrInvalid)
	}
}

func (e *Env) execEnv(ctx context.Context, name, value string) (*berth.Result, error) {
	return e.Sandbox.Exec(ctx, []string{"true"}, berth.ExecOptions{Env: map[string]string{name: value}})
}

func execMany(ctx context.Context, t T, e *Env) {
	const commands, atOnce = 100, 16
	errs := make(chan error, commands)
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range commands {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			text := fmt.Sprintf("this is command %d", i)
			r, err := e.Sandbox.Exec(ctx, []string{"echo", text}, e.marked(berth.ExecOptions{}))
			switch {
			case err != nil:
				errs <- err
			case string(r.Stdout) != text+"\n" || len(r.Stderr) > 0 || !r.Success():
				errs <- fmt.Errorf("command %d: stdout %q, stderr %q, code %d", i, r.Stdout, r.Stderr, r.ExitCode)
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		t.Errorf("%v", err)
	}
}

func execThousand(ctx context.Context, t T, e *Env) {
	for i := range 1000 {
		text := fmt.Sprint("turn ", i)
		r := e.Exec(ctx, t, []string{"echo", text}, berth.ExecOptions{})
		wantText(t, "stdout", r.Stdout, text+"\n")
	}
}

func execDispositions(ctx context.Context, t T, e *Env) {
	r := e.Exec(ctx, t, []string{"cat", "/proc/self/status"}, berth.ExecOptions{})
	seen := 0
	for line := range strings.Lines(string(r.Stdout)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "SigIgn" && name != "SigBlk" {
			continue
		}
		seen++
		if strings.Trim(value, "\t 0") != "" {
			t.Errorf("%s is %s; want no signal", name, strings.TrimSpace(value))
		}
	}
	if seen != 2 {
		t.Errorf("/proc/self/status has %d of SigIgn and SigBlk:\n%s%s", seen, r.Stdout, r.Stderr)
	}
}

func execSIGPIPE(ctx context.Context, t T, e *Env) {
	// The writer never looks at an error: only the signal can end it.
	script := `{ while :; do echo y || :; done; } | { read -r x; echo "$x"; }`
	r := e.Exec(ctx, t, berth.Shell(script), berth.ExecOptions{Timeout: 30 * time.Second})
	wantText(t, "stdout", r.Stdout, "y\n")
	wantText(t, "stderr", r.Stderr, "")
	if !r.Success() {
		t.Errorf("code %d, timed out %v; want a success", r.ExitCode, r.TimedOut)
	}
}

func execDescriptors(ctx context.Context, t T, e *Env) {
	// The descriptor that the glob itself uses is closed again when -e asks.
	r := e.Sh(ctx, t, `for f in /proc/$$/fd/*; do [ -e "$f" ] || [ -L "$f" ] && echo "${f##*/}"; done`)
	wantText(t, "descriptors", r.Stdout, "0\n1\n2\n")
}

func execCounts(ctx context.Context, t T, e *Env) {
	c := e.Cmd(ctx, "echo", "12345")
	c.Stdout, c.Stderr = io.Discard, io.Discard
	if err := c.Run(); err != nil {
		t.Fatalf("run: %v", err)
	}
	if c.Exit.StdoutBytes != 6 || c.Exit.StderrBytes != 0 || c.Exit.Duration <= 0 {
		t.Errorf("stdout %d bytes, stderr %d, duration %v; want 6, 0 and some time", c.Exit.StdoutBytes, c.Exit.StderrBytes, c.Exit.Duration)
	}
}

func execOnOutput(ctx context.Context, t T, e *Env) {
	goOn, told := e.file("go"), false
	script := `echo first; echo err >&2; while [ ! -e "$1" ]; do sleep 0.1; done; i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done`
	var said [3][]byte
	inside, overlapped := 0, false
	o := berth.ExecOptions{MaxOutputBytes: 1000, Timeout: long}
	o.OnOutput = func(s berth.OutputStream, p []byte) {
		overlapped = overlapped || inside != 0 // a second call at the same time is a race, too
		inside++
		said[s] = append(said[s], p...)
		if !told && bytes.HasPrefix(said[berth.Stdout], []byte("first\n")) && len(said[berth.Stderr]) > 0 {
			told = true
			if err := e.Sandbox.Files().WriteFile(ctx, goOn, nil, files.WriteOptions{}); err != nil {
				t.Errorf("write from the callback: %v", err)
			}
		}
		inside--
	}
	argv := []string{"/bin/sh", "-c", script, "sh", goOn}
	heard := e.Exec(ctx, t, argv, o)
	o.OnOutput = nil
	plain := e.Exec(ctx, t, argv, o)
	if heard.TimedOut || overlapped {
		t.Errorf("timed out %v, calls overlapped %v", heard.TimedOut, overlapped)
	}
	wantText(t, "stdout of the result", heard.Stdout, string(plain.Stdout))
	wantText(t, "stderr of the result", heard.Stderr, string(plain.Stderr))
	if heard.StdoutOmitted == 0 || heard.StdoutOmitted != plain.StdoutOmitted || int64(len(said[berth.Stdout])) != int64(len(heard.Stdout))+heard.StdoutOmitted {
		t.Errorf("%d bytes were told, %d kept, %d omitted, without a listener %d", len(said[berth.Stdout]), len(heard.Stdout), heard.StdoutOmitted, plain.StdoutOmitted)
	}
	wantText(t, "stderr as it was told", said[berth.Stderr], "err\n")
}

func execCosts(ctx context.Context, t T, e *Env) {
	r := e.Sh(ctx, t, `x=0123456789abcdef; i=0; while [ $i -lt 21 ]; do x=$x$x; i=$((i+1)); done; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; echo ${#x}`)
	const size = 16 << 21
	wantText(t, "stdout", r.Stdout, fmt.Sprintln(size))
	if r.MaxRSSBytes < size || r.MaxRSSBytes > 32*size {
		t.Errorf("it held %d bytes; want %d and some", r.MaxRSSBytes, size)
	}
	if spent := r.UserTime + r.SystemTime; r.UserTime <= 0 || r.SystemTime < 0 || spent > 4*r.Duration+time.Second {
		t.Errorf("user %v, system %v of %v", r.UserTime, r.SystemTime, r.Duration)
	}
}

func execWaitAgain(ctx context.Context, t T, e *Env) {
	p, err := e.Sandbox.Start(ctx, &spec.Command{Args: berth.Shell("exit 9")}, berth.Stdio{})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	exits := make(chan error, 4)
	for range cap(exits) {
		go func() {
			exit, err := p.Wait(ctx)
			if err == nil && exit.Code != 9 {
				err = errors.New(exit.String())
			}
			exits <- err
		}()
	}
	for range cap(exits) {
		if err := <-exits; err != nil {
			t.Errorf("wait: %v; want exit status 9", err)
		}
	}
	if exit, err := p.Wait(ctx); err != nil || exit.Code != 9 {
		t.Errorf("wait after the end: %v, %v; want exit status 9", exit, err)
	}
}
