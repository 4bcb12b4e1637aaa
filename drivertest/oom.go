package drivertest

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/spec"
)

// oomCases are about how it is explained that memory ran out.
func oomCases() []Case {
	return []Case{
		{Name: "OOMNamesItsLimit", Rule: "A command that the kernel killed at the memory limit of its place says so, with the limit, the peak, and that another try ends the same way.", Need: needShell, Run: oomNamesLimit},
		{Name: "OOMOfAChild", Rule: "A kill is told to the command that lost a process by it, though its leader ended by itself.", Need: needShell, Run: oomChild},
		{Name: "OOMIsToldOnce", Rule: "A kill is told once, and remembered: to its command whenever that is asked, and to no later one.", Need: needShell, Run: oomOnce},
		{Name: "OOMIsNoStatus", Rule: "An exit status is no evidence: 137, and a death by a SIGKILL that somebody sent, are no OOM.", Need: needShell, Run: oomStatus},
		{Name: "OOMOfAJob", Rule: "A job that the kernel killed for want of memory has that in its record.", Need: all(needShell, needJobs), Run: oomJob},
	}
}

// forced is how far the kernel may go beyond a limit for what it cannot refuse itself.
const forced = 1 << 20

// wantOwnLimit wants an OOM at the memory limit of the cases' place.
func wantOwnLimit(t T, what string, oom *spec.OOM) {
	t.Helper()
	switch {
	case oom == nil:
		t.Errorf("%s: it does not say that memory ran out", what)
	case oom.LimitBytes != memoryLimit || oom.Retryable || oom.Hint == "":
		t.Errorf("%s: it says %+v", what, *oom)
	case oom.PeakBytes < memoryLimit-memoryLimit/10 || oom.PeakBytes > memoryLimit+forced:
		t.Errorf("%s: a peak of %d bytes under a limit of %d", what, oom.PeakBytes, oom.LimitBytes)
	}
}

func oomNamesLimit(ctx context.Context, t T, e *Env) {
	sb := e.limited(ctx, t, spec.Limits{MemoryBytes: memoryLimit})
	r := e.ExecIn(ctx, t, sb, berth.Shell(hog), berth.ExecOptions{Timeout: long})
	wantOwnLimit(t, "the command", r.OOM)
	if r.ExitCode != 128+int(spec.SIGKILL) || r.TimedOut {
		t.Errorf("code %d, timed out %v", r.ExitCode, r.TimedOut)
	}
}

func oomChild(ctx context.Context, t T, e *Env) {
	sb := e.limited(ctx, t, spec.Limits{MemoryBytes: memoryLimit})
	for _, code := range []int{3, 137} {
		r := e.ExecIn(ctx, t, sb, berth.Shell(fmt.Sprintf("(%s) 2>/dev/null; echo $?; exit %d", hog, code)), berth.ExecOptions{Timeout: long})
		if r.ExitCode != code || strings.TrimSpace(string(r.Stdout)) != "137" {
			t.Errorf("code %d, %q %q", r.ExitCode, r.Stdout, r.Stderr)
		}
		wantOwnLimit(t, fmt.Sprintf("a command that ends with %d", code), r.OOM)
	}
}

func oomOnce(ctx context.Context, t T, e *Env) {
	sb := e.limited(ctx, t, spec.Limits{MemoryBytes: memoryLimit})
	key := "oom-" + randomHex()
	for _, what := range []string{"the command", "the same key"} {
		r := e.ExecIn(ctx, t, sb, berth.Shell(hog), berth.ExecOptions{Key: key, Timeout: long})
		wantOwnLimit(t, what, r.OOM)
	}
	for _, script := range []string{"true", "kill -9 $$", "exit 137"} {
		if r := e.ExecIn(ctx, t, sb, berth.Shell(script), berth.ExecOptions{}); r.OOM != nil {
			t.Errorf("%q is told %+v", script, *r.OOM)
		}
	}
}

func oomStatus(ctx context.Context, t T, e *Env) {
	for _, script := range []string{"kill -9 $$", "exit 137", `sh -c 'kill -9 $$'; exit $?`} {
		if r := e.Sh(ctx, t, script); r.OOM != nil || r.ExitCode != 137 {
			t.Errorf("%q: code %d, %+v", script, r.ExitCode, r.OOM)
		}
	}
}

func oomJob(ctx context.Context, t T, e *Env) {
	sb := e.limited(ctx, t, spec.Limits{MemoryBytes: memoryLimit})
	j, err := sb.Jobs("").Start(ctx, berth.Shell(hog), berth.JobOptions{})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	info, err := j.Wait(ctx)
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	wantOwnLimit(t, "the job", info.Exit.OOM)
	if again, err := j.Info(ctx); err != nil {
		t.Errorf("info: %v", err)
	} else {
		wantOwnLimit(t, "its record", again.Exit.OOM)
	}
}
