package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func needJobs(c spec.Caps) string {
	if c.Jobs == spec.JobsNone {
		return "jobs"
	}
	return needShell(c)
}

// needDurable needs jobs that outlive their client.
func needDurable(c spec.Caps) string {
	if !c.Keyed {
		return "keyed"
	}
	return needJobs(c)
}

// jobCases are about jobs: their life, and what is known of them.
func jobCases() []Case {
	return []Case{
		{Name: "JobStartReturnsAtOnce", Rule: "StartJob returns once the job runs; it does not wait for its end.", Need: needJobs, Run: jobStart},
		{Name: "JobIDsCount", Rule: "Ids are job-1, job-2, ...: unique in the place, never used again, and given for a start that succeeded.", Need: needJobs, Own: true, Run: jobIDs},
		{Name: "JobRunsLikeACommand", Rule: "A job has the command's directory, environment and an empty input.", Need: needJobs, Run: jobEnviron},
		{Name: "JobThatCannotStart", Rule: "A program that cannot be started is start_failed, a bad directory invalid_path, and no job is left of it.", Need: needJobs, Run: jobNoStart},
		{Name: "JobOptionsAreChecked", Rule: "Options that cannot be meant are invalid before anything runs.", Need: needJobs, Run: jobOptions},
		{Name: "JobExitIsTrue", Rule: "exit code 128+n and Signal after a death by a signal; the state is killed only when we killed.", Need: needJobs, Run: jobExit},
		{Name: "JobWaitIsBounded", Rule: "ctx bounds the waiting only; waiting for what has ended returns at once.", Need: needJobs, Run: jobWait},
		{Name: "JobKillEndsTheTree", Rule: "Kill returns when the tree is gone and the log complete; a second one, and one of an ended job, is no error.", Need: needJobs, Run: jobKill},
		{Name: "JobKillSaysTERMFirst", Rule: "Kill is TERM, a grace, KILL; a job that heeds TERM ends by itself and is killed all the same.", Need: needJobs, Run: jobKillGrace},
		{Name: "JobKillsAtOnceAgree", Rule: "Several kills and waits at once end in one record.", Need: needJobs, Run: jobKillTogether},
		{Name: "JobTimesOut", Rule: "A job has no deadline but its own; at it the tree dies, and the state is killed.", Need: needJobs, Run: jobTimeout},
		{Name: "JobKeyIsIdempotent", Rule: "While the job is remembered a repeated key returns its record and nothing runs again.", Need: needJobs, Run: jobKey},
		{Name: "JobOfAnotherOwnerIsUnknown", Rule: "An unknown id and another owner's are not_found alike, to every call.", Need: needDurable, Run: jobUnknown},
		{Name: "JobListKeepsTheEnded", Rule: "List has the running and the ended, the oldest first, of this owner only.", Need: needJobs, Run: jobList},
		{Name: "JobIsNotACommandOfItsClient", Rule: "A job is not ended by the end of the client that started it.", Need: needDurable, Run: jobOutlives},
		{Name: "JobIsCollectedByAnother", Rule: "A job is found and collected by another client after the first one was dropped without a word.", Need: needDurable, Run: jobDropped},
		{Name: "JobEndsWithItsPlace", Rule: "Reap ends the jobs of the place; no process is left.", Need: needDurable, Run: jobReaped},
		{Name: "JobKeepsThePlaceFromIdling", Rule: "A job keeps the idle timer from running.", Need: needDurable, Run: jobIdle},
		{Name: "JobRecordSurvivesAStop", Rule: "Records and logs stay in the place's state when it is stopped and started; what the stop ended is killed.", Need: needDurable, Run: jobStopped},
		{Name: "JobsInACrowd", Rule: "1,000 jobs at once leave exec latency unchanged, and each is true.", Need: needJobs, Soak: true, Run: jobCrowd},
	}
}

// jobs returns the jobs of an owner that no other case has. What runs of them is killed
// after the case.
func (e *Env) jobs() *berth.Jobs { return e.jobsIn(e.Sandbox) }

func (e *Env) jobsIn(sb *berth.Sandbox) *berth.Jobs {
	jobs := sb.Jobs("case-" + randomHex())
	e.Cleanup(func(ctx context.Context) error { return killAllJobs(ctx, jobs) })
	return jobs
}

// killAllJobs kills the owner's jobs that run, many at once.
func killAllJobs(ctx context.Context, jobs *berth.Jobs) error {
	list, err := jobs.List(ctx)
	if err != nil {
		return err
	}
	const atOnce = 64
	var all sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, atOnce)
	for _, info := range list {
		if !info.Running() {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			j, getErr := jobs.Get(ctx, info.ID)
			if getErr == nil {
				_, getErr = j.Kill(ctx, -1)
			}
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, getErr)
		})
	}
	all.Wait()
	return err
}

// start starts a script as a job that carries the case's mark; an error is fatal.
func (e *Env) start(ctx context.Context, t T, jobs *berth.Jobs, script string, o berth.JobOptions) *berth.Job {
	t.Helper()
	env := map[string]string{markName: e.Mark}
	for name, value := range o.Env {
		env[name] = value
	}
	o.Env = env
	j, err := jobs.Start(ctx, berth.Shell(script), o)
	if err != nil {
		t.Fatalf("start a job: %v", err)
	}
	return j
}

// ended waits for a job; an error is fatal.
func (e *Env) ended(ctx context.Context, t T, j *berth.Job) berth.JobInfo {
	t.Helper()
	info, err := j.Wait(ctx)
	if err != nil {
		t.Fatalf("wait for %s: %v", j.ID(), err)
	}
	return info
}

// info describes a job; an error is fatal.
func (e *Env) info(ctx context.Context, t T, j *berth.Job) berth.JobInfo {
	t.Helper()
	info, err := j.Info(ctx)
	if err != nil {
		t.Fatalf("describe %s: %v", j.ID(), err)
	}
	return info
}

// runJob runs a script as a job to its end.
func (e *Env) runJob(ctx context.Context, t T, jobs *berth.Jobs, script string, o berth.JobOptions) (*berth.Job, berth.JobInfo) {
	t.Helper()
	j := e.start(ctx, t, jobs, script, o)
	return j, e.ended(ctx, t, j)
}

func jobStart(ctx context.Context, t T, e *Env) {
	began := time.Now()
	j := e.start(ctx, t, e.jobs(), "echo begun; exec sleep 300", berth.JobOptions{})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the start took %v", took)
	}
	info := e.info(ctx, t, j)
	if info.State != spec.JobRunning || !info.Running() || info.PID <= 0 || info.Started.IsZero() || !info.Ended.IsZero() || info.ID != j.ID() {
		t.Errorf("%+v; want a running job", info)
	}
	if !slices.Equal(info.Args, berth.Shell("echo begun; exec sleep 300")) {
		t.Errorf("args %q", info.Args)
	}
	var pids []string
	if !e.Eventually(ctx, func() bool { // one that executes a program just now has no environment, and is not found
		pids = e.Marked(ctx, t, e.Sandbox, e.Mark)
		return slices.Contains(pids, fmt.Sprint(info.PID))
	}) {
		t.Errorf("processes %v; want pid %d among them", pids, info.PID)
	}
	if info, err := j.Kill(ctx, -1); err != nil || info.State != spec.JobKilled {
		t.Errorf("kill: %+v, %v", info, err)
	}
	e.WaitGone(ctx, t)
}

func jobIDs(ctx context.Context, t T, e *Env) {
	jobs := e.jobs()
	var ids []string
	for range 3 {
		j, _ := e.runJob(ctx, t, jobs, "exit 0", berth.JobOptions{})
		ids = append(ids, j.ID())
	}
	if !slices.Equal(ids, []string{"job-1", "job-2", "job-3"}) {
		t.Errorf("ids %v", ids)
	}
}

func jobEnviron(ctx context.Context, t T, e *Env) {
	dir := e.file("dir")
	if err := e.Sandbox.Files().Mkdir(ctx, dir, files.MkdirOptions{}); err != nil {
		t.Fatalf("mkdir: %v", err)
	}
	j, info := e.runJob(ctx, t, e.jobs(), `pwd; echo "$GREETING"; cat; echo end`, berth.JobOptions{Dir: dir, Env: map[string]string{"GREETING": "a b\n'c'"}})
	if info.State != spec.JobExited || info.Exit.Code != 0 || info.Dir != dir {
		t.Errorf("%+v", info)
	}
	log := string(e.log(ctx, t, j))
	_, rest, _ := strings.Cut(log, "\n")
	if !strings.HasPrefix(log, "/") || !strings.Contains(log, "/"+dir+"\n") || rest != "a b\n'c'\nend\n" {
		t.Errorf("log %q", log)
	}
}

func jobNoStart(ctx context.Context, t T, e *Env) {
	jobs := e.jobs()
	_, err := jobs.Start(ctx, []string{"/no/such/program"}, berth.JobOptions{})
	wantError(t, "a missing program", err, spec.ErrStartFailed)
	_, err = jobs.Start(ctx, []string{"true"}, berth.JobOptions{Dir: "no/such/directory"})
	wantError(t, "a missing directory", err, spec.ErrInvalidPath)
	list, err := jobs.List(ctx)
	if err != nil || len(list) != 0 {
		t.Errorf("jobs %+v, %v; want none", list, err)
	}
	// A key whose start failed is free.
	_, err = jobs.Start(ctx, []string{"/no/such/program"}, berth.JobOptions{Key: "k"})
	wantError(t, "a missing program with a key", err, spec.ErrStartFailed)
	if _, err := jobs.Start(ctx, []string{"true"}, berth.JobOptions{Key: "k"}); err != nil {
		t.Errorf("the key again: %v", err)
	}
}

func jobOptions(ctx context.Context, t T, e *Env) {
	jobs := e.jobs()
	for name, o := range map[string]berth.JobOptions{
		"stall": {StallAfter: -1}, "log": {MaxLogBytes: -1}, "a huge log": {MaxLogBytes: 1 << 60}, "timeout": {Timeout: -1}, "env": {Env: map[string]string{"a=b": ""}},
	} {
		_, err := jobs.Start(ctx, []string{"true"}, o)
		wantError(t, name, err, spec.ErrInvalid)
	}
	_, err := jobs.Start(ctx, nil, berth.JobOptions{})
	wantError(t, "no program", err, spec.ErrInvalid)
	_, err = e.Sandbox.Jobs("bad owner\n").List(ctx)
	wantError(t, "a bad owner", err, spec.ErrInvalid)
}

func jobExit(ctx context.Context, t T, e *Env) {
	jobs := e.jobs()
	for _, c := range []struct {
		script       string
		code, signal int
	}{{"exit 0", 0, 0}, {"exit 3", 3, 0}, {"exit 137", 137, 0}, {"kill -9 $$", 137, 9}, {"kill -15 $$", 143, 15}, {"kill -9 $$ & wait", 137, 9}} {
		_, info := e.runJob(ctx, t, jobs, c.script, berth.JobOptions{})
		x := info.Exit
		if info.State != spec.JobExited || x.Code != c.code || x.Signal != c.signal || x.TimedOut || x.Kill != spec.KillNone || info.Ended.Before(info.Started) {
			t.Errorf("%s: %+v; want exited with code %d, signal %d", c.script, info, c.code, c.signal)
		}
	}
}

func jobWait(ctx context.Context, t T, e *Env) {
	j := e.start(ctx, t, e.jobs(), "exec sleep 300", berth.JobOptions{})
	little, cancel := context.WithTimeout(ctx, short)
	defer cancel()
	_, err := j.Wait(little)
	wantError(t, "a wait that is over", err, context.DeadlineExceeded)
	if !e.info(ctx, t, j).Running() {
		t.Errorf("the job ended with the wait")
	}
	type answer struct {
		info berth.JobInfo
		err  error
	}
	waits := make(chan answer, 3)
	for range cap(waits) {
		go func() {
			info, err := j.Wait(ctx)
			waits <- answer{info, err}
		}()
	}
	killed, err := j.Kill(ctx, -1)
	if err != nil {
		t.Fatalf("kill: %v", err)
	}
	for range cap(waits) {
		if a := <-waits; a.err != nil || a.info.ID != killed.ID || a.info.State != spec.JobKilled || a.info.Exit.Code != killed.Exit.Code {
			t.Errorf("a wait answers %+v, %v", a.info, a.err)
		}
	}
	if again := e.ended(ctx, t, j); again.Exit.Signal != killed.Exit.Signal {
		t.Errorf("afterwards %+v", again)
	}
}

func jobKill(ctx context.Context, t T, e *Env) {
	const script = `trap "" TERM; (trap "" TERM; sleep 300) & (sleep 300; :) & i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done`
	j := e.start(ctx, t, e.jobs(), script, berth.JobOptions{})
	e.Eventually(ctx, func() bool { return e.info(ctx, t, j).LogLines > 3 })
	info, err := j.Kill(ctx, short)
	if err != nil {
		t.Fatalf("kill: %v", err)
	}
	if left := e.Marked(ctx, t, e.Sandbox, e.Mark); len(left) > 0 {
		t.Errorf("processes %v are left when kill has returned", left)
	}
	log := e.log(ctx, t, j)
	lines, err := j.Lines(ctx, 1, 1)
	if info.State != spec.JobKilled || info.Exit.Signal != 9 || info.Exit.Code != 137 || info.LogBytes != int64(len(log)) || err != nil || !lines.Complete {
		t.Errorf("%+v, log of %d bytes, %+v, %v", info, len(log), lines, err)
	}
	again, err := j.Kill(ctx, 0)
	if err != nil || again.State != spec.JobKilled || !again.Ended.Equal(info.Ended) {
		t.Errorf("the second kill: %+v, %v", again, err)
	}
	over, _ := e.runJob(ctx, t, e.jobs(), "exit 5", berth.JobOptions{})
	if info, err := over.Kill(ctx, 0); err != nil || info.State != spec.JobExited || info.Exit.Code != 5 {
		t.Errorf("kill of an ended job: %+v, %v", info, err)
	}
}

func jobKillGrace(ctx context.Context, t T, e *Env) {
	over, _ := e.runJob(ctx, t, e.jobs(), "exit 0", berth.JobOptions{})
	_, err := over.Kill(ctx, spec.MaxTimeout+1)
	wantError(t, "a grace that is too long", err, spec.ErrInvalid)
	j := e.start(ctx, t, e.jobs(), `exec 2>/dev/null; trap "echo bye; exit 7" TERM; echo ready; while :; do sleep 0.05; done`, berth.JobOptions{}) // to stderr goes what a shell says of a child that was ended too
	e.Eventually(ctx, func() bool { return e.info(ctx, t, j).LogLines > 0 })
	info, err := j.Kill(ctx, long)
	if err != nil || info.State != spec.JobKilled || info.Exit.Code != 7 || info.Exit.Signal != 0 {
		t.Errorf("%+v, %v; want killed with code 7", info, err)
	}
	wantText(t, "log", e.log(ctx, t, j), "ready\nbye\n")
}

func jobKillTogether(ctx context.Context, t T, e *Env) {
	j := e.start(ctx, t, e.jobs(), `trap "" TERM; while :; do sleep 0.05; done`, berth.JobOptions{})
	errs := make(chan error, 8)
	ends := make(chan time.Time, cap(errs))
	for i := range cap(errs) {
		go func() {
			grace := short
			if i == 3 {
				grace = -1 // in a hurry: the others are not held up
			}
			info, err := j.Kill(ctx, grace)
			ends <- info.Ended
			errs <- err
		}()
	}
	first := <-ends
	for i := range cap(errs) {
		if err := <-errs; err != nil {
			t.Errorf("kill: %v", err)
		}
		if i > 0 {
			if end := <-ends; !end.Equal(first) {
				t.Errorf("the job ended at %v and at %v", first, end)
			}
		}
	}
	e.WaitGone(ctx, t)
}

func jobTimeout(ctx context.Context, t T, e *Env) {
	j, info := e.runJob(ctx, t, e.jobs(), "echo begun; (sleep 300; :) & sleep 300", berth.JobOptions{Timeout: 2 * time.Second, Grace: -1})
	if info.State != spec.JobKilled || !info.Exit.TimedOut {
		t.Errorf("%+v; want killed, timed out", info)
	}
	wantText(t, "log", e.log(ctx, t, j), "begun\n")
	_, info = e.runJob(ctx, t, e.jobs(), "echo begun; sleep 300", berth.JobOptions{NoOutputTimeout: short, Grace: -1})
	if info.State != spec.JobKilled || !info.Exit.TimedOut || !info.Exit.NoOutput {
		t.Errorf("%+v; want killed for its silence", info)
	}
	e.WaitGone(ctx, t)
}

func jobKey(ctx context.Context, t T, e *Env) {
	jobs, file := e.jobs(), e.file("ran")
	ids := make(chan string, 6)
	for range cap(ids) {
		go func() {
			j, err := jobs.Start(ctx, berth.Shell("echo once >>"+file+"; exit 3"), berth.JobOptions{Key: "the-key"})
			if err != nil {
				ids <- err.Error()
				return
			}
			ids <- j.ID()
		}()
	}
	first := <-ids
	for range cap(ids) - 1 {
		if id := <-ids; id != first {
			t.Errorf("%q and %q under one key", first, id)
		}
	}
	j, err := jobs.Get(ctx, first)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	if info := e.ended(ctx, t, j); info.Exit.Code != 3 {
		t.Errorf("%+v", info)
	}
	again, err := jobs.Start(ctx, []string{"true"}, berth.JobOptions{Key: "the-key"})
	if err != nil || again.ID() != first {
		t.Errorf("the key of an ended job: %v, %v", again, err)
	}
	other, info := e.runJob(ctx, t, e.jobs(), "exit 0", berth.JobOptions{Key: "the-key"})
	if other.ID() == first || info.Exit.Code != 0 {
		t.Errorf("another owner's key finds %s", other.ID())
	}
	data, err := e.Sandbox.Files().ReadFile(ctx, file)
	if err != nil {
		t.Errorf("read: %v", err)
	}
	wantText(t, "what ran", data, "once\n")
}

func jobUnknown(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	j := e.start(ctx, t, sb.Jobs("mine"), "exec sleep 300", berth.JobOptions{})
	session, err := e.Open(t).Attach(ctx, s.Key, driver.AttachOptions{})
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	e.Cleanup(session.Close)
	jobber, owner := session.(driver.Jobber), "stranger"
	for name, id := range map[string]string{"another owner's": j.ID(), "never given": "job-987654321", "no id": "../x", "empty": ""} {
		for call, try := range map[string]func() error{
			"list": func() error {
				_, err := jobber.Jobs(ctx, spec.JobQuery{Owner: owner, IDs: []string{id}})
				return err
			},
			"wait":      func() error { _, err := jobber.WaitJob(ctx, owner, id); return err },
			"kill":      func() error { _, err := jobber.KillJob(ctx, owner, id, -1); return err },
			"log":       func() error { _, err := jobber.OpenLog(ctx, owner, id, spec.LogWindow{}); return err },
			"hand over": func() error { _, err := jobber.HandOver(ctx, owner, "x", []string{id}); return err },
		} {
			wantError(t, name+": "+call, try(), spec.ErrNotFound)
		}
	}
	if !e.info(ctx, t, j).Running() {
		t.Errorf("a stranger ended the job")
	}
}

func jobList(ctx context.Context, t T, e *Env) {
	jobs := e.jobs()
	var want []string
	for i := range 4 {
		script := "exit 0"
		if i%2 == 1 {
			script = "exec sleep 300"
		}
		j := e.start(ctx, t, jobs, script, berth.JobOptions{})
		if i%2 == 0 {
			e.ended(ctx, t, j)
		}
		want = append(want, j.ID())
	}
	list, err := jobs.List(ctx)
	var got []string
	for i, info := range list {
		got = append(got, info.ID)
		if info.Running() != (i%2 == 1) {
			t.Errorf("%+v", info)
		}
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("listed %v, %v; want %v", got, err, want)
	}
}
