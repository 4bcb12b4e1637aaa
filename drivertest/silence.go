package drivertest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
)

// silenceCases are about a command that is ended because it says nothing.
func silenceCases() []Case {
	return []Case{
		{Name: "SilenceIsATimeout", Rule: "NoOutputTimeout ends the command's whole tree once it has written nothing to either stream for so long; what was printed is returned.", Need: needShell, Run: silenceEnds},
		{Name: "OutputBreaksTheSilence", Rule: "Output to either stream counts, whether or not anybody takes it.", Need: needShell, Run: silenceBroken},
		{Name: "SlowReaderIsNoSilence", Rule: "A reader that holds the command up counts as output.", Need: needCoreutils, Run: silenceHeldUp},
		{Name: "TermReachesTheNewborn", Rule: "A process that begins while its command is being ended gets TERM too, and none gets it twice.", Need: needShell, Run: silenceNewborn},
	}
}

func silenceEnds(ctx context.Context, t T, e *Env) {
	start := time.Now()
	r := e.Exec(ctx, t, berth.Shell("echo out; echo err >&2; sleep 300 & sleep 300"), berth.ExecOptions{NoOutputTimeout: time.Second, Timeout: long})
	if !r.TimedOut || !r.NoOutput || r.Success() {
		t.Errorf("timed out %v, for its silence %v; want both", r.TimedOut, r.NoOutput)
	}
	if took := time.Since(start); took < time.Second || took > 20*time.Second {
		t.Errorf("the result took %v", took)
	}
	wantText(t, "stdout", r.Stdout, "out\n")
	wantText(t, "stderr", r.Stderr, "err\n")
	e.WaitGone(ctx, t)
	r = e.Exec(ctx, t, berth.Shell("echo out; sleep 300"), berth.ExecOptions{NoOutputTimeout: 2 * time.Second})
	if !r.TimedOut || !r.NoOutput {
		t.Errorf("without a timeout: timed out %v, for its silence %v; want both", r.TimedOut, r.NoOutput)
	}
	wantText(t, "stdout without a timeout", r.Stdout, "out\n")
	r = e.Exec(ctx, t, berth.Shell("sleep 300"), berth.ExecOptions{NoOutputTimeout: long, Timeout: short})
	if !r.TimedOut || r.NoOutput {
		t.Errorf("the other deadline: timed out %v, for its silence %v; want true, false", r.TimedOut, r.NoOutput)
	}
}

func silenceBroken(ctx context.Context, t T, e *Env) {
	tries := []struct {
		name   string
		fd     int
		stdout io.Writer
	}{{"stdout, taken", 1, io.Discard}, {"stdout, not taken", 1, nil}, {"stderr, not taken", 2, io.Discard}}
	ended := make(chan error, len(tries))
	for _, try := range tries {
		c := e.Cmd(ctx, "/bin/sh", "-c", fmt.Sprintf("for i in 1 2 3 4 5; do sleep 1; echo x >&%d; done", try.fd))
		c.NoOutputTimeout, c.Stdout = 4*time.Second, try.stdout
		go func() {
			err := c.Run()
			if err != nil {
				err = fmt.Errorf("%s: %w", try.name, err)
			}
			ended <- err
		}()
	}
	for range tries {
		if err := <-ended; err != nil {
			t.Errorf("%v; want a success", err)
		}
	}
}

func silenceHeldUp(ctx context.Context, t T, e *Env) {
	data := noise(1<<20, 9)
	name := e.file("held-up")
	e.write(ctx, t, name, data, files.WriteOptions{})
	c := e.Cmd(ctx, "cat", name, name, name)
	c.NoOutputTimeout = time.Second
	first, got := true, int64(0)
	c.Stdout = writerFunc(func(p []byte) (int, error) {
		if first {
			time.Sleep(3 * time.Second)
		}
		first = false
		got += int64(len(p))
		return len(p), nil
	})
	if err := c.Run(); err != nil || got != 3<<20 {
		t.Errorf("%v after %d bytes; want a success", err, got)
	}
}

func silenceNewborn(ctx context.Context, t T, e *Env) {
	terms, born := e.file("terms"), e.file("born")
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	script := `trap 'echo term >>"$1"; sleep 300 & echo $! >>"$2"' TERM; echo ready; while :; do sleep 0.1; done`
	c := e.Cmd(life, "/bin/sh", "-c", script, "sh", terms, born)
	c.WaitDelay = long
	e.startReady(t, c)
	cancel()
	wantError(t, "wait", c.Wait(), context.Canceled)
	var pid string
	if !e.Eventually(ctx, func() bool {
		data, _ := e.Sandbox.Files().ReadFile(ctx, born)
		pid = strings.TrimSpace(string(data))
		return pid != "" && !slices.Contains(e.Marked(ctx, t, e.Sandbox, e.Mark), pid)
	}) {
		t.Errorf("process %q, which began after TERM, lives on", pid)
	}
	time.Sleep(short) // in which a second TERM would come
	got, err := e.Sandbox.Files().ReadFile(ctx, terms)
	wantText(t, "what the leader got", got, "term\n")
	if err != nil {
		t.Errorf("read: %v", err)
	}
	pids := e.Marked(ctx, t, e.Sandbox, e.Mark)
	if _, err := e.Sandbox.Exec(ctx, append([]string{"/bin/sh", "-c", `kill -9 "$@"`, "sh"}, pids...), berth.ExecOptions{}); err != nil {
		t.Errorf("end the rest: %v", err)
	}
	e.WaitGone(ctx, t)
}
