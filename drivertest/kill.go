package drivertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/spec"
)

// short is a timeout for commands that are to run into it, long one for those that
// are not: a slow machine must never reach it.
const (
	short = 300 * time.Millisecond
	long  = 45 * time.Second
)

// killCases are about how a command is made to end.
func killCases() []Case {
	return []Case{
		{Name: "TimeoutIsAResult", Rule: "On timeout the tree dies, TimedOut is true, nothing else appears in the output, and the place goes on.", Need: needShell, Run: killTimeout},
		{Name: "TimeoutKeepsTheOutput", Rule: "On timeout what was printed so far is returned.", Need: needShell, Run: killTimeoutOutput},
		{Name: "TimeoutKillsTheTree", Rule: "On timeout the whole tree dies: the group, then every descendant.", Need: needShell, Run: killTree},
		{Name: "TimeoutKillsTheReparented", Rule: "Re-parented and setsid'ed descendants die with the tree.", Need: needShell, Run: killReparented},
		{Name: "TimeoutOutlastsATrap", Rule: "Ending anything is TERM, a grace, KILL: a command that ignores TERM ends too.", Need: needShell, Run: killTrap},
		{Name: "TimeoutIsNotTheExitCode", Rule: "A command that overruns and then exits cleanly timed out; the flag is authoritative.", Need: needShell, Run: killLateExit},
		{Name: "TimeoutSeesClosedOutput", Rule: "A command that closes its output and runs on still times out.", Need: needShell, Run: killClosedOutput},
		{Name: "TimeoutSurvivesTheParentsDeath", Rule: "A command cannot end its own watchdog.", Need: all(needShell, needShielded), Run: killWatchdog},
		{Name: "OwnDeathIsNoTimeout", Rule: "exit 124, exit 137 and kill -9 $$ are not timeouts.", Need: needShell, Run: killSelf},
		{Name: "TimeoutLeavesNothingBehind", Rule: "A command that ends in time leaves no deadline machinery and no word of it.", Need: needShell, Own: true, Run: killMachinery},
		{Name: "CancelIsAnError", Rule: "Caller cancellation is an error, never a timeout result, and reaches the process.", Need: needShell, Run: killCancel},
		{Name: "CancelSaysTERMFirst", Rule: "A cancelled command gets TERM and its grace before KILL.", Need: needShell, Run: killCancelGrace},
		{Name: "CancelBeforeStart", Rule: "A context that has ended starts nothing.", Need: needCoreutils, Run: killCancelBefore},
		{Name: "KillEndsTheTree", Rule: "Kill ends the whole tree and returns when it has been done; a second one is no error.", Need: needShell, Run: killKill},
		{Name: "SignalsAreDelivered", Rule: "Signal sends a signal to the command's process group; a command that has ended is no error.", Need: needShell, Run: killSignal},
		{Name: "GuestSurvivesEverySignal", Rule: "No signal from inside ends a shielded guest: every one from 1 to 64 sent to pid 1.", Need: all(needShell, needShielded), Own: true, Run: killGuest},
		{Name: "KillAllEndsCommandsOnly", Rule: "kill -9 -1 inside ends commands only.", Need: all(needShell, needShielded), Own: true, Run: killAll},
		{Name: "HostileTreesAreEnded", Rule: "Whatever the processes of a command do to hide, none is left where the place has proof, and each that is left is named where it has not.", Need: needShell, Own: true, Run: killHostileTrees},
		{Name: "OrphansAreReaped", Rule: "As pid 1 the guest reaps zombies.", Need: all(needShell, needShielded), Own: true, Run: killZombies},
	}
}

// overrun runs a script that is to run into its timeout.
func (e *Env) overrun(ctx context.Context, t T, script string, o berth.ExecOptions) *berth.Result {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = short
	}
	start := time.Now()
	r := e.Exec(ctx, t, berth.Shell(script), o)
	if !r.TimedOut {
		t.Errorf("not timed out: code %d, signal %d, stdout %q, stderr %q", r.ExitCode, r.Signal, r.Stdout, r.Stderr)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the result took %v", took)
	}
	e.WaitGone(ctx, t)
	return r
}

func killTimeout(ctx context.Context, t T, e *Env) {
	r := e.overrun(ctx, t, "sleep 300; echo after; echo after >&2", berth.ExecOptions{})
	wantText(t, "stdout", r.Stdout, "")
	wantText(t, "stderr", r.Stderr, "")
	if next := e.Sh(ctx, t, "echo next"); string(next.Stdout) != "next\n" {
		t.Errorf("the next command says %q", next.Stdout)
	}
}

func killTimeoutOutput(ctx context.Context, t T, e *Env) {
	r := e.overrun(ctx, t, "echo out; echo err >&2; sleep 300", berth.ExecOptions{Timeout: 2 * time.Second})
	wantText(t, "stdout", r.Stdout, "out\n")
	wantText(t, "stderr", r.Stderr, "err\n")
}

func killTree(ctx context.Context, t T, e *Env) {
	r := e.overrun(ctx, t, "sleep 300 & (sleep 300; :) & sleep 300 | cat & wait", berth.ExecOptions{})
	if e.Caps.KillTree == spec.KillTreeConfirmed && r.Kill != spec.KillTerminated {
		t.Errorf("the place confirms a tree kill, and says %q of this one", r.Kill)
	}
	if len(r.Survivors) > 0 {
		t.Errorf("survivors: %v", r.Survivors)
	}
}

func killReparented(ctx context.Context, t T, e *Env) {
	script := `( ( sleep 300 & ) & )
set -m; sleep 300 & set +m
if command -v setsid >/dev/null; then setsid sleep 300 & setsid sh -c "(sleep 300 &)"; fi
sleep 300`
	e.overrun(ctx, t, script, berth.ExecOptions{Timeout: time.Second})
}

func killTrap(ctx context.Context, t T, e *Env) {
	r := e.overrun(ctx, t, `trap "" TERM INT HUP; while :; do sleep 300; done`, berth.ExecOptions{Grace: short})
	if r.Signal != int(spec.SIGKILL) {
		t.Errorf("signal %d, code %d; want the end by KILL", r.Signal, r.ExitCode)
	}
}

func killLateExit(ctx context.Context, t T, e *Env) {
	r := e.overrun(ctx, t, `trap 'echo bye; kill -9 $p; exit 0' TERM; sleep 300 & p=$!; wait`, berth.ExecOptions{Timeout: time.Second, Grace: long})
	if r.ExitCode != 0 || r.Signal != 0 {
		t.Errorf("code %d, signal %d; want what the process really had, 0", r.ExitCode, r.Signal)
	}
	wantText(t, "stdout", r.Stdout, "bye\n")
}

func killClosedOutput(ctx context.Context, t T, e *Env) {
	e.overrun(ctx, t, `exec >&- 2>&-; while :; do sleep 1; done`, berth.ExecOptions{})
}

func killWatchdog(ctx context.Context, t T, e *Env) {
	e.overrun(ctx, t, `kill -9 $PPID; kill -9 1; trap "" TERM; while :; do sleep 1; done`, berth.ExecOptions{Grace: short})
}

func killSelf(ctx context.Context, t T, e *Env) {
	for _, try := range []struct {
		script       string
		code, signal int
	}{{"exit 124", 124, 0}, {"exit 137", 137, 0}, {"kill -9 $$", 137, 9}, {"kill -15 $$", 143, 15}} {
		r := e.Exec(ctx, t, berth.Shell(try.script), berth.ExecOptions{Timeout: long})
		if r.TimedOut || r.ExitCode != try.code || r.Signal != try.signal {
			t.Errorf("%s: timed out %v, code %d, signal %d", try.script, r.TimedOut, r.ExitCode, r.Signal)
		}
	}
}

// countProcesses prints how many processes the place has, the shell included.
const countProcesses = `set -- /proc/[0-9]*; echo $#`

func killMachinery(ctx context.Context, t T, e *Env) {
	count := func() string { return string(e.Sh(ctx, t, countProcesses).Stdout) }
	before := count()
	for range 3 {
		r := e.Exec(ctx, t, berth.Shell("true"), berth.ExecOptions{Timeout: long})
		if !r.Success() || len(r.Stderr) > 0 {
			t.Errorf("code %d, stderr %q", r.ExitCode, r.Stderr)
		}
	}
	if !e.Caps.Shielded {
		return // its processes are among all of the machine's
	}
	var after string
	if !e.Eventually(ctx, func() bool { after = count(); return after == before }) {
		t.Errorf("%s processes before, %s after", strings.TrimSpace(before), strings.TrimSpace(after))
	}
}

func killCancel(ctx context.Context, t T, e *Env) {
	for _, try := range []struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		want error
	}{
		{"cancel", func() (context.Context, context.CancelFunc) {
			c, cancel := context.WithCancel(ctx)
			time.AfterFunc(short, cancel)
			return c, cancel
		}, context.Canceled},
		{"deadline", func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, short) }, context.DeadlineExceeded},
	} {
		c, cancel := try.ctx()
		r, err := e.Sandbox.Exec(c, berth.Shell("sleep 300 & sleep 300"), e.marked(berth.ExecOptions{Timeout: long}))
		if r != nil {
			t.Errorf("%s: a result: %+v", try.name, r)
		}
		wantError(t, try.name, err, try.want)
		cancel()
		e.WaitGone(ctx, t)
	}
}

func killCancelGrace(ctx context.Context, t T, e *Env) {
	name := e.file("term")
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	c := e.Cmd(life, "/bin/sh", "-c", `trap 'echo got >"$1"; kill -9 $p; exit 0' TERM; sleep 300 & p=$!; echo ready; wait`, "sh", name)
	c.WaitDelay = long
	e.startReady(t, c)
	cancel()
	wantError(t, "wait", c.Wait(), context.Canceled)
	// Wait answers a cancel at once; the command has its grace still.
	var got []byte
	var err error
	if !e.Eventually(ctx, func() bool {
		got, err = e.Sandbox.Files().ReadFile(ctx, name)
		return string(got) == "got\n"
	}) {
		t.Errorf("what the trap wrote: %q, %v; want got", got, err)
	}
	e.WaitGone(ctx, t)
}

// startReady starts c and waits for its first line, "ready". It returns the rest of
// the output.
func (e *Env) startReady(t T, c *berth.Cmd) *bufio.Reader {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	if err := c.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the first line is %q, %v; want ready", line, err)
	}
	return r
}

func killCancelBefore(ctx context.Context, t T, e *Env) {
	over, cancel := context.WithCancel(ctx)
	cancel()
	name := e.file("never")
	_, err := e.Sandbox.Exec(over, berth.Shell("echo x >"+name), berth.ExecOptions{})
	wantError(t, "exec", err, context.Canceled)
	if _, err := e.Sandbox.Files().ReadFile(ctx, name); !errors.Is(err, spec.ErrFileNotFound) {
		t.Errorf("the file is there, or %v", err)
	}
}

func killKill(ctx context.Context, t T, e *Env) {
	c := e.Cmd(ctx, "/bin/sh", "-c", "sleep 300 & echo ready; sleep 300")
	e.startReady(t, c)
	if err := c.Kill(ctx); err != nil {
		t.Errorf("kill: %v", err)
	}
	var exit *berth.ExitError
	if err := c.Wait(); !errors.As(err, &exit) {
		t.Fatalf("wait: %v; want an exit", err)
	}
	if exit.Signal != int(spec.SIGKILL) || exit.TimedOut {
		t.Errorf("%s; want signal 9", exit)
	}
	if err := c.Kill(ctx); err != nil {
		t.Errorf("kill again: %v", err)
	}
	e.WaitGone(ctx, t)
}

func killSignal(ctx context.Context, t T, e *Env) {
	c := e.Cmd(ctx, "/bin/sh", "-c", `trap 'echo usr1; kill -9 $p; exit 3' USR1; sleep 300 & p=$!; echo ready; wait`)
	out := e.startReady(t, c)
	if err := c.Signal(ctx, spec.SIGUSR1); err != nil {
		t.Fatalf("signal: %v", err)
	}
	if line, err := out.ReadString('\n'); err != nil || line != "usr1\n" {
		t.Errorf("the trap says %q, %v", line, err)
	}
	var exit *berth.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("wait: %v; want exit status 3", err)
	}
	if err := c.Signal(ctx, spec.SIGTERM); err != nil {
		t.Errorf("signal after the end: %v", err)
	}
}

func killGuest(ctx context.Context, t T, e *Env) {
	before, err := e.Sandbox.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	for n := 1; n <= 64; n++ {
		e.Exec(ctx, t, berth.Shell(fmt.Sprintf("kill -%d 1", n)), berth.ExecOptions{})
		if err := e.Sandbox.Ping(ctx); err != nil {
			t.Fatalf("after signal %d: %v", n, err)
		}
	}
	e.wantSamePlace(ctx, t, before)
}

// wantSamePlace wants the guest that before describes to live and work.
func (e *Env) wantSamePlace(ctx context.Context, t T, before spec.Status) {
	t.Helper()
	after, err := e.Sandbox.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	if !after.Started.Equal(before.Started) || after.Uptime < before.Uptime {
		t.Errorf("the guest started at %v and was up for %v, now at %v for %v: it is another one", before.Started, before.Uptime, after.Started, after.Uptime)
	}
	if r := e.Sh(ctx, t, "echo works"); string(r.Stdout) != "works\n" {
		t.Errorf("a command says %q", r.Stdout)
	}
}

func killAll(ctx context.Context, t T, e *Env) {
	before, err := e.Sandbox.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	victim := e.Cmd(ctx, "/bin/sh", "-c", "echo ready; sleep 300")
	e.startReady(t, victim)
	e.Sh(ctx, t, "kill -9 -1")
	var exit *berth.ExitError
	if err := victim.Wait(); !errors.As(err, &exit) || exit.Signal != int(spec.SIGKILL) || exit.TimedOut {
		t.Errorf("the other command: %v; want signal 9", err)
	}
	e.wantSamePlace(ctx, t, before)
}

// findZombies prints the pids of processes in state Z, with builtins only.
const findZombies = `for f in /proc/[0-9]*/stat; do
	{ read -r line <"$f"; } 2>/dev/null || continue
	case ${line##*) } in Z*) echo "${line%% *}" ;; esac
done`

func killZombies(ctx context.Context, t T, e *Env) {
	e.Sh(ctx, t, "i=0; while [ $i -lt 20 ]; do ( ( true & ) & ); i=$((i+1)); done")
	var left []string
	if !e.Eventually(ctx, func() bool { left = strings.Fields(string(e.Sh(ctx, t, findZombies).Stdout)); return len(left) == 0 }) {
		t.Errorf("zombies: pids %v", left)
	}
}
