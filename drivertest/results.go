package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// resultCases are about what is told of a command when its caller is in the way.
func resultCases() []Case {
	return []Case{
		{Name: "CommandKeyOutputIsCounted", Rule: "Output that is not kept for a repeated key is counted as omitted, and never told as whole.", Need: needCoreutils, Run: keyOutputCounted},
		{Name: "TimeoutIsNoSlowReader", Rule: "A command that ended in time is no timeout, however long its output waits to be taken.", Need: needShell, Run: timeoutSlowReader},
		{Name: "CancelEndsWait", Rule: "Wait ends after the context, also with Cancel set and output that nobody takes.", Need: needShell, Run: cancelEndsWait},
		{Name: "KillEndsWait", Rule: "Wait ends after a Kill although nobody reads what was written before; that can still be read.", Need: needCoreutils, Run: killEndsWait},
		{Name: "OutputWriterErrorIsTheCallers", Rule: "What a caller's writer fails with comes back as it was, beside the command's result.", Need: needShell, Run: writerErrorUnchanged},
	}
}

func keyOutputCounted(ctx context.Context, t T, e *Env) {
	const size = 3 << 20
	data, name, key := noise(size, 9), e.file("counted"), "conform-"+randomHex()
	e.write(ctx, t, name, data, files.WriteOptions{})
	for i := range 2 {
		r, err := e.Sandbox.Exec(ctx, []string{"cat", name}, e.marked(berth.ExecOptions{Key: key, MaxOutputBytes: 2 * size}))
		if i > 0 && errors.Is(err, berth.ErrTooLarge) {
			continue // that is no less honest
		}
		if err != nil {
			t.Fatalf("exec: %v", err)
		}
		if int64(len(r.Stdout))+r.StdoutOmitted != size || r.Truncated != (r.StdoutOmitted > 0) || !bytes.HasPrefix(data, r.Stdout) {
			t.Errorf("%d bytes, %d omitted, truncated %v; want them to make the %d that were written", len(r.Stdout), r.StdoutOmitted, r.Truncated, size)
		}
	}
	c := e.Cmd(ctx, "cat", name)
	c.Key = key
	if out, err := c.Output(); err == nil && len(out) != size || err != nil && spec.CodeOf(err) != spec.CodeTooLarge {
		t.Errorf("Output: %d bytes of %d, %v; want all of them, or an error that says that they are not", len(out), size, err)
	}
}

func timeoutSlowReader(ctx context.Context, t T, e *Env) {
	const size = 1_200_000 // more than is on its way, and less than a guest takes without a reader
	data, name, mark := noise(size, 10), e.file("slow"), e.file("slow-end")
	e.write(ctx, t, name, data, files.WriteOptions{})
	var got bytes.Buffer
	ended := false
	c := e.Cmd(ctx, "/bin/sh", "-c", `cat "$1"; echo >"$2"`, "sh", name, mark)
	c.Timeout, c.WaitDelay = 5*time.Second, -1
	c.Stdout = writerFunc(func(p []byte) (int, error) {
		if got.Len() == 0 {
			time.Sleep(3 * time.Second)
			_, err := e.Sandbox.Files().Stat(ctx, mark, files.StatOptions{})
			ended = err == nil
			time.Sleep(6 * time.Second) // past every deadline, the host's own too
		}
		return got.Write(p)
	})
	err := c.Run()
	if !ended { // its reader has held it up, which is what a slow one does
		if c.Exit == nil || !c.Exit.TimedOut {
			t.Errorf("%v, exit %v; want a timeout", err, c.Exit)
		}
		return
	}
	if err != nil {
		t.Fatalf("cat: %v; it ended in time", err)
	}
	wantText(t, "stdout", got.Bytes(), string(data))
}

func cancelEndsWait(ctx context.Context, t T, e *Env) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := e.Cmd(ctx, "/bin/sh", "-c", "cat /dev/zero")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	defer out.Close()
	c.Cancel, c.WaitDelay = func() error { return nil }, -1
	if err := c.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatalf("read: %v", err)
	}
	cancel()
	wantSoon(t, "wait", c.Wait, func(err error) bool { return errors.Is(err, context.Canceled) })
	e.WaitGone(context.WithoutCancel(ctx), t)
}

func killEndsWait(ctx context.Context, t T, e *Env) {
	c := e.Cmd(ctx, "cat", "/dev/zero")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	defer out.Close()
	if err := c.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatalf("read: %v", err)
	}
	if err := c.Kill(ctx); err != nil {
		t.Fatalf("kill: %v", err)
	}
	var exit *berth.ExitError
	wantSoon(t, "wait", c.Wait, func(err error) bool { return errors.As(err, &exit) && exit.Signal == int(spec.SIGKILL) })
	if n, err := io.Copy(io.Discard, out); err != nil || exit != nil && n+1 != exit.StdoutBytes {
		t.Errorf("%d bytes read after Wait, %v; want all of those that %+v says", n+1, err, exit)
	}
}

// wantSoon fails the case unless f answers as is right within half a minute.
func wantSoon(t T, what string, f func() error, right func(error) bool) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if !right(err) {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

func writerErrorUnchanged(ctx context.Context, t T, e *Env) {
	full := spec.New(spec.CodeNoSpace, "this writer is full")
	failing := writerFunc(func([]byte) (int, error) { return 0, full })
	c := e.Cmd(ctx, "/bin/sh", "-c", "echo hello")
	c.Stdout = failing
	if err := c.Run(); err != error(full) || c.Exit == nil || !c.Exit.Success() { //nolint:errorlint // the very value
		t.Errorf("a success: %v, exit %v; want the writer's own error and the exit", err, c.Exit)
	}
	c = e.Cmd(ctx, "/bin/sh", "-c", "echo hello; exit 3")
	c.Stdout = failing
	var exit *berth.ExitError
	if err := c.Run(); !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("a failure: %v; want exit status 3", err)
	}
}
