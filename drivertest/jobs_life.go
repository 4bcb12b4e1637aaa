package drivertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

func jobOutlives(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	first := e.Provision(ctx, t, s)
	owner := "case-" + randomHex()
	j := e.start(ctx, t, first.Jobs(owner), "echo begun; sleep 1; echo ended; exit 4", berth.JobOptions{})
	if err := first.Detach(ctx); err != nil {
		t.Fatalf("detach: %v", err)
	}
	jobs := e.Attach(ctx, t, s.Key).Jobs(owner)
	found, err := jobs.Get(ctx, j.ID())
	if err != nil {
		t.Fatalf("another client: %v", err)
	}
	if info := e.ended(ctx, t, found); info.State != spec.JobExited || info.Exit.Code != 4 {
		t.Errorf("%+v; want exited with 4", info)
	}
	wantText(t, "log", e.log(ctx, t, found), "begun\nended\n")
}

func jobDropped(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	session, err := e.Open(t).Provision(ctx, &s, driver.ProvisionOptions{})
	if err != nil {
		t.Fatalf("provision: %v", err)
	}
	// It is never used again, and closed only so that the case leaves nothing here.
	e.Cleanup(session.Close)
	jobber := session.(driver.Jobber)
	c := &spec.Command{Args: berth.Shell("echo one; sleep 1; echo two"), Key: "k", Env: map[string]string{markName: e.Mark}}
	info, err := jobber.StartJob(ctx, c, spec.JobOptions{Owner: "me"})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	jobs := e.Attach(ctx, t, s.Key).Jobs("me")
	again, err := jobs.Start(ctx, c.Args, berth.JobOptions{Key: "k"})
	if err != nil || again.ID() != info.ID {
		t.Fatalf("the key finds %v, %v; want %s", again, err, info.ID)
	}
	told := e.watchEnds(ctx, t, jobs)
	if got := e.ended(ctx, t, again); got.State != spec.JobExited {
		t.Errorf("%+v", got)
	}
	if id := <-told; id != info.ID {
		t.Errorf("told of %q; want %q", id, info.ID)
	}
	wantText(t, "log", e.log(ctx, t, again), "one\ntwo\n")
}

func jobReaped(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	for range 3 {
		e.start(ctx, t, sb.Jobs("me"), `trap "" TERM; (sleep 300; :) & sleep 300; sleep 300`, berth.JobOptions{})
	}
	if err := berth.Reap(ctx, e.Open(t), s.Key, berth.ReapOptions{}); err != nil {
		t.Errorf("reap: %v", err)
	}
	e.wantAbsent(ctx, t, s.Key)
	if e.Caps.Shielded || e.Caps.Image {
		return // its processes cannot be looked for from another place
	}
	if left := e.Marked(ctx, t, e.Sandbox, e.Mark); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func jobIdle(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	s.IdleTimeout = time.Second
	sb := e.Provision(ctx, t, s)
	e.start(ctx, t, sb.Jobs("me"), "sleep 8; echo done", berth.JobOptions{})
	if err := sb.Detach(ctx); err != nil {
		t.Fatalf("detach: %v", err)
	}
	time.Sleep(2 * s.IdleTimeout) // what is defended is that nothing happens
	if o, ok := e.owned(ctx, t, s.Key); !ok || o.State != spec.StateRunning {
		t.Errorf("the place with a job idled: %+v, %v", o, ok)
	}
	within(ctx, 30*time.Second, func() bool {
		o, ok := e.owned(ctx, t, s.Key)
		return !ok || o.State != spec.StateRunning
	})
	if o, ok := e.owned(ctx, t, s.Key); ok && o.State == spec.StateRunning {
		t.Errorf("the place does not idle after its job")
	}
}

func jobStopped(ctx context.Context, t T, e *Env) {
	stopper, ok := e.Driver.(driver.Stopper)
	if !ok {
		return
	}
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	jobs := sb.Jobs("me")
	ended, _ := e.runJob(ctx, t, jobs, "echo one; printf two; exit 3", berth.JobOptions{Key: "done"})
	running := e.start(ctx, t, jobs, "echo begun; exec sleep 300", berth.JobOptions{})
	e.Eventually(ctx, func() bool { return e.info(ctx, t, running).LogLines > 0 })
	if err := stopper.Stop(ctx, s.Key, driver.ReapOptions{}); err != nil {
		t.Fatalf("stop: %v", err)
	}
	jobs = e.ProvisionWith(ctx, t, e.Open(t), s, berth.ProvisionOptions{}).Jobs("me")
	list, err := jobs.List(ctx)
	if err != nil || len(list) != 2 {
		t.Fatalf("after the start: %+v, %v", list, err)
	}
	first, second := list[0], list[1]
	if first.ID != ended.ID() || first.State != spec.JobExited || first.Exit.Code != 3 || first.LogLines != 2 {
		t.Errorf("%+v", first)
	}
	if second.ID != running.ID() || second.State != spec.JobKilled || second.LogLines != 1 {
		t.Errorf("%+v; want killed", second)
	}
	for id, want := range map[string]string{ended.ID(): "one\ntwo", running.ID(): "begun\n"} {
		j, err := jobs.Get(ctx, id)
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		wantText(t, "log of "+id, e.log(ctx, t, j), want)
	}
	again, err := jobs.Start(ctx, []string{"true"}, berth.JobOptions{Key: "done"})
	if err != nil || again.ID() != ended.ID() {
		t.Errorf("the key after the restart finds %v, %v", again, err)
	}
	if next := e.start(ctx, t, jobs, "exit 0", berth.JobOptions{}); next.ID() == ended.ID() || next.ID() == running.ID() {
		t.Errorf("id %s is used again", next.ID())
	}
	told := e.watchEnds(ctx, t, jobs)
	var ids []string
	for range 3 {
		ids = append(ids, <-told)
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 3 {
		t.Errorf("told of %v; want each job once", ids)
	}
}

// watchEnds watches until the case is over, and sends the id of each job that has ended.
func (e *Env) watchEnds(ctx context.Context, t T, jobs *berth.Jobs) <-chan string {
	told := make(chan string, 4096)
	e.watch(ctx, t, jobs, berth.JobWatch{OnExit: func(j berth.JobInfo) error {
		told <- j.ID
		return nil
	}})
	return told
}

// watch watches until the case is over.
func (e *Env) watch(ctx context.Context, t T, jobs *berth.Jobs, w berth.JobWatch) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := jobs.Watch(ctx, w); ctx.Err() == nil {
			t.Errorf("watch: %v", err)
		}
	}()
	e.Cleanup(func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}

// crowd is how many jobs run at once in JobsInACrowd.
const crowd = 1000

func jobCrowd(ctx context.Context, t T, e *Env) {
	s := e.Spec()
	if e.Caps.LimitPIDs {
		s.Limits.PIDs = 4 * crowd
	}
	sb, idle := e.Provision(ctx, t, s), e.Provision(ctx, t, s)
	jobs := sb.Jobs("crowd")
	var all sync.WaitGroup
	var mu sync.Mutex
	var ids []string
	slots := make(chan struct{}, 16)
	for i := range crowd {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			j, err := jobs.Start(ctx, []string{"sh", "-c", fmt.Sprintf("echo job %d; exec sleep 3000", i)}, berth.JobOptions{Key: fmt.Sprintf("k%d", i)})
			if err != nil {
				t.Errorf("start %d: %v", i, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, j.ID())
		})
	}
	all.Wait()
	if len(ids) != crowd {
		t.Fatalf("%d jobs run", len(ids))
	}
	beside, without := latencies(ctx, t, e, sb, idle)
	t.Logf("exec: %v beside %d jobs, %v in a place without", beside, crowd, without)
	if beside > without+without/2+2*time.Millisecond {
		t.Errorf("exec takes %v beside %d jobs, %v in a place without", beside, crowd, without)
	}
	list, err := jobs.List(ctx)
	if err != nil || len(list) != crowd {
		t.Errorf("%d jobs listed, %v", len(list), err)
	}
	for i, info := range list {
		if !info.Running() || i%100 == 0 && info.LogLines != 1 {
			t.Errorf("%+v", info)
		}
	}
	began := time.Now()
	if err := sb.Close(ctx); err != nil {
		t.Errorf("end a place with %d jobs: %v", crowd, err)
	}
	t.Logf("the place ended in %v", time.Since(began))
}

// latencies is how long a command takes in each of two places. They take turns, so that
// what else the machine does is the same for both; and the lower quartile counts, which it
// disturbs the least.
func latencies(ctx context.Context, t T, e *Env, a, b *berth.Sandbox) (inA, inB time.Duration) {
	t.Helper()
	took := map[*berth.Sandbox][]time.Duration{}
	for range 200 {
		for _, sb := range []*berth.Sandbox{a, b} {
			began := time.Now()
			e.ExecIn(ctx, t, sb, []string{"true"}, berth.ExecOptions{})
			took[sb] = append(took[sb], time.Since(began))
		}
	}
	quartile := func(sb *berth.Sandbox) time.Duration {
		all := took[sb]
		slices.Sort(all)
		return all[len(all)/4]
	}
	return quartile(a), quartile(b)
}
