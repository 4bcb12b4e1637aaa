package drivertest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth"
)

// backgroundCases are about what a command leaves running on purpose.
func backgroundCases() []Case {
	return []Case{
		{Name: "BackgroundChildDoesNotHoldTheResult", Rule: "A background child that keeps the pipe does not hold the result: it is returned with what arrived, and the child lives on.", Need: needShell, Run: backgroundResult},
		{Name: "BackgroundChildIsNotTimed", Rule: "The deadline times the command and not its stragglers.", Need: needShell, Run: backgroundTimed},
		{Name: "BackgroundChildMayWrite", Rule: "A background child that writes to the pipe after the leader's exit lives on.", Need: needShell, Run: backgroundWrites},
		{Name: "BackgroundChildMayDetach", Rule: "A child that closed its output outlives the command and its client.", Need: needShell, Run: backgroundDetached},
	}
}

// endMarked ends what the case left in the background on purpose.
func (e *Env) endMarked(ctx context.Context, t T) {
	t.Helper()
	var pids []string
	if !e.Eventually(ctx, func() bool { // one that executes a program just now has no environment, and is not found
		before := pids
		pids = e.Marked(ctx, t, e.Sandbox, e.Mark)
		return len(pids) > 0 && slices.Equal(pids, before)
	}) {
		t.Errorf("the background child did not live on")
		return
	}
	// Not marked itself, so that it does not end itself.
	if _, err := e.Sandbox.Exec(ctx, berth.Shell("kill -9 "+strings.Join(pids, " ")), berth.ExecOptions{}); err != nil {
		t.Errorf("end the background child: %v", err)
	}
	e.WaitGone(ctx, t)
}

// background runs a script that leaves a child, and wants its result promptly.
func (e *Env) background(ctx context.Context, t T, script string, o berth.ExecOptions) *berth.Result {
	t.Helper()
	start := time.Now()
	r := e.Exec(ctx, t, berth.Shell(script), o)
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("the result took %v", took)
	}
	if !r.Success() {
		t.Errorf("code %d, timed out %v; want a success", r.ExitCode, r.TimedOut)
	}
	return r
}

func backgroundResult(ctx context.Context, t T, e *Env) {
	r := e.background(ctx, t, "sleep 300 & echo started; echo warned >&2", berth.ExecOptions{})
	wantText(t, "stdout", r.Stdout, "started\n")
	wantText(t, "stderr", r.Stderr, "warned\n")
	e.endMarked(ctx, t)
}

func backgroundTimed(ctx context.Context, t T, e *Env) {
	r := e.background(ctx, t, "sleep 300 & echo started", berth.ExecOptions{Timeout: 10 * time.Second})
	wantText(t, "stdout", r.Stdout, "started\n")
	time.Sleep(short)
	e.endMarked(ctx, t)
}

func backgroundWrites(ctx context.Context, t T, e *Env) {
	name := e.file("late")
	script := "( sleep 1; echo late; echo late >&2; echo alive >" + name + "; sleep 300 ) & echo started"
	e.background(ctx, t, script, berth.ExecOptions{})
	alive := e.Eventually(ctx, func() bool {
		data, err := e.Sandbox.Files().ReadFile(ctx, name)
		return err == nil && string(data) == "alive\n"
	})
	if !alive {
		t.Errorf("the child did not live through its write")
	}
	e.endMarked(ctx, t)
}

func backgroundDetached(ctx context.Context, t T, e *Env) {
	e.background(ctx, t, "sleep 300 </dev/null >/dev/null 2>&1 &", berth.ExecOptions{})
	e.endMarked(ctx, t)
}
