package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// jobOwnerCases are about what an owner is told, and about another owner.
func jobOwnerCases() []Case {
	return []Case{
		{Name: "JobEndIsToldOnce", Rule: "Each end is told once, those first that happened while nobody listened.", Need: needJobs, Run: ownerTold},
		{Name: "JobEndIsToldAgainIfNotTaken", Rule: "An event is forgotten when tell has returned nil, and told again to the next listener if it has not.", Need: needJobs, Run: ownerToldAgain},
		{Name: "JobEndIsToldToOneListener", Rule: "A second listener takes over, the first one ends with stale_owner, and between them each event is told once.", Need: needDurable, Run: ownerListeners},
		{Name: "JobEndIsToldToALaterClient", Rule: "What happened while no client was there is told to the next one.", Need: needDurable, Run: ownerLater},
		{Name: "JobStallIsToldOnce", Rule: "A stall is told once for each silence, and again only after the job has written; it ends nothing.", Need: needJobs, Run: ownerStall},
		{Name: "JobHandOverMovesTheRunning", Rule: "Only running jobs move; what has ended stays, in-flight waits and kills go on, and the new owner is told.", Need: needJobs, Run: ownerHandOver},
		{Name: "JobHandOverIsAllOrNothing", Rule: "An id that is unknown is not_found and moves nothing.", Need: needJobs, Run: ownerHandOverUnknown},
		{Name: "JobHandOverToTheSame", Rule: "To hand over to the same owner moves nothing, and the owner is told once.", Need: needJobs, Run: ownerHandOverSame},
		{Name: "JobHandOverBringsWhatIsUntold", Rule: "Stalls that the old owner has not been told of go to the new one.", Need: needJobs, Run: ownerHandOverStall},
		{Name: "JobHandOverTakesTheKey", Rule: "A job's key goes with it to the new owner, unless that has a job under it; the old owner's next use starts another job.", Need: needJobs, Run: ownerHandOverKey},
		{Name: "JobsOfAStaleOwner", Rule: "A session whose epoch is over is refused with stale_owner.", Need: needDurable, Run: ownerJobsEpoch},
	}
}

// quietFor is how long a case watches to see that nothing more is told.
const quietFor = 300 * time.Millisecond

// wantTold wants exactly ids to be told, in any order, and then nothing.
func wantTold(ctx context.Context, t T, told <-chan string, ids ...string) {
	t.Helper()
	var got []string
	for range ids {
		select {
		case id := <-told:
			got = append(got, id)
		case <-ctx.Done():
			t.Fatalf("told of %v in time; want %v", got, ids)
		}
	}
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		t.Errorf("told of %v; want %v", got, ids)
	}
	select {
	case id := <-told:
		t.Errorf("told of %s too", id)
	case <-time.After(quietFor):
	}
}

func ownerTold(ctx context.Context, t T, e *Env) {
	jobs := e.jobs()
	var ids []string
	for _, script := range []string{"exit 0", "exit 3", "kill -9 $$"} {
		j, _ := e.runJob(ctx, t, jobs, script, berth.JobOptions{})
		ids = append(ids, j.ID())
	}
	told := e.watchEnds(ctx, t, jobs)
	for _, id := range ids { // in the order in which they ended
		if got := <-told; got != id {
			t.Errorf("told of %s; want %s", got, id)
		}
	}
	later := e.start(ctx, t, jobs, "sleep 0.2", berth.JobOptions{})
	killed := e.start(ctx, t, jobs, "exec sleep 300", berth.JobOptions{})
	if _, err := killed.Kill(ctx, -1); err != nil {
		t.Errorf("kill: %v", err)
	}
	wantTold(ctx, t, told, later.ID(), killed.ID())
}

func ownerToldAgain(ctx context.Context, t T, e *Env) {
	jobs := e.jobs()
	j, _ := e.runJob(ctx, t, jobs, "exit 7", berth.JobOptions{})
	refusal := errors.New("not now")
	err := jobs.Watch(ctx, berth.JobWatch{OnExit: func(info berth.JobInfo) error {
		if info.Exit.Code != 7 {
			t.Errorf("%+v", info)
		}
		return refusal
	}})
	wantError(t, "a refused event", err, refusal)
	wantTold(ctx, t, e.watchEnds(ctx, t, jobs), j.ID())
}

func ownerListeners(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	jobs := e.jobsIn(sb)
	const count = 20
	told := make(chan string, 10*count)
	first := make(chan error, 1)
	go func() {
		first <- jobs.Watch(ctx, berth.JobWatch{OnExit: func(j berth.JobInfo) error {
			time.Sleep(10 * time.Millisecond) // so that some are on their way when the other comes
			told <- j.ID
			return nil
		}})
	}()
	var ids []string
	for range count / 2 {
		ids = append(ids, e.start(ctx, t, jobs, "exit 0", berth.JobOptions{}).ID())
	}
	got := []string{<-told}
	other := e.Attach(ctx, t, s.Key).Jobs(jobs.Owner())
	again := e.watchEnds(ctx, t, other)
	select {
	case err := <-first:
		wantError(t, "the first listener", err, spec.ErrStaleOwner)
	case <-ctx.Done():
		t.Fatalf("the first listener does not end")
	}
	for range count / 2 {
		ids = append(ids, e.start(ctx, t, jobs, "exit 0", berth.JobOptions{}).ID())
	}
	for len(got) < count {
		select {
		case id := <-told:
			got = append(got, id)
		case id := <-again:
			got = append(got, id)
		case <-ctx.Done():
			t.Fatalf("told of %d jobs in time: %v", len(got), got)
		}
	}
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		t.Errorf("told of %v; want %v", got, ids)
	}
	wantTold(ctx, t, again)
}

func ownerLater(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	first := e.Provision(ctx, t, s)
	j := e.start(ctx, t, first.Jobs("me"), "sleep 0.5; exit 6", berth.JobOptions{})
	if err := first.Detach(ctx); err != nil {
		t.Fatalf("detach: %v", err)
	}
	time.Sleep(time.Second) // it ends while nobody is there
	wantTold(ctx, t, e.watchEnds(ctx, t, e.Attach(ctx, t, s.Key).Jobs("me")), j.ID())
	wantTold(ctx, t, e.watchEnds(ctx, t, e.Attach(ctx, t, s.Key).Jobs("other")))
}

// stall is what a watcher is told of one.
type stall struct {
	id     string
	silent time.Duration
	job    berth.JobInfo
}

// watchStalls watches until the case is over.
func (e *Env) watchStalls(ctx context.Context, t T, jobs *berth.Jobs) <-chan stall {
	told := make(chan stall, 100)
	e.watch(ctx, t, jobs, berth.JobWatch{OnStall: func(j berth.JobInfo, silent time.Duration) error {
		told <- stall{j.ID, silent, j}
		return nil
	}})
	return told
}

func ownerStall(ctx context.Context, t T, e *Env) {
	const after = 400 * time.Millisecond
	jobs, gate := e.jobs(), e.file("gate")
	told := e.watchStalls(ctx, t, jobs)
	j := e.start(ctx, t, jobs, "echo one; until [ -e "+gate+" ]; do sleep 0.05; done; echo two; exec sleep 300", berth.JobOptions{StallAfter: after})
	next := func() (s stall, ok bool) {
		select {
		case s = <-told:
			return s, true
		case <-time.After(20 * time.Second):
			t.Errorf("no stall is told of")
			return s, false
		}
	}
	s, ok := next()
	for ok && s.id == j.ID() && s.job.LogLines == 0 { // the silence before the first line
		s, ok = next()
	}
	if ok && (s.id != j.ID() || s.silent < after || !s.job.Running() || s.job.LogLines != 1) {
		t.Errorf("%+v", s)
	}
	select {
	case s := <-told:
		t.Errorf("told twice of one silence: %+v", s)
	case <-time.After(3 * after):
	}
	e.write(ctx, t, gate, nil, files.WriteOptions{})
	if s, ok := next(); ok && (s.id != j.ID() || s.silent < after || s.job.LogLines != 2) {
		t.Errorf("after it wrote: %+v", s)
	}
	if !e.info(ctx, t, j).Running() {
		t.Errorf("the stall ended the job")
	}
	busy := e.start(ctx, t, jobs, "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.05; done", berth.JobOptions{StallAfter: 10 * time.Second})
	e.ended(ctx, t, busy)
	select {
	case s := <-told:
		t.Errorf("a busy job, or one that ended, stalled: %+v", s)
	default:
	}
}

func ownerHandOver(ctx context.Context, t T, e *Env) {
	parent, child := e.jobs(), e.jobs()
	ended, _ := e.runJob(ctx, t, child, "exit 0", berth.JobOptions{})
	a := e.start(ctx, t, child, "exec sleep 300", berth.JobOptions{})
	b := e.start(ctx, t, child, "exec sleep 300", berth.JobOptions{})
	waited := make(chan error, 1)
	go func() {
		info, err := a.Wait(ctx)
		if err == nil && info.State != spec.JobKilled {
			err = errors.New(string(info.State))
		}
		waited <- err
	}()
	toldParent, toldChild := e.watchEnds(ctx, t, parent), e.watchEnds(ctx, t, child)
	wantTold(ctx, t, toldChild, ended.ID())
	moved, err := child.HandOver(ctx, parent.Owner())
	if err != nil || len(moved) != 2 || moved[0].ID != a.ID() || moved[1].ID != b.ID() || moved[0].Owner != parent.Owner() {
		t.Fatalf("moved %+v, %v", moved, err)
	}
	if _, err := child.Get(ctx, a.ID()); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("the old owner still finds it: %v", err)
	}
	if list, err := child.List(ctx); err != nil || len(list) != 1 || list[0].ID != ended.ID() {
		t.Errorf("the old owner has %+v, %v", list, err)
	}
	theirs, err := parent.Get(ctx, a.ID())
	if err != nil {
		t.Fatalf("the new owner: %v", err)
	}
	if _, err := theirs.Kill(ctx, -1); err != nil {
		t.Errorf("kill by the new owner: %v", err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the wait that was under way: %v", err)
	}
	wantTold(ctx, t, toldParent, a.ID())
	wantTold(ctx, t, toldChild)
	if moved, err := child.HandOver(ctx, parent.Owner()); err != nil || len(moved) != 0 {
		t.Errorf("nothing is left to move: %+v, %v", moved, err)
	}
}

func ownerHandOverUnknown(ctx context.Context, t T, e *Env) {
	from, to := e.jobs(), e.jobs()
	j := e.start(ctx, t, from, "exec sleep 300", berth.JobOptions{})
	_, err := from.HandOver(ctx, to.Owner(), j.ID(), "job-123456789")
	wantError(t, "an unknown id", err, spec.ErrNotFound)
	if list, err := from.List(ctx); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v; want that nothing has moved", list, err)
	}
	ended, _ := e.runJob(ctx, t, from, "exit 0", berth.JobOptions{})
	moved, err := from.HandOver(ctx, to.Owner(), j.ID(), ended.ID())
	if err != nil || len(moved) != 1 || moved[0].ID != j.ID() {
		t.Errorf("one that has ended stays: %+v, %v", moved, err)
	}
}

func ownerHandOverKey(ctx context.Context, t T, e *Env) {
	from, to := e.jobs(), e.jobs()
	start := func(jobs *berth.Jobs, key string) string {
		t.Helper()
		return e.start(ctx, t, jobs, "exec sleep 300", berth.JobOptions{Key: key}).ID()
	}
	free, taken, kept := start(from, "free"), start(from, "taken"), start(to, "taken")
	if moved, err := from.HandOver(ctx, to.Owner()); err != nil || len(moved) != 2 || moved[0].ID != free || moved[1].ID != taken {
		t.Fatalf("moved %+v, %v", moved, err)
	}
	if id := start(to, "free"); id != free {
		t.Errorf("the new owner's use of the key finds %s, want %s", id, free)
	}
	if id := start(to, "taken"); id != kept {
		t.Errorf("a key that the new owner has finds %s, want %s", id, kept)
	}
	if id := start(from, "free"); id == free {
		t.Errorf("the old owner's use of the key finds %s, which is another's", id)
	}
}

func ownerHandOverSame(ctx context.Context, t T, e *Env) {
	jobs := e.jobs()
	j := e.start(ctx, t, jobs, "exec sleep 300", berth.JobOptions{})
	told := e.watchEnds(ctx, t, jobs)
	moved, err := jobs.HandOver(ctx, jobs.Owner())
	if err != nil || len(moved) != 0 {
		t.Errorf("moved %+v, %v; want nothing", moved, err)
	}
	if _, err := j.Kill(ctx, -1); err != nil {
		t.Errorf("kill: %v", err)
	}
	wantTold(ctx, t, told, j.ID())
}

func ownerHandOverStall(ctx context.Context, t T, e *Env) {
	from, to := e.jobs(), e.jobs()
	j := e.start(ctx, t, from, "exec sleep 300", berth.JobOptions{StallAfter: 100 * time.Millisecond})
	time.Sleep(time.Second) // it stalls while nobody listens
	if _, err := from.HandOver(ctx, to.Owner()); err != nil {
		t.Fatalf("hand over: %v", err)
	}
	select {
	case s := <-e.watchStalls(ctx, t, to):
		if s.id != j.ID() || s.job.Owner != to.Owner() {
			t.Errorf("%+v", s)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("the new owner is not told")
	}
	select {
	case s := <-e.watchStalls(ctx, t, from):
		t.Errorf("the old owner is told: %+v", s)
	case <-time.After(quietFor):
	}
}

func ownerJobsEpoch(ctx context.Context, t T, e *Env) {
	owner := func(epoch uint64) driver.Authority { return driver.Authority{Epoch: epoch} }
	s := e.KeyedBy(owner(6))
	old, err := berth.ProvisionWith(ctx, e.Driver, s, berth.ProvisionOptions{Authority: owner(5)})
	if err != nil {
		t.Fatalf("provision: %v", err)
	}
	e.Cleanup(old.Detach)
	j := e.start(ctx, t, old.Jobs("me"), "exec sleep 300", berth.JobOptions{})
	next, err := berth.AttachWith(ctx, e.Open(t), s.Key, berth.AttachOptions{Authority: owner(6)})
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	e.Cleanup(next.Close)
	for name, try := range map[string]func() error{
		"start": func() error { _, err := old.Jobs("me").Start(ctx, []string{"true"}, berth.JobOptions{}); return err },
		"list":  func() error { _, err := old.Jobs("me").List(ctx); return err },
		"kill":  func() error { _, err := j.Kill(ctx, -1); return err },
		"watch": func() error { return old.Jobs("me").Watch(ctx, berth.JobWatch{}) },
		"log":   func() error { _, err := j.OpenLog(ctx, berth.LogWindow{}); return err },
	} {
		wantError(t, name, try(), spec.ErrStaleOwner)
	}
	if list, err := next.Jobs("me").List(ctx); err != nil || len(list) != 1 || !list[0].Running() {
		t.Errorf("the new owner finds %+v, %v", list, err)
	}
}
