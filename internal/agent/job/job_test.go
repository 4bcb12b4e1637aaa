//go:build linux

package job_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	time.Sleep(10 * time.Millisecond) // EndAll may come first or last: the shorter grace is the one
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

// A pipe that somebody puts where a record is about to be written holds nothing up.
func TestPipeInTheWay(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	name := filepath.Join(dir, "job-1.json.new")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	full, err := unix.Open(name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(full)
	for err == nil {
		_, err = unix.Write(full, make([]byte, 4096))
	}
	done := make(chan error, 1)
	go func() {
		j, _, err := r.Claim(job.Request{ID: "1", MaxLogBytes: 1})
		if err == nil {
			j.Started(42, func(time.Duration) {})
			j.Ended(&wire.Exit{}, false)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the start hangs")
	}
	want(t, "after a restart", ids(list(t, open(t, dir, job.DefaultRetention), "")), "job-1:exited")
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

// What lies in the directory is read as what it is: garbage, links, pipes and records
// that contradict themselves are no jobs, and are no trouble.
func TestHostileDirectory(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	end(t, r, job.Request{ID: "good"}, "fine\n", 0)
	good, err := os.ReadFile(filepath.Join(dir, "job-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string]string{
		"job-2.json":                    "{",
		"job-3.json":                    string(good), // of another job
		"job-4.json":                    strings.ReplaceAll(string(good), "job-1", "job-4")[:50],
		"job-5.json":                    strings.Replace(strings.ReplaceAll(string(good), "job-1", "job-5"), `"exited"`, `"running"`, 1),
		"job-6.json":                    strings.Repeat("x", 1<<20),
		"job-7.log":                     "without a record",
		"job-1.json.new":                "half",
		"job-99999999999999999999.json": string(good),
		"last":                          "job-12",
	} {
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		unix.Mkfifo(at("job-8.json"), 0o600), os.Symlink("/dev/zero", at("job-9.json")), os.Mkdir(at("job-10.json"), 0o700),
		os.Remove(at("job-1.log")), os.Symlink("/etc/passwd", at("job-1.log")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r = open(t, dir, job.DefaultRetention)
	want(t, "jobs", ids(list(t, r, "")), "job-1:exited")
	j, err := r.Find("", "job-1")
	if err != nil {
		t.Fatal(err)
	}
	if log, err := j.OpenLog(t.Context(), spec.LogWindow{}); err == nil {
		log.Close()
		t.Error("a log that is a link is opened")
	}
	for _, name := range []string{"job-7.log", "job-1.json.new", "job-2.json"} {
		if _, err := os.Lstat(at(name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	if next := claim(t, r, job.Request{ID: "next"}); next.ID() != "job-13" {
		t.Errorf("the next id is %s", next.ID())
	}
	// What lies in the way of a new one is removed; what cannot be is an error.
	if err := os.WriteFile(at("job-14.log"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if j := run(t, r, job.Request{ID: "way"}, "new"); j.Info().LogBytes != 3 {
		t.Errorf("%+v", j.Info())
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Claim(job.Request{ID: "nowhere", MaxLogBytes: 1}); spec.CodeOf(err) == "" {
		t.Errorf("without a directory: %v", err)
	}
	want(t, "jobs", ids(list(t, r, "")), "job-1:exited job-14:running") // job-13 has not started
}

// Numbers that no job can have are no job's, and leave the jobs to come theirs.
func TestForgedNumbers(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	end(t, r, job.Request{ID: "1"}, "", 0)
	good, err := os.ReadFile(filepath.Join(dir, "job-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	const forged = "job-9007199254740992"
	for name, content := range map[string]string{"last": forged, forged + ".json": strings.ReplaceAll(string(good), "job-1", forged)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r = open(t, dir, job.DefaultRetention)
	end(t, r, job.Request{ID: "2"}, "", 0)
	want(t, "jobs", ids(list(t, r, "")), "job-1:exited job-2:exited")
	if err := os.WriteFile(filepath.Join(dir, "last"), []byte("job-1099511627776"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir, job.DefaultRetention)
	if _, _, err := r.Claim(job.Request{ID: "3", MaxLogBytes: 1}); spec.CodeOf(err) != spec.CodeUnavailable {
		t.Errorf("after the last number: %v", err)
	}
}

// Of a crowd of records the latest are read, in bounded time, and the rest is removed.
func TestForgedCrowd(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	run(t, r, job.Request{ID: "1"}, "")
	good, err := os.ReadFile(filepath.Join(dir, "job-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	const count = 20_000
	for i := 2; i <= count; i++ {
		id := fmt.Sprint("job-", i)
		if err := os.WriteFile(filepath.Join(dir, id+".json"), []byte(strings.ReplaceAll(string(good), "job-1", id)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	r = open(t, dir, job.DefaultRetention)
	took := time.Since(began)
	jobs := list(t, r, "")
	if len(jobs) != job.DefaultRetention.Jobs || jobs[len(jobs)-1].ID != fmt.Sprint("job-", count) {
		t.Errorf("%d jobs", len(jobs))
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) > 2*job.DefaultRetention.Jobs {
		t.Errorf("%d files are left, %v", len(names), err)
	}
	t.Logf("%d records in %v", count, took)
	if took > 10*time.Second {
		t.Errorf("%d records took %v", count, took)
	}
}

// A directory in the way of a job's files costs a number.
func TestDirectoryInTheWay(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	for _, name := range []string{"job-1.log", "job-2.json", "job-3.json.new"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "full"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	j := end(t, r, job.Request{ID: "1", Key: "k"}, "fine", 0)
	want(t, "jobs", ids(list(t, r, "")), "job-4:exited")
	if info := j.Info(); j.ID() != "job-4" || string(info.LogPath) != filepath.Join(dir, "job-4.log") {
		t.Errorf("%+v", info)
	}
	if again, fresh, err := r.Claim(job.Request{ID: "2", Key: "k"}); err != nil || fresh || again != j {
		t.Errorf("its key finds %v, %v, %v", again, fresh, err)
	}
	want(t, "after a restart", ids(list(t, open(t, dir, job.DefaultRetention), "")), "job-4:exited")
}

// A record that could not be written when its job ended is written with the next one.
func TestLateRecord(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	j := run(t, r, job.Request{ID: "1"}, "")
	obstacle := filepath.Join(dir, "job-1.json.new")
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	j.Ended(&wire.Exit{Code: 3}, false)
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	end(t, r, job.Request{ID: "2"}, "", 0)
	want(t, "after a restart", ids(list(t, open(t, dir, job.DefaultRetention), "")), "job-1:exited job-2:exited")
}

// A record that cannot be read at the moment is kept, and its number is not given again.
func TestUnreadableRecord(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can lose the right to read for a while")
	}
	dir := t.TempDir()
	end(t, open(t, dir, job.DefaultRetention), job.Request{ID: "1"}, "kept", 0)
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	_ = unix.Setfsuid(nobody)
	r, err := job.Open(dir, job.DefaultRetention)
	_ = unix.Setfsuid(0)
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatal(err)
	}
	want(t, "jobs", ids(list(t, r, "")), "")
	want(t, "the next id", run(t, r, job.Request{ID: "2"}, "").ID(), "job-2")
	want(t, "once it can be read", ids(list(t, open(t, dir, job.DefaultRetention), "")), "job-1:exited job-2:lost")
}

// FuzzRecord: whatever a record's file holds is a job that can be described, or none.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"id":"job-1","args":["c2g="],"state":"exited","started_unix_ns":1,"ended_unix_ns":2,"exit":{"code":1},"request":"r","max_log_bytes":5}`))
	f.Add([]byte(`{"id":"job-1","state":"running","stalls":3,"stall":{"ns":-1},"max_log_bytes":5}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "job-1.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := open(t, dir, job.DefaultRetention)
		for _, owner := range []string{"", "a"} {
			for _, j := range list(t, r, owner) {
				if j.State == string(spec.JobRunning) {
					t.Errorf("%+v runs", j)
				}
			}
			l, err := r.Listen(owner, "l", false)
			if err != nil {
				t.Fatal(err)
			}
			gone := make(chan struct{})
			close(gone)
			for range 3 {
				e, _ := l.Next(gone)
				if e == nil {
					break
				}
				if _, err := e.Spec(); err != nil {
					t.Errorf("%+v: %v", e, err)
				}
				l.Acknowledge(e.Seq)
			}
			l.Close()
		}
	})
}

// 1,000 records are taken up in a moment.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	r, err := job.Open(dir, job.DefaultRetention)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		j, _, err := r.Claim(job.Request{ID: fmt.Sprint(i), Args: []string{"sh", "-c", "true"}, MaxLogBytes: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		j.Started(1, nil)
		j.Write([]byte("line\n"))
		j.Ended(&wire.Exit{}, false)
	}
	for b.Loop() {
		if _, err := job.Open(dir, job.DefaultRetention); err != nil {
			b.Fatal(err)
		}
	}
}

// next takes the events that are there and returns them as "seq kind".
func events(t *testing.T, l *job.Listener) (out []string) {
	t.Helper()
	gone := make(chan struct{})
	close(gone)
	for {
		e, err := l.Next(gone)
		if err != nil {
			return append(out, string(spec.CodeOf(err)))
		}
		if e == nil {
			return out
		}
		out = append(out, e.Seq)
	}
}

func listen(t *testing.T, r *job.Registry, owner, id string, resume bool) *job.Listener {
	t.Helper()
	l, err := r.Listen(owner, id, resume)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wantEvents(t *testing.T, l *job.Listener, want ...string) {
	t.Helper()
	if got := events(t, l); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// An event is told once it happened, until it is acknowledged, to one listener; a
// restart changes nothing of it.
func TestEvents(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	end(t, r, job.Request{ID: "1", Owner: "a"}, "", 0)
	end(t, r, job.Request{ID: "2", Owner: "b"}, "", 0)
	end(t, r, job.Request{ID: "3", Owner: "a"}, "", 0)
	end(t, r, job.Request{ID: "4", Kept: true}, "", 0)
	run(t, r, job.Request{ID: "5", Owner: "a"}, "")
	l := listen(t, r, "a", "x", false)
	wantEvents(t, l, "job-1/end", "job-3/end")
	wantEvents(t, l)
	l.Acknowledge("job-1/end")
	l.Acknowledge("job-2/end") // another owner's: of no effect
	l.Close()
	wantEvents(t, listen(t, r, "", "x", false)) // of what is kept nobody is told

	r = open(t, dir, job.DefaultRetention)
	l = listen(t, r, "a", "x", true)
	wantEvents(t, l, "job-3/end", "job-5/end") // the latter is lost
	for _, seq := range []string{"job-3/end", "job-5/end"} {
		l.Acknowledge(seq)
	}
	l.Close()
	r = open(t, dir, job.DefaultRetention)
	wantEvents(t, listen(t, r, "a", "x", false))
	wantEvents(t, listen(t, r, "b", "x", false), "job-2/end")
}

// Of two listeners the second has what the first was not sent, and what it was sent and
// did not acknowledge once it has left.
func TestTakeOver(t *testing.T) {
	r := open(t, t.TempDir(), job.DefaultRetention)
	end(t, r, job.Request{ID: "1"}, "", 0)
	end(t, r, job.Request{ID: "2"}, "", 0)
	first := listen(t, r, "", "first", false)
	wantEvents(t, first, "job-1/end", "job-2/end")
	second := listen(t, r, "", "second", false)
	end(t, r, job.Request{ID: "3"}, "", 0)
	wantEvents(t, second, "job-3/end")
	wantEvents(t, first, "stale_owner")
	first.Acknowledge("job-1/end") // on its way when the second came
	first.Close()
	wantEvents(t, second, "job-2/end")
	if _, err := r.Listen("", "first", true); spec.CodeOf(err) != spec.CodeStaleOwner {
		t.Errorf("the first comes back: %v", err)
	}
	// The second comes back on another connection: it knows what it was told.
	again := listen(t, r, "", "second", true)
	wantEvents(t, again, "job-2/end", "job-3/end")
	second.Close()
	wantEvents(t, again)
	again.Acknowledge("job-2/end")
	again.Acknowledge("job-3/end")
	again.Close()
	wantEvents(t, listen(t, r, "", "third", true))
}

// So many events are sent ahead, and no more.
func TestEventsAhead(t *testing.T) {
	r := open(t, t.TempDir(), job.DefaultRetention)
	for i := range 2 * wire.JobEventsAhead {
		end(t, r, job.Request{ID: fmt.Sprint(i)}, "", 0)
	}
	l := listen(t, r, "", "x", false)
	if got := events(t, l); len(got) != wire.JobEventsAhead {
		t.Errorf("%d events are sent ahead", len(got))
	}
	l.Acknowledge("job-5/end")
	wantEvents(t, l, fmt.Sprintf("job-%d/end", wire.JobEventsAhead+1))
}

// Only what runs is handed over, with what its owner has not been told of.
func TestHandOver(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	end(t, r, job.Request{ID: "1", Owner: "a"}, "", 0)
	two := run(t, r, job.Request{ID: "2", Owner: "a", Key: "k"}, "")
	run(t, r, job.Request{ID: "3", Owner: "a"}, "")
	if moved, err := r.HandOver("a", "b", []string{"job-2", "job-9"}); spec.CodeOf(err) != spec.CodeNotFound || moved != nil {
		t.Errorf("%v, %v", moved, err)
	}
	if moved, err := r.HandOver("a", "a", nil); err != nil || len(moved) != 0 {
		t.Errorf("%v, %v", moved, err)
	}
	want(t, "before", ids(list(t, r, "a")), "job-1:exited job-2:running job-3:running")
	moved, err := r.HandOver("a", "b", []string{"job-2", "job-1", "job-2"})
	if err != nil {
		t.Error(err)
	}
	want(t, "moved", ids(moved), "job-2:running")
	want(t, "the old owner", ids(list(t, r, "a")), "job-1:exited job-3:running")
	want(t, "the new owner", ids(list(t, r, "b")), "job-2:running")
	two.Ended(&wire.Exit{}, true)
	wantEvents(t, listen(t, r, "b", "x", false), "job-2/end")
	wantEvents(t, listen(t, r, "a", "x", false), "job-1/end")
	want(t, "after a restart", ids(list(t, open(t, dir, job.DefaultRetention), "b")), "job-2:killed")
}

// A key goes with its job to the new owner, unless that has a job under the same key; a
// request is the same job all the same. A restart changes nothing of it.
func TestHandOverOfAKey(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	run(t, r, job.Request{ID: "1", Owner: "a", Key: "k"}, "")
	run(t, r, job.Request{ID: "2", Owner: "a", Key: "both"}, "")
	run(t, r, job.Request{ID: "3", Owner: "b", Key: "both"}, "")
	if moved, err := r.HandOver("a", "b", nil); err != nil || ids(moved) != "job-1:running job-2:running" {
		t.Fatalf("%v, %v", moved, err)
	}
	check := func(r *job.Registry) {
		t.Helper()
		for _, c := range []struct {
			q    job.Request
			want string
		}{
			{job.Request{ID: "x1", Owner: "b", Key: "k"}, "job-1"},
			{job.Request{ID: "x2", Owner: "b", Key: "both"}, "job-3"},
			{job.Request{ID: "1", Owner: "a", Key: "k"}, "job-1"},
			{job.Request{ID: "2", Owner: "a"}, "job-2"},
		} {
			c.q.MaxLogBytes = 1
			if j, fresh, err := r.Claim(c.q); err != nil || fresh || j.ID() != c.want {
				t.Errorf("%+v finds %s, %v, %v; want %s", c.q, j.ID(), fresh, err, c.want)
			}
		}
	}
	check(r)
	check(open(t, dir, job.DefaultRetention))
	run(t, r, job.Request{ID: "4", Owner: "a", Key: "k"}, "") // a fresh one
}

// Who waits for a job goes on with it after a hand-over, and after the next.
func TestFindAgain(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	run(t, r, job.Request{ID: "1", Owner: "a"}, "")
	for _, way := range [][2]string{{"a", "b"}, {"b", "c"}} {
		if _, err := r.HandOver(way[0], way[1], nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*job.Registry{r, open(t, dir, job.DefaultRetention)} {
		for _, owner := range []string{"a", "b", "c"} {
			if j, err := r.FindAgain(owner, "job-1"); err != nil || j.ID() != "job-1" {
				t.Errorf("%s: %v", owner, err)
			}
			if _, err := r.Find(owner, "job-1"); (err == nil) != (owner == "c") {
				t.Errorf("%s finds it for the first time: %v", owner, err)
			}
		}
		if _, err := r.FindAgain("d", "job-1"); spec.CodeOf(err) != spec.CodeNotFound {
			t.Errorf("a stranger: %v", err)
		}
	}
}
