package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// terminateCases are about ending what others have started, and seeing it. A backend
// without these operations answers unsupported to both, which is all that it is asked.
func terminateCases() []Case {
	return []Case{
		{Name: "TerminateEndsTheTree", Rule: "Terminate ends the whole tree of the command of a key, and says terminated only with proof; the exit says the same.", Need: needShell, Run: terminateTree},
		{Name: "TerminateByAnother", Rule: "A session that has not started a command ends it by its key.", Need: all(needShell, needKeyed), Run: terminateElse},
		{Name: "TerminateSaysTERMFirst", Rule: "TERM first and KILL after the grace; with a negative one KILL at once.", Need: needShell, Run: terminateGrace},
		{Name: "TerminateTheEnded", Rule: "already_exited where the command had ended before.", Need: needShell, Run: terminateEnded},
		{Name: "TerminateAgain", Rule: "A repeated call answers as the first one did.", Need: needShell, Run: terminateAgain},
		{Name: "TerminateAtOnce", Rule: "Concurrent calls end the command once and answer the same.", Need: needShell, Run: terminateConcurrent},
		{Name: "TerminateTheUnknown", Rule: "already_exited where no command with that key is known and the guest has lived since the place was made.", Run: terminateUnknown},
		{Name: "TerminateWhileItStarts", Rule: "Terminate while the command starts ends it, or finds that there is none.", Need: needShell, Run: terminateStarting},
		{Name: "TerminateAJob", Rule: "Terminate ends a job by its key, whoever owns it; its record is that of a killed one, and it answers the same again.", Need: all(needShell, needJobs), Run: terminateJob},
		{Name: "TerminateAmbiguous", Rule: "Where several owners have a job with the key nothing is ended; that of the owner without a name goes first.", Need: all(needShell, needJobs), Run: terminateAmbiguous},
		{Name: "TerminateSparesOthers", Rule: "Terminate ends nothing but the tree of its command.", Need: needShell, Own: true, Run: terminateOthers},
		{Name: "TerminateAfterARestart", Rule: "unknown, where what the place knew was lost with an earlier guest.", Need: all(needShell, needKeyed), Run: terminateRestart},
		{Name: "RunningLists", Rule: "Running lists the commands and jobs whose leaders have not ended, whoever started them, the oldest first.", Need: all(needShell, needJobs), Own: true, Run: runningLists},
		{Name: "RunningNamesTheLeader", Rule: "pid and start ticks identify the leader as the place sees it.", Need: needShell, Own: true, Run: runningIdentity},
	}
}

// terminate is Terminate; a backend that has no such operation has to say so.
func (e *Env) terminate(ctx context.Context, t T, sb *berth.Sandbox, key string, grace time.Duration) (outcome spec.KillOutcome, ok bool) {
	t.Helper()
	outcome, err := sb.Terminate(ctx, key, grace)
	if errors.Is(err, spec.ErrUnsupported) {
		t.Logf("not supported: %v", err)
		return "", false
	}
	if err != nil {
		t.Fatalf("terminate %s: %v", key, err)
	}
	return outcome, true
}

// startKeyed starts a script that says "ready" under a key.
func (e *Env) startKeyed(ctx context.Context, t T, sb *berth.Sandbox, script string) *berth.Cmd {
	t.Helper()
	c := sb.CommandContext(ctx, "/bin/sh", "-c", script)
	c.Env = []string{markName + "=" + e.Mark}
	c.Key = "key-" + randomHex()
	e.startReady(t, c)
	return c
}

// wantKilled wants an outcome that a place may give of a command that ran.
func (e *Env) wantKilled(t T, outcome spec.KillOutcome) {
	t.Helper()
	if outcome != spec.KillTerminated && (outcome != spec.KillUnknown || e.Caps.KillTree == spec.KillTreeConfirmed) {
		t.Errorf("the answer is %q, of a place whose tree kill is %q", outcome, e.Caps.KillTree)
	}
}

// waitKilled returns how a command ended that was killed.
func waitKilled(t T, c *berth.Cmd) berth.Exit {
	t.Helper()
	var exit *berth.ExitError
	if err := c.Wait(); !errors.As(err, &exit) {
		t.Fatalf("wait: %v; want an exit", err)
	}
	return exit.Exit
}

func terminateTree(ctx context.Context, t T, e *Env) {
	c := e.startKeyed(ctx, t, e.Sandbox, `sleep 300 & (sleep 300; :) & ( ( sleep 300 & ) & ); echo ready; sleep 300`)
	outcome, ok := e.terminate(ctx, t, e.Sandbox, c.Key, short)
	if !ok {
		return
	}
	e.wantKilled(t, outcome)
	exit := waitKilled(t, c)
	if exit.Kill != outcome || exit.TimedOut {
		t.Errorf("the exit says %q, timed out %v; the answer was %q", exit.Kill, exit.TimedOut, outcome)
	}
	e.WaitGone(ctx, t)
}

func terminateElse(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	c := e.startKeyed(ctx, t, sb, "echo ready; sleep 300")
	outcome, ok := e.terminate(ctx, t, e.Attach(ctx, t, s.Key), c.Key, short)
	if !ok {
		return
	}
	e.wantKilled(t, outcome)
	if exit := waitKilled(t, c); exit.Kill != outcome {
		t.Errorf("the exit says %q; the answer was %q", exit.Kill, outcome)
	}
}

func terminateGrace(ctx context.Context, t T, e *Env) {
	c := e.startKeyed(ctx, t, e.Sandbox, `trap 'kill -9 $p; exit 4' TERM; sleep 300 & p=$!; echo ready; wait`)
	if _, ok := e.terminate(ctx, t, e.Sandbox, c.Key, long); !ok {
		return
	}
	if exit := waitKilled(t, c); exit.Code != 4 || exit.Signal != 0 {
		t.Errorf("with a grace: code %d, signal %d; want what the trap does, 4", exit.Code, exit.Signal)
	}
	c = e.startKeyed(ctx, t, e.Sandbox, `trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done`)
	e.terminate(ctx, t, e.Sandbox, c.Key, -1)
	if exit := waitKilled(t, c); exit.Signal != int(spec.SIGKILL) {
		t.Errorf("without a grace: code %d, signal %d; want signal 9", exit.Code, exit.Signal)
	}
	e.WaitGone(ctx, t)
}

func terminateEnded(ctx context.Context, t T, e *Env) {
	c := e.startKeyed(ctx, t, e.Sandbox, "echo ready; exit 3")
	if exit := waitKilled(t, c); exit.Code != 3 || exit.Kill != spec.KillNone {
		t.Errorf("%+v; want code 3 and no kill", exit)
	}
	for range 2 {
		if outcome, ok := e.terminate(ctx, t, e.Sandbox, c.Key, short); ok && outcome != spec.KillExited {
			t.Errorf("the answer is %q; want already_exited", outcome)
		}
	}
}

func terminateAgain(ctx context.Context, t T, e *Env) {
	c := e.startKeyed(ctx, t, e.Sandbox, "echo ready; sleep 300")
	first, ok := e.terminate(ctx, t, e.Sandbox, c.Key, -1)
	if !ok {
		return
	}
	waitKilled(t, c)
	for range 2 {
		if again, _ := e.terminate(ctx, t, e.Sandbox, c.Key, short); again != first {
			t.Errorf("%q, and then %q", first, again)
		}
	}
}

func terminateConcurrent(ctx context.Context, t T, e *Env) {
	c := e.startKeyed(ctx, t, e.Sandbox, `trap "" TERM; echo ready; while :; do sleep 0.05; done`)
	const callers = 8
	outcomes, errs := make([]spec.KillOutcome, callers), make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { outcomes[i], errs[i] = e.Sandbox.Terminate(ctx, c.Key, short) })
	}
	all.Wait()
	if errors.Is(errs[0], spec.ErrUnsupported) {
		return
	}
	for i := range callers {
		if errs[i] != nil || outcomes[i] != outcomes[0] {
			t.Errorf("%q, %v; another was told %q", outcomes[i], errs[i], outcomes[0])
		}
	}
	e.wantKilled(t, outcomes[0])
	if exit := waitKilled(t, c); exit.Kill != outcomes[0] {
		t.Errorf("the exit says %q; the answer was %q", exit.Kill, outcomes[0])
	}
}

func terminateUnknown(ctx context.Context, t T, e *Env) {
	if outcome, ok := e.terminate(ctx, t, e.Sandbox, "never-"+randomHex(), short); ok && outcome != spec.KillExited {
		t.Errorf("the answer is %q; want already_exited", outcome)
	}
	for _, key := range []string{"", strings.Repeat("k", spec.MaxKeyBytes+1)} {
		_, err := e.Sandbox.Terminate(ctx, key, short)
		wantError(t, "a key that cannot be", err, spec.ErrInvalid)
	}
}

func terminateStarting(ctx context.Context, t T, e *Env) {
	for range 8 {
		key := "key-" + randomHex()
		c := e.Cmd(ctx, "/bin/sh", "-c", "sleep 300")
		c.Key = key
		started := make(chan error, 1)
		go func() { started <- c.Start() }()
		if _, ok := e.terminate(ctx, t, e.Sandbox, key, -1); !ok {
			<-started
			_ = c.Kill(ctx)
			return
		}
		if err := <-started; err != nil {
			t.Fatalf("start: %v", err)
		}
		// Where there was none yet, there is one now.
		if outcome, _ := e.terminate(ctx, t, e.Sandbox, key, -1); outcome == "" {
			t.Errorf("no answer")
		}
		if exit := waitKilled(t, c); exit.Signal != int(spec.SIGKILL) {
			t.Errorf("%+v; want signal 9", exit)
		}
	}
}

func terminateJob(ctx context.Context, t T, e *Env) {
	for _, owner := range []string{"", "owner-" + randomHex()} {
		jobs := e.Sandbox.Jobs(owner)
		key := "key-" + randomHex()
		j := e.start(ctx, t, jobs, "sleep 300 & exec sleep 300", berth.JobOptions{Key: key})
		first, ok := e.terminate(ctx, t, e.Sandbox, key, -1)
		if !ok {
			return
		}
		e.wantKilled(t, first)
		info, err := j.Wait(ctx)
		if err != nil || info.State != berth.JobKilled || info.Exit.Kill != first {
			t.Errorf("the record: %+v, %v; the answer was %q", info, err, first)
		}
		if again, _ := e.terminate(ctx, t, e.Sandbox, key, -1); again != first {
			t.Errorf("%q, and then %q", first, again)
		}
	}
	key := "key-" + randomHex()
	e.runJob(ctx, t, e.Sandbox.Jobs(""), "exit 0", berth.JobOptions{Key: key})
	if outcome, _ := e.terminate(ctx, t, e.Sandbox, key, -1); outcome != spec.KillExited {
		t.Errorf("of a job that had ended: %q", outcome)
	}
}

func terminateAmbiguous(ctx context.Context, t T, e *Env) {
	key := "key-" + randomHex()
	one, two, nobody := e.jobs(), e.jobs(), e.Sandbox.Jobs("")
	first := e.start(ctx, t, one, "exec sleep 300", berth.JobOptions{Key: key})
	second := e.start(ctx, t, two, "exec sleep 300", berth.JobOptions{Key: key})
	_, err := e.Sandbox.Terminate(ctx, key, -1)
	if errors.Is(err, spec.ErrUnsupported) {
		return
	}
	wantError(t, "a key of two owners", err, spec.ErrInvalid)
	third := e.start(ctx, t, nobody, "exec sleep 300", berth.JobOptions{Key: key})
	e.terminate(ctx, t, e.Sandbox, key, -1)
	if info, err := third.Wait(ctx); err != nil || info.State != berth.JobKilled {
		t.Errorf("that of the owner without a name: %+v, %v", info, err)
	}
	for _, j := range []*berth.Job{first, second} {
		if info, err := j.Info(ctx); err != nil || !info.Running() {
			t.Errorf("that of another: %+v, %v", info, err)
		}
		if _, err := j.Kill(ctx, -1); err != nil {
			t.Errorf("kill: %v", err)
		}
	}
}

func terminateOthers(ctx context.Context, t T, e *Env) {
	background := e.file("background")
	e.Sh(ctx, t, "sleep 300 & echo $! >"+background)
	// Each is a shell and an orphan of it, and says so when nothing else of it is left.
	tree := func() (c *berth.Cmd, pids string) {
		pids = e.file("pids")
		return e.startKeyed(ctx, t, e.Sandbox, fmt.Sprintf("( ( sleep 300 & echo $$ $! >%[1]s.new; mv %[1]s.new %[1]s ) & ); until test -s %[1]s; do sleep 0.01; done; echo ready; sleep 300", pids)), pids
	}
	other, spared := tree()
	c, ended := tree()
	outcome, ok := e.terminate(ctx, t, e.Sandbox, c.Key, -1)
	if !ok {
		return
	}
	e.wantKilled(t, outcome)
	waitKilled(t, c)
	alive := "for p in $(cat %s); do kill -0 $p && echo lives; done 2>/dev/null"
	if r := e.Sh(ctx, t, fmt.Sprintf(alive, background+" "+spared)); string(r.Stdout) != "lives\nlives\nlives\n" {
		t.Errorf("of the background child of another command, and of a command and its orphan: %q", r.Stdout)
	}
	if r := e.Sh(ctx, t, fmt.Sprintf(alive, ended)); len(r.Stdout) > 0 && outcome == spec.KillTerminated {
		t.Errorf("of the command that was ended, and its orphan: %q", r.Stdout)
	}
	e.terminate(ctx, t, e.Sandbox, other.Key, -1)
	waitKilled(t, other)
}

func terminateRestart(ctx context.Context, t T, e *Env) {
	stopper, ok := e.Driver.(driver.Stopper)
	if !ok {
		t.Logf("the backend stops no places")
		return
	}
	s := e.Keyed()
	c := e.startKeyed(ctx, t, e.Provision(ctx, t, s), "echo ready; sleep 300")
	if err := stopper.Stop(ctx, s.Key, driver.ReapOptions{}); err != nil {
		t.Fatalf("stop: %v", err)
	}
	_ = c.Wait()
	if outcome, ok := e.terminate(ctx, t, e.Provision(ctx, t, s), c.Key, -1); ok && outcome != spec.KillUnknown {
		t.Errorf("a key of an earlier guest's: %q; want unknown", outcome)
	}
}

// runningIn lists what runs; a backend that has no such operation has to say so.
func (e *Env) runningIn(ctx context.Context, t T, sb *berth.Sandbox) (list []berth.Running, ok bool) {
	t.Helper()
	list, err := sb.Running(ctx)
	if errors.Is(err, spec.ErrUnsupported) {
		t.Logf("not supported: %v", err)
		return nil, false
	}
	if err != nil {
		t.Fatalf("running: %v", err)
	}
	return list, true
}

func runningLists(ctx context.Context, t T, e *Env) {
	if list, ok := e.runningIn(ctx, t, e.Sandbox); !ok {
		return
	} else if len(list) > 0 {
		t.Errorf("in a new place: %+v", list)
	}
	c := e.startKeyed(ctx, t, e.Sandbox, "sleep 300 & echo ready; sleep 300")
	jobs := e.jobs()
	j := e.start(ctx, t, jobs, "exec sleep 300", berth.JobOptions{Key: "k"})
	e.Sh(ctx, t, "true")
	list, _ := e.runningIn(ctx, t, e.Sandbox)
	if len(list) != 2 {
		t.Fatalf("%+v; want the command and the job", list)
	}
	first, second := list[0], list[1]
	if first.Key != c.Key || first.Job || first.Owner != "" || first.ID == "" || first.Name != "/bin/sh" {
		t.Errorf("the command: %+v", first)
	}
	if second.ID != j.ID() || !second.Job || second.Owner != jobs.Owner() || second.Key != "k" || second.Started.Before(first.Started) {
		t.Errorf("the job: %+v", second)
	}
	e.terminate(ctx, t, e.Sandbox, c.Key, -1)
	waitKilled(t, c)
	if _, err := j.Kill(ctx, -1); err != nil {
		t.Errorf("kill: %v", err)
	}
	if list, _ := e.runningIn(ctx, t, e.Sandbox); len(list) > 0 {
		t.Errorf("after the end: %+v", list)
	}
}

func runningIdentity(ctx context.Context, t T, e *Env) {
	name := e.file("identity")
	c := e.startKeyed(ctx, t, e.Sandbox, `read -r stat </proc/$$/stat; set -- ${stat##*) }; shift 19; echo ready; echo "$$ $1" >`+name+`; sleep 300; :`)
	list, ok := e.runningIn(ctx, t, e.Sandbox)
	if !ok {
		return
	}
	if len(list) != 1 || list[0].PID <= 0 || list[0].StartTicks == 0 {
		t.Fatalf("%+v; want one command with its pid and when it started", list)
	}
	var said []byte
	if !e.Eventually(ctx, func() bool {
		said, _ = e.Sandbox.Files().ReadFile(ctx, name)
		return strings.HasSuffix(string(said), "\n")
	}) {
		t.Fatalf("the command does not say who it is")
	}
	if want := fmt.Sprintf("%d %d\n", list[0].PID, list[0].StartTicks); string(said) != want {
		t.Errorf("the command is %q, and is listed as %q", said, want)
	}
	e.terminate(ctx, t, e.Sandbox, c.Key, -1)
	waitKilled(t, c)
}
