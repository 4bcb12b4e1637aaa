//go:build linux

package job_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/agent/job"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

func open(t *testing.T, dir string, keep job.Retention) *job.Registry {
	t.Helper()
	r, err := job.Open(dir, keep)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// claim claims a fresh job.
func claim(t *testing.T, r *job.Registry, q job.Request) *job.Job {
	t.Helper()
	if q.Args == nil {
		q.Args = []string{"true"}
	}
	if q.MaxLogBytes == 0 {
		q.MaxLogBytes = 1 << 20
	}
	j, fresh, err := r.Claim(q)
	if err != nil || !fresh {
		t.Fatalf("claim %q: fresh %v, %v", q.ID, fresh, err)
	}
	return j
}

// run is claim of a job that runs and has written.
func run(t *testing.T, r *job.Registry, q job.Request, output string) *job.Job {
	t.Helper()
	j := claim(t, r, q)
	j.Started(42, func(time.Duration) {})
	j.Write([]byte(output))
	return j
}

// end is run of a job that has ended with a status.
func end(t *testing.T, r *job.Registry, q job.Request, output string, code int) *job.Job {
	t.Helper()
	j := run(t, r, q, output)
	j.Ended(&wire.Exit{Code: code}, false)
	return j
}

func list(t *testing.T, r *job.Registry, owner string) []wire.Job {
	t.Helper()
	jobs, err := r.List(owner, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if _, err := jobs[i].Spec(); err != nil {
			t.Errorf("%+v: %v", jobs[i], err)
		}
	}
	return jobs
}

func ids(jobs []wire.Job) string {
	var out []string
	for _, j := range jobs {
		out = append(out, j.ID+":"+j.State)
	}
	return strings.Join(out, " ")
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// A job that ran when its guest died is lost and never invented; what had ended is as it
// was, ids go on, and keys and requests are remembered.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	end(t, r, job.Request{ID: "r1", Owner: "a", Key: "k"}, "one\ntwo", 3)
	run(t, r, job.Request{ID: "r2", Owner: "a", StallAfter: time.Hour}, strings.Repeat("line\n", 100_000)+"open")
	claim(t, r, job.Request{ID: "r3", Owner: "a"}) // killed between its record and its start
	end(t, r, job.Request{ID: "r4", Kept: true}, "kept", 0)
	run(t, r, job.Request{ID: "r5", Kept: true}, "half")

	r = open(t, dir, job.DefaultRetention)
	jobs := list(t, r, "a")
	want(t, "jobs", ids(jobs), "job-1:exited job-2:lost job-3:lost")
	if j := jobs[0]; j.LogLines != 2 || j.Exit.Code != 3 || string(j.LogPath) != filepath.Join(dir, "job-1.log") {
		t.Errorf("%+v", j)
	}
	if j := jobs[1]; j.LogLines != 100_001 || j.LogBytes != 500_004 || j.PID != 42 || j.Exit != nil {
		t.Errorf("%+v", j)
	}
	want(t, "kept", ids(list(t, r, "")), "job-4:exited job-5:lost")
	for _, q := range []job.Request{{ID: "other", Owner: "a", Key: "k"}, {ID: "r1", Owner: "a"}} {
		if j, fresh, err := r.Claim(q); err != nil || fresh || j.ID() != "job-1" {
			t.Errorf("%+v finds %v, %v, %v", q, j, fresh, err)
		}
	}
	next := end(t, r, job.Request{ID: "r6", Owner: "a"}, "", 0)
	want(t, "the next id", next.ID(), "job-6")
	found, err := r.Find("a", "job-2")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-found.Done():
	default:
		t.Error("a lost job has not ended")
	}
	log, err := found.OpenLog(t.Context(), spec.LogWindow{From: -2})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	buf := make([]byte, 100)
	n, _ := log.Read(t.Context(), buf)
	want(t, "the end of its log", string(buf[:n]), "line\nopen")
	// The second restart finds what the first has found.
	want(t, "jobs", ids(list(t, open(t, dir, job.DefaultRetention), "a")), "job-1:exited job-2:lost job-3:lost job-6:exited")
}

// The latest jobs that ended are kept, within the bound on their logs; an id is never
// used again, though no record of it is left.
func TestRetention(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.Retention{Jobs: 3, LogBytes: 100})
	late := run(t, r, job.Request{ID: "late"}, "")
	for i := range 5 {
		end(t, r, job.Request{ID: fmt.Sprint(i), Key: fmt.Sprint("k", i)}, "0123456789", 0)
	}
	want(t, "by number", ids(list(t, r, "")), "job-1:running job-4:exited job-5:exited job-6:exited")
	if _, err := r.Find("", "job-2"); spec.CodeOf(err) != spec.CodeNotFound {
		t.Errorf("job-2: %v", err)
	}
	if _, fresh, err := r.Claim(job.Request{ID: "again", Key: "k4", MaxLogBytes: 10}); fresh || err != nil {
		t.Errorf("a key that is remembered: %v, %v", fresh, err)
	}
	end(t, r, job.Request{ID: "big"}, strings.Repeat("x", 95), 0) // job-7
	want(t, "by size", ids(list(t, r, "")), "job-1:running job-7:exited")
	end(t, r, job.Request{ID: "huge"}, strings.Repeat("x", 1000), 0) // job-8
	want(t, "the latest", ids(list(t, r, "")), "job-1:running job-8:exited")
	late.Ended(&wire.Exit{}, false)
	want(t, "in the order of the ends", ids(list(t, r, "")), "job-1:exited")
	names, err := filepath.Glob(filepath.Join(dir, "job-*"))
	if err != nil || len(names) != 2 {
		t.Errorf("left on disk: %v, %v", names, err)
	}
	r = open(t, dir, job.Retention{Jobs: 3, LogBytes: 100})
	want(t, "the next id", claim(t, r, job.Request{ID: "next"}).ID(), "job-9")
}

// What nobody has been told of outlives what has been told, and neither goes for the kept
// output of commands.
func TestRetentionKeepsWhatIsUntold(t *testing.T) {
	r := open(t, t.TempDir(), job.Retention{Jobs: 3, LogBytes: 100})
	end(t, r, job.Request{ID: "1", Owner: "a"}, "", 0)
	for i := 2; i <= 7; i++ {
		end(t, r, job.Request{ID: fmt.Sprint(i), Owner: "b"}, "", 0)
		l := listen(t, r, "b", "l", false)
		wantEvents(t, l, fmt.Sprintf("job-%d/end", i))
		l.Acknowledge(fmt.Sprintf("job-%d/end", i))
		l.Close()
	}
	for i := range 5 {
		end(t, r, job.Request{ID: fmt.Sprint("k", i), Kept: true}, strings.Repeat("x", 40), 0)
	}
	want(t, "the untold", ids(list(t, r, "a")), "job-1:exited")
	want(t, "the told", ids(list(t, r, "b")), "job-6:exited job-7:exited")
	want(t, "the kept", ids(list(t, r, "")), "job-11:exited job-12:exited")
}

// A start that fails leaves nothing, and its key and request are free.
func TestFailed(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	j := claim(t, r, job.Request{ID: "r", Key: "k"})
	waiting := make(chan error, 1)
	go func() {
		_, _, err := r.Claim(job.Request{ID: "r", MaxLogBytes: 1})
		waiting <- err
	}()
	time.Sleep(10 * time.Millisecond)
	j.Failed(errors.New("no such program"))
	if err := <-waiting; err == nil || err.Error() != "no such program" {
		// The other request may have come after the failure, and is fresh then.
		t.Logf("the repeated request: %v", err)
	}
	want(t, "jobs", ids(list(t, r, "other")), "")
	if names, _ := filepath.Glob(filepath.Join(dir, "job-1*")); len(names) > 0 {
		t.Errorf("left on disk: %v", names)
	}
}

// A job that is being started is nobody's to see, and one that is to end meanwhile ends
// as soon as it runs; if it fails to start, nobody waits for its end.
func TestEndBeforeStart(t *testing.T) {
	r := open(t, t.TempDir(), job.DefaultRetention)
	j, failing := claim(t, r, job.Request{ID: "1"}), claim(t, r, job.Request{ID: "2"})
	want(t, "jobs", ids(list(t, r, "")), "")
	if _, err := r.Find("", "job-1"); spec.CodeOf(err) != spec.CodeNotFound {
		t.Errorf("find: %v", err)
	}
	j.End(time.Minute)
	all := make(chan struct{})
	go func() {
		defer close(all)
		r.EndAll(time.Second, 20*time.Second)
	}()
	for _, asked := range []*job.Job{j, failing} { // the shorter grace is the one
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			if grace, ok := asked.Asked(); ok && grace == time.Second {
				break
			}
			if time.Now().After(end) {
				t.Fatal("EndAll does not ask a job that is being started to end")
			}
		}
	}
	graces := make(chan time.Duration, 2)
	j.Started(42, func(grace time.Duration) {
		graces <- grace
		go j.Ended(&wire.Exit{Code: 143, Signal: 15}, true)
	})
	select {
	case grace := <-graces:
		if grace != time.Second {
			t.Errorf("a grace of %v", grace)
		}
	case <-time.After(5 * time.Second):
		t.Error("it is not ended")
	}
	failing.Failed(errors.New("no such program"))
	select {
	case <-failing.Done():
	case <-time.After(5 * time.Second):
		t.Error("who waits for a job that failed to start waits for ever")
	}
	select {
	case <-all:
	case <-time.After(5 * time.Second):
		t.Error("EndAll waits for a job that failed to start")
	}
	want(t, "jobs", ids(list(t, r, "")), "job-1:killed")
}

// Of any number of requests with one key or id one is fresh.
func TestClaimOnce(t *testing.T) {
	r := open(t, t.TempDir(), job.DefaultRetention)
	var all sync.WaitGroup
	found := make(chan string, 20)
	for i := range 20 {
		all.Go(func() {
			j, fresh, err := r.Claim(job.Request{ID: fmt.Sprint("r", i), Key: "k", Owner: "o", MaxLogBytes: 10})
			if err != nil {
				t.Error(err)
				return
			}
			if fresh {
				time.Sleep(5 * time.Millisecond)
				j.Started(1, func(time.Duration) {})
			}
			found <- fmt.Sprint(j.ID(), fresh)
		})
	}
	all.Wait()
	close(found)
	count := map[string]int{}
	for f := range found {
		count[f]++
	}
	if count["job-1true"] != 1 || count["job-1false"] != 19 {
		t.Errorf("%v", count)
	}
}
