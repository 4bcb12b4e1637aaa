//go:build linux

package job_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/job"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

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
	began := time.Now()
	for i := 2; i <= count; i++ {
		id := fmt.Sprint("job-", i)
		if err := os.WriteFile(filepath.Join(dir, id+".json"), []byte(strings.ReplaceAll(string(good), "job-1", id)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made := time.Since(began)
	began = time.Now()
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
	t.Logf("%d records in %v, made in %v", count, took, made)
	if took > 2*made+10*time.Second {
		t.Errorf("%d records took %v, and their making %v", count, took, made)
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
