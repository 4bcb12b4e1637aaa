package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
)

// streamCases are about the bytes that go in and come out.
func streamCases() []Case {
	return []Case{
		{Name: "OutputIsByteExact", Rule: "Output is bytes: NUL, what is not UTF-8, blank lines and a last line without newline arrive as they are.", Need: needShell, Run: outputExact},
		{Name: "OutputOf8MiBIsWhole", Rule: "No output is lost, however long it is or soon the command ends.", Need: needCoreutils, Run: output8MiB},
		{Name: "OutputOf256MiBIsWhole", Rule: "Everything that can be large is a stream.", Need: needCoreutils, Soak: true, Run: output256MiB},
		{Name: "OutputOfBothStreamsFlows", Rule: "Both streams are drained while the command runs.", Need: needShell, Run: outputBoth},
		{Name: "OutputIsCapped", Rule: "Past the cap (1 MiB a stream) head and tail are kept, the middle is counted and the rest is still drained.", Need: needCoreutils, Run: outputCapped},
		{Name: "OutputAtTheCapIsWhole", Rule: "Exactly the cap is not truncated; one byte more is.", Need: needCoreutils, Run: outputAtCap},
		{Name: "OutputMergesInOrder", Rule: "One pipe for both streams keeps the order of the command's writes.", Need: needShell, Run: outputMerged},
		{Name: "OutputWaitsForASlowReader", Rule: "A slow reader slows the command and costs no memory anywhere.", Need: needCoreutils, Run: outputBackPressure},
		{Name: "StalledReaderHoldsUpNobody", Rule: "A reader that stalls holds up its own command only.", Need: needCoreutils, Run: outputStalled},
		{Name: "OutputReachesASlowReaderWhole", Rule: "A slow reader gets every byte.", Need: needCoreutils, Run: outputSlowReader},
		{Name: "OutputWaitsForALateReader", Rule: "A reader that comes long after the command's end gets every byte.", Need: needCoreutils, Soak: true, Run: outputLateReader},
		{Name: "OutputComesAsItIsWritten", Rule: "Output arrives while the command runs.", Need: needShell, Run: outputLive},
		{Name: "WriterErrorEndsTheCopying", Rule: "A writer's error is returned by Wait once the command ended.", Need: needCoreutils, Run: outputWriterFails},
		{Name: "StdinIsEmptyUnlessGiven", Rule: "Stdin is empty and closed unless given.", Need: needCoreutils, Run: stdinEmpty},
		{Name: "StdinIsByteExact", Rule: "Stdin arrives byte for byte, then the command sees its end.", Need: needCoreutils, Run: stdinExact},
		{Name: "StdinHalfCloses", Rule: "The end of stdin reaches the command while its output goes on.", Need: needShell, Run: stdinHalfClose},
		{Name: "StdinMayBeIgnored", Rule: "A command that reads no input is not held up by it, nor by a reader that blocks.", Need: needCoreutils, Run: stdinIgnored},
	}
}

func outputExact(ctx context.Context, t T, e *Env) {
	data := append(noise(70_000, 1), "\n\n\nlast line"...)
	name := e.file("noise")
	e.write(ctx, t, name, data, files.WriteOptions{})
	r := e.Exec(ctx, t, []string{"/bin/sh", "-c", `cat "$1"; cat "$1" >&2`, "sh", name}, berth.ExecOptions{})
	wantText(t, "stdout", r.Stdout, string(data))
	wantText(t, "stderr", r.Stderr, string(data))
}

// stream runs cat on a file of size bytes and compares what comes out.
func (e *Env) stream(ctx context.Context, t T, size, times int) {
	t.Helper()
	data := noise(size, 2)
	name := e.file("large")
	e.write(ctx, t, name, data, files.WriteOptions{})
	argv := []string{"cat"}
	want := fnv.New64a()
	for range times {
		argv = append(argv, name)
		want.Write(data)
	}
	got := fnv.New64a()
	c := e.Cmd(ctx, argv...)
	c.Stdout = got
	if err := c.Run(); err != nil {
		t.Fatalf("cat: %v", err)
	}
	if n := int64(size) * int64(times); c.Exit.StdoutBytes != n || got.Sum64() != want.Sum64() {
		t.Errorf("the command wrote %d bytes, want %d; the bytes are the same: %v", c.Exit.StdoutBytes, n, got.Sum64() == want.Sum64())
	}
}

func output8MiB(ctx context.Context, t T, e *Env)   { e.stream(ctx, t, 8<<20, 1) }
func output256MiB(ctx context.Context, t T, e *Env) { e.stream(ctx, t, 8<<20, 32) }

func outputBoth(ctx context.Context, t T, e *Env) {
	data := noise(600_000, 3)
	name := e.file("both")
	e.write(ctx, t, name, data, files.WriteOptions{})
	r := e.Exec(ctx, t, []string{"/bin/sh", "-c", `cat "$1" >&2 & cat "$1"; wait`, "sh", name}, berth.ExecOptions{Timeout: time.Minute})
	if r.TimedOut || sum(r.Stdout) != sum(data) || sum(r.Stderr) != sum(data) {
		t.Errorf("timed out %v, stdout %d bytes, stderr %d; want both whole with %d", r.TimedOut, len(r.Stdout), len(r.Stderr), len(data))
	}
}

func outputCapped(ctx context.Context, t T, e *Env) {
	const size, limit = 1_400_000, berth.DefaultMaxOutputBytes
	data := noise(size, 4)
	name := e.file("capped")
	e.write(ctx, t, name, data, files.WriteOptions{})
	r := e.Exec(ctx, t, []string{"cat", name, "/nonexistent"}, berth.ExecOptions{})
	want := append(bytes.Clone(data[:limit/2]), data[size-limit/2:]...)
	wantText(t, "stdout", r.Stdout, string(want))
	if !r.Truncated || r.StdoutOmitted != size-limit || r.StderrOmitted != 0 {
		t.Errorf("truncated %v, omitted %d and %d; want true, %d and 0", r.Truncated, r.StdoutOmitted, r.StderrOmitted, size-limit)
	}
	if r.ExitCode != 1 || !strings.Contains(string(r.Stderr), "/nonexistent") {
		t.Errorf("code %d, stderr %q; want 1 and cat's complaint, untouched by the flood", r.ExitCode, r.Stderr)
	}
}

func outputAtCap(ctx context.Context, t T, e *Env) {
	const limit = 10_001
	for _, size := range []int{limit - 1, limit, limit + 1} {
		data := noise(size, 5)
		r := e.Exec(ctx, t, []string{"cat"}, berth.ExecOptions{Stdin: bytes.NewReader(data), MaxOutputBytes: limit})
		over := max(0, size-limit)
		if len(r.Stdout) != size-over || r.StdoutOmitted != int64(over) || r.Truncated != (over > 0) {
			t.Errorf("%d bytes at a cap of %d: kept %d, omitted %d, truncated %v", size, limit, len(r.Stdout), r.StdoutOmitted, r.Truncated)
		}
	}
}

func outputMerged(ctx context.Context, t T, e *Env) {
	const lines = 200
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo o$i; echo e$i >&2; i=$((i+1)); done", lines)
	r := e.Exec(ctx, t, berth.Shell(script), berth.ExecOptions{MergeOutput: true})
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "o%d\ne%d\n", i, i)
	}
	wantText(t, "stdout", r.Stdout, want.String())
	wantText(t, "stderr", r.Stderr, "")
}

func outputBackPressure(ctx context.Context, t T, e *Env) {
	c := e.Cmd(ctx, "cat", "/dev/zero")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	if err := c.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatalf("read: %v", err)
	}
	time.Sleep(time.Second) // in which a command that nothing slows writes gigabytes
	if err := c.Kill(ctx); err != nil {
		t.Errorf("kill: %v", err)
	}
	n, err := io.Copy(io.Discard, out)
	if err != nil {
		t.Errorf("read after the kill: %v", err)
	}
	var exit *berth.ExitError
	if err := c.Wait(); !errors.As(err, &exit) {
		t.Fatalf("wait: %v; want the death by a signal", err)
	}
	const most = 64 << 20
	if n > most || exit.StdoutBytes > most {
		t.Errorf("an unread command wrote %d bytes, of which %d were under way; want less than %d", exit.StdoutBytes, n, most)
	}
}

func outputStalled(ctx context.Context, t T, e *Env) {
	c := e.Cmd(ctx, "cat", "/dev/zero")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	if err := c.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatalf("read: %v", err)
	}
	for range 10 {
		r := e.Exec(ctx, t, []string{"echo", "others work"}, berth.ExecOptions{Timeout: long})
		wantText(t, "another command", r.Stdout, "others work\n")
		if err := e.Sandbox.Ping(ctx); err != nil {
			t.Errorf("ping: %v", err)
		}
	}
	if err := c.Kill(ctx); err != nil {
		t.Errorf("kill: %v", err)
	}
	out.Close()
	var exit *berth.ExitError
	if err := c.Wait(); !errors.As(err, &exit) {
		t.Errorf("wait: %v; want the death by a signal", err)
	}
}

func outputSlowReader(ctx context.Context, t T, e *Env) {
	data := noise(1<<20, 6)
	name := e.file("slow")
	e.write(ctx, t, name, data, files.WriteOptions{})
	var got bytes.Buffer
	c := e.Cmd(ctx, "cat", name)
	writes := 0
	c.Stdout = writerFunc(func(p []byte) (int, error) {
		if writes++; writes <= 20 {
			time.Sleep(20 * time.Millisecond)
		}
		return got.Write(p)
	})
	if err := c.Run(); err != nil {
		t.Fatalf("cat: %v", err)
	}
	wantText(t, "stdout", got.Bytes(), string(data))
}

func outputLateReader(ctx context.Context, t T, e *Env) {
	data := noise(300_000, 8)
	name := e.file("late")
	e.write(ctx, t, name, data, files.WriteOptions{})
	var got bytes.Buffer
	c := e.Cmd(ctx, "cat", name)
	first := true
	c.Stdout = writerFunc(func(p []byte) (int, error) {
		if first {
			time.Sleep(15 * time.Second)
		}
		first = false
		return got.Write(p)
	})
	if err := c.Run(); err != nil {
		t.Fatalf("cat: %v", err)
	}
	wantText(t, "stdout", got.Bytes(), string(data))
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func outputLive(ctx context.Context, t T, e *Env) {
	c := e.Cmd(ctx, "/bin/sh", "-c", "echo first; read -r x; echo $x")
	in, out := e.pipes(t, c)
	if err := c.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	line := make([]byte, len("first\n"))
	if _, err := io.ReadFull(out, line); err != nil {
		t.Fatalf("read while it runs: %v", err)
	}
	wantText(t, "first line", line, "first\n")
	if _, err := io.WriteString(in, "second\n"); err != nil {
		t.Errorf("write: %v", err)
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Errorf("read: %v", err)
	}
	wantText(t, "rest", rest, "second\n")
	if err := c.Wait(); err != nil {
		t.Errorf("wait: %v", err)
	}
}

func (e *Env) pipes(t T, c *berth.Cmd) (io.WriteCloser, io.ReadCloser) {
	t.Helper()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatalf("stdin pipe: %v", err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatalf("stdout pipe: %v", err)
	}
	return in, out
}

func outputWriterFails(ctx context.Context, t T, e *Env) {
	full := errors.New("this writer is full")
	c := e.Cmd(ctx, "echo", "hello")
	c.Stdout = writerFunc(func([]byte) (int, error) { return 0, full })
	wantError(t, "run", c.Run(), full)
}

func stdinEmpty(ctx context.Context, t T, e *Env) {
	r := e.Exec(ctx, t, []string{"cat"}, berth.ExecOptions{Timeout: 30 * time.Second})
	if !r.Success() || len(r.Stdout) > 0 {
		t.Errorf("cat without input: code %d, timed out %v, stdout %.40q; want an empty success", r.ExitCode, r.TimedOut, r.Stdout)
	}
}

func stdinExact(ctx context.Context, t T, e *Env) {
	for _, size := range []int{0, 1, 70_000, 3 << 20} {
		data := noise(size, 7)
		r := e.Exec(ctx, t, []string{"cat"}, berth.ExecOptions{Stdin: bytes.NewReader(data), MaxOutputBytes: 8 << 20})
		wantText(t, fmt.Sprintf("%d bytes", size), r.Stdout, string(data))
	}
}

func stdinHalfClose(ctx context.Context, t T, e *Env) {
	c := e.Cmd(ctx, "/bin/sh", "-c", "cat; echo end")
	in, out := e.pipes(t, c)
	if err := c.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	if _, err := io.WriteString(in, "some"); err != nil {
		t.Fatalf("write: %v", err)
	}
	some := make([]byte, 4)
	if _, err := io.ReadFull(out, some); err != nil {
		t.Fatalf("read before the end of input: %v", err)
	}
	wantText(t, "before", some, "some")
	if err := in.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Errorf("read: %v", err)
	}
	wantText(t, "after", rest, "end\n")
	if err := c.Wait(); err != nil {
		t.Errorf("wait: %v", err)
	}
}

// endless never ends and never blocks.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func stdinIgnored(ctx context.Context, t T, e *Env) {
	r := e.Exec(ctx, t, []string{"true"}, berth.ExecOptions{Stdin: endless{}, Timeout: 30 * time.Second})
	if !r.Success() {
		t.Errorf("true with endless input: code %d, timed out %v", r.ExitCode, r.TimedOut)
	}
	blocked, release := io.Pipe()
	defer release.Close()
	r = e.Exec(ctx, t, []string{"true"}, berth.ExecOptions{Stdin: blocked, Timeout: 30 * time.Second})
	if !r.Success() {
		t.Errorf("true with input that blocks: code %d, timed out %v", r.ExitCode, r.TimedOut)
	}
}
