package drivertest

import (
	"context"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// limitCases are about the limits of a place, on backends that can enforce them.
func limitCases() []Case {
	return []Case{
		{Name: "LimitsAreDeclared", Rule: "A place declares the limits that are in force in it, and the backend those that can be had; one that cannot be had is unsupported, and nothing is made.", Run: limitsDeclared},
		{Name: "LimitPIDsBounds", Rule: "The limit on processes bounds those of the place, and not its guest: it answers, ends what has met the limit, and starts the next command.", Need: needShell, Run: limitPIDs},
		{Name: "LimitCPUBounds", Rule: "The limit on CPU time bounds what the commands of the place spend together.", Need: needShell, Run: limitCPU},
		{Name: "LimitMemoryBounds", Rule: "A command that goes over the memory limit of its place is killed, and other places go on.", Need: needShell, Run: limitMemory},
		{Name: "LimitSparesTheGuest", Rule: "Where many small commands use up the memory of the place, it is they that are killed: the place goes on answering.", Need: needShell, Run: limitSparesGuest},
		{Name: "LimitsOutliveARestart", Rule: "A place that was stopped has its limits again when it is started.", Need: all(needShell, needKeyed), Run: limitRestart},
	}
}

// The limits that the cases ask for.
const (
	memoryLimit = 128 << 20
	pidsLimit   = 120
	cpuLimit    = 500
)

// limited provisions a place with limits, or skips the case where the backend has not
// all of them.
func (e *Env) limited(ctx context.Context, t T, l spec.Limits) *berth.Sandbox {
	t.Helper()
	s := e.Spec()
	s.Limits = l
	e.needOffer(ctx, t, &s)
	return e.Provision(ctx, t, s)
}

// needOffer skips the case where the backend does not offer what s asks for.
func (e *Env) needOffer(ctx context.Context, t T, s *spec.Spec) {
	t.Helper()
	probe, err := e.Driver.Probe(ctx)
	if err != nil {
		t.Fatalf("probe: %v", err)
	}
	if err := probe.Check(s); err != nil {
		skip(t, err.Error())
	}
}

func limitsDeclared(ctx context.Context, t T, e *Env) {
	probe, err := e.Driver.Probe(ctx)
	if err != nil {
		t.Fatalf("probe: %v", err)
	}
	for name, limit := range map[string]struct {
		offered  bool
		limits   spec.Limits
		declared func(spec.Caps) bool
	}{
		"limit_memory": {probe.LimitMemory, spec.Limits{MemoryBytes: memoryLimit}, func(c spec.Caps) bool { return c.LimitMemory }},
		"limit_pids":   {probe.LimitPIDs, spec.Limits{PIDs: pidsLimit}, func(c spec.Caps) bool { return c.LimitPIDs }},
		"limit_cpu":    {probe.LimitCPU, spec.Limits{CPUMillis: cpuLimit}, func(c spec.Caps) bool { return c.LimitCPU }},
	} {
		s := e.Spec()
		s.Limits = limit.limits
		if !limit.offered {
			_, err := berth.Provision(ctx, e.Driver, s)
			wantError(t, name, err, spec.ErrUnsupported)
			continue
		}
		sb := e.Provision(ctx, t, s)
		caps, err := sb.Caps(ctx)
		if err != nil || !limit.declared(caps) {
			t.Errorf("%s is in force and not declared: %v", name, err)
		}
		st, err := sb.Status(ctx)
		got, want := st.Limits, limit.limits
		if err != nil || got.MemoryBytes != want.MemoryBytes && want.MemoryBytes > 0 || got.PIDs != want.PIDs && want.PIDs > 0 || got.CPUMillis != want.CPUMillis && want.CPUMillis > 0 {
			t.Errorf("%s: the place says that it has %+v, %v", name, got, err)
		}
	}
}

// brood starts, again and again, up to 2^9 processes at one time, which wait for each
// other: where nothing bounds them, that does.
const brood = `f() { if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & wait; else sleep 1; fi; }
while :; do (f 8) 2>/dev/null; done`

func limitPIDs(ctx context.Context, t T, e *Env) {
	sb := e.limited(ctx, t, spec.Limits{PIDs: pidsLimit})
	e.Sandbox = sb
	ended := make(chan *berth.Result, 1)
	go func() {
		r, err := sb.Exec(ctx, berth.Shell(brood), e.marked(berth.ExecOptions{Timeout: 4 * time.Second, Grace: time.Second}))
		if err != nil {
			t.Errorf("the command: %v", err)
		}
		ended <- r
	}()
	most, answers := 0, 0
	for done := false; !done; {
		select {
		case r := <-ended:
			if r != nil && !r.TimedOut {
				t.Errorf("the command ended by itself: code %d, %.200q", r.ExitCode, r.Stderr)
			}
			done = true
		default:
			if err := sb.Ping(ctx); err != nil {
				t.Fatalf("the place does not answer: %v", err)
			}
			answers++
			// A file is read without a process more.
			most = max(most, e.tasks(ctx, sb))
			time.Sleep(20 * time.Millisecond)
		}
	}
	t.Logf("%d answers; at most %d processes seen", answers, most)
	if most > pidsLimit {
		t.Errorf("there have been %d processes", most)
	}
	e.WaitGone(ctx, t)
	if r := e.Sh(ctx, t, "echo works"); string(r.Stdout) != "works\n" {
		t.Errorf("a later command says %q %q", r.Stdout, r.Stderr)
	}
}

// tasks counts the processes that the place sees, if it has a pid namespace of its own:
// else 0.
func (e *Env) tasks(ctx context.Context, sb *berth.Sandbox) int {
	if !e.Caps.Shielded {
		return 0
	}
	n := 0
	for entry, err := range sb.Files().List(ctx, "/proc") {
		if err == nil && strings.Trim(entry.Name, "0123456789") == "" {
			n++
		}
	}
	return n
}

func limitCPU(ctx context.Context, t T, e *Env) {
	sb := e.limited(ctx, t, spec.Limits{CPUMillis: cpuLimit})
	r := e.ExecIn(ctx, t, sb, berth.Shell("while :; do :; done"), berth.ExecOptions{Timeout: 3 * time.Second, Grace: -1})
	spent := r.UserTime + r.SystemTime
	t.Logf("%v of %v", spent, r.Duration)
	const slack = 1.3 // a period's worth at either end, and how coarsely time is counted
	if most := time.Duration(slack * cpuLimit / 1000 * float64(r.Duration)); spent > most {
		t.Errorf("the command has spent %v in %v; at most %v is half", spent, r.Duration, most)
	}
}

// hog takes memory until there is no more: with dd, or by a string that is doubled.
const hog = `command -v dd >/dev/null && exec dd if=/dev/zero of=/dev/null bs=256M count=1
x=0123456789abcdef; while :; do x=$x$x; done`

func limitMemory(ctx context.Context, t T, e *Env) {
	sb := e.limited(ctx, t, spec.Limits{MemoryBytes: memoryLimit})
	other := e.limited(ctx, t, spec.Limits{MemoryBytes: memoryLimit})
	p, err := other.Start(ctx, &berth.Command{Args: []string{"cat"}}, berth.Stdio{Stdin: blockingReader{ctx}})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	r := e.ExecIn(ctx, t, sb, berth.Shell(hog), berth.ExecOptions{Timeout: long})
	if r.TimedOut || r.Signal != int(spec.SIGKILL) {
		t.Errorf("code %d, signal %d, timed out %v, %q", r.ExitCode, r.Signal, r.TimedOut, r.Stderr)
	}
	if r := e.ExecIn(ctx, t, sb, berth.Shell("echo works"), berth.ExecOptions{}); string(r.Stdout) != "works\n" || r.OOM != nil {
		t.Errorf("a later command says %q %q, %+v", r.Stdout, r.Stderr, r.OOM)
	}
	if err := p.Kill(ctx); err != nil {
		t.Errorf("kill: %v", err)
	}
	exit, err := p.Wait(ctx)
	if err != nil || exit.OOM != nil {
		t.Errorf("a command in another place: %+v, %v", exit, err)
	}
}

// blockingReader has nothing to read before ctx ends.
type blockingReader struct{ ctx context.Context }

func (r blockingReader) Read([]byte) (int, error) {
	<-r.ctx.Done()
	return 0, r.ctx.Err()
}

// crowding fills the memory with processes of some 4 MiB each, less than a guest. It stays
// until most have grown: what is killed between two commands is told by none.
const crowding = `x=0123456789abcdef; i=0
while [ $i -lt 17 ]; do x=$x$x; i=$((i+1)); done
n=0
while [ $n -lt 64 ]; do (y=$x$x; sleep 300) >/dev/null 2>&1 & n=$((n+1)); done
sleep 1`

func limitSparesGuest(ctx context.Context, t T, e *Env) {
	sb := e.limited(ctx, t, spec.Limits{MemoryBytes: memoryLimit})
	e.Sandbox = sb
	id := sb.ID()
	r := e.Exec(ctx, t, berth.Shell(crowding), berth.ExecOptions{})
	told := r.OOM != nil
	for n := 0; !told && n < 10; n++ { // the last of them may still be growing
		r := e.Exec(ctx, t, []string{"sleep", "1"}, berth.ExecOptions{})
		told = r.OOM != nil
	}
	if !told {
		t.Errorf("memory did not run out: code %d, %q", r.ExitCode, r.Stderr)
	}
	if err := sb.Ping(ctx); err != nil {
		t.Fatalf("the place does not answer: %v", err)
	}
	if r := e.Sh(ctx, t, "echo works"); string(r.Stdout) != "works\n" || sb.ID() != id {
		t.Errorf("a later command says %q %q", r.Stdout, r.Stderr)
	}
}

func limitRestart(ctx context.Context, t T, e *Env) {
	stopper, ok := e.Driver.(driver.Stopper)
	if !ok {
		skip(t, "the backend stops nothing")
	}
	s := e.Keyed()
	s.Limits = spec.Limits{MemoryBytes: memoryLimit}
	e.needOffer(ctx, t, &s)
	for range 2 {
		sb := e.Provision(ctx, t, s)
		if r := e.ExecIn(ctx, t, sb, berth.Shell(hog), berth.ExecOptions{Timeout: long}); r.OOM == nil || r.OOM.LimitBytes != memoryLimit {
			t.Errorf("code %d, %+v, %q", r.ExitCode, r.OOM, r.Stderr)
		}
		if err := sb.Detach(ctx); err != nil {
			t.Errorf("detach: %v", err)
		}
		if err := stopper.Stop(ctx, s.Key, driver.ReapOptions{}); err != nil {
			t.Fatalf("stop: %v", err)
		}
	}
}
