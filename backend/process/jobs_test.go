//go:build linux

package process_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/spec"
)

// workerArg makes the test binary a client that starts jobs and writes files until it is
// killed.
const workerArg = "berth-worker-reexec"

// workerScript is one job: it says in a file that it ran, and ends a little later.
const workerScript = `echo "$KEY" >>ran; echo begun; sleep 0.2; echo "$KEY done"; exit 3`

func startWorkerJob(ctx context.Context, jobber driver.Jobber, key string) (spec.Job, error) {
	c := &spec.Command{Args: spec.Shell(workerScript), Key: key, Env: map[string]string{"KEY": key, "MARK": "worker"}}
	return jobber.StartJob(ctx, c, spec.JobOptions{Owner: "me"})
}

// worker provisions the place "worker" and starts jobs there with keys that begin with a
// prefix, and says of each when it was told its id. Beside that it replaces a file again
// and again. It never ends by itself.
func worker(args []string) int {
	state, level, prefix := args[0], args[1], args[2]
	d, err := process.New(process.Options{Owner: "test", StateDir: state, BaseEnv: testEnv(), OrphanAfter: orphanAfter, ResumeWindow: resumeWindow})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx := context.Background()
	s, err := d.Provision(ctx, &spec.Spec{Key: "worker", Isolation: spec.Isolation(level)}, driver.ProvisionOptions{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	go func() {
		for n := 0; ; n++ {
			text := strings.Repeat(fmt.Sprintf("%s-%d\n", prefix, n), 5000)
			if err := s.Files().Write(ctx, "whole", strings.NewReader(text), int64(len(text)), files.WriteOptions{}); err != nil {
				fmt.Println("write:", err)
			}
		}
	}()
	for n := range 40 {
		info, err := startWorkerJob(ctx, s.(driver.Jobber), fmt.Sprintf("%s-%d", prefix, n))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(info.ID)
	}
	select {}
}

// TestKilledWithJobs defends: whenever a client is killed in the middle of starting jobs
// and writing files, whoever comes next finds every job that it was told of, runs none
// twice by asking again, collects each and hears of its end once; no file is torn and
// nothing is left over.
func TestKilledWithJobs(t *testing.T) {
	rounds := 4
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		rounds = 50 // at each of two levels
	}
	levels(t, func(t *testing.T, level spec.Isolation) {
		o := options(t)
		d := open(t, o)
		keyed := func(ctx context.Context) (driver.Session, error) {
			return d.Provision(ctx, &spec.Spec{Key: "worker", Isolation: level}, driver.ProvisionOptions{})
		}
		t.Cleanup(func() {
			if err := d.Reap(context.Background(), "worker", reapOptions); err != nil {
				t.Error(err)
			}
			left(t, o)
		})
		ended := map[string]int{} // ids, and how often they were told of
		keys := map[string]string{}
		for round := range rounds {
			prefix := fmt.Sprint("r", round)
			said := runWorker(t, o, level, prefix)
			session, err := keyed(within(t))
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			jobber := session.(driver.Jobber)
			known, err := jobber.Jobs(within(t), spec.JobQuery{Owner: "me"})
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			for _, id := range said {
				if !slices.ContainsFunc(known, func(j spec.Job) bool { return j.ID == id }) {
					t.Errorf("round %d: %s is lost", round, id)
				}
			}
			collect(t, jobber, prefix, len(said)+2, keys)
			hear(t, jobber, ended, len(keys))
			whole(t, session)
			if err := session.Close(within(t)); err != nil {
				t.Error(err)
			}
		}
		for id, n := range ended {
			if n != 1 {
				t.Errorf("%s was told of %d times", id, n)
			}
		}
		session, err := keyed(within(t))
		if err != nil {
			t.Fatal(err)
		}
		ran := strings.Fields(must(t, session, "cat ran"))
		slices.Sort(ran)
		different := slices.Compact(slices.Clone(ran))
		if want := len(keys); len(ran) != want || len(different) != want {
			t.Errorf("%d jobs ran, %d of them different; want %d", len(ran), len(different), want)
		}
		session.Close(within(t))
		if pids := marked("worker"); len(pids) > 0 {
			t.Errorf("processes left: %v", pids)
		}
	})
}

// runWorker lets a worker work for a moment, kills it, and returns the ids that it was
// told.
func runWorker(t *testing.T, o process.Options, level spec.Isolation, prefix string) []string {
	t.Helper()
	cmd := exec.Command(mustExecutable(t), workerArg, o.StateDir, string(level), prefix)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(rand.Int64N(int64(600 * time.Millisecond))))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	ids := strings.Fields(out.String())
	for _, id := range ids {
		if !strings.HasPrefix(id, "job-") {
			t.Fatalf("the worker says %q", out.String())
		}
	}
	return ids
}

// collect starts the worker's jobs again, under their keys and a few more, and collects
// each.
func collect(t *testing.T, jobber driver.Jobber, prefix string, count int, keys map[string]string) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	for n := range count {
		all.Go(func() {
			key := fmt.Sprintf("%s-%d", prefix, n)
			info, err := startWorkerJob(within(t), jobber, key)
			if err == nil {
				info, err = jobber.WaitJob(within(t), "me", info.ID)
			}
			if err != nil || info.State != spec.JobExited || info.Exit.Code != 3 {
				t.Errorf("%s: %+v, %v", key, info, err)
				return
			}
			log, err := jobber.OpenLog(within(t), "me", info.ID, spec.LogWindow{})
			if err != nil {
				t.Errorf("%s: %v", key, err)
				return
			}
			defer log.Close()
			if data, err := io.ReadAll(log); err != nil || string(data) != "begun\n"+key+" done\n" {
				t.Errorf("%s: log %q, %v", key, data, err)
			}
			mu.Lock()
			defer mu.Unlock()
			keys[key] = info.ID
		})
	}
	all.Wait()
}

// hear listens until so many jobs have been told of in all, and a moment longer.
func hear(t *testing.T, jobber driver.Jobber, ended map[string]int, count int) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	told := make(chan string)
	done := make(chan error, 1)
	go func() {
		done <- jobber.JobEvents(ctx, "me", func(e spec.JobEvent) error {
			told <- e.Job.ID
			return nil
		})
	}()
	for quiet := time.After(time.Hour); ; {
		if len(ended) == count {
			quiet = time.After(200 * time.Millisecond)
		}
		select {
		case id := <-told:
			ended[id]++
			continue
		case <-quiet:
		case err := <-done:
			t.Errorf("told of %d jobs of %d: %v", len(ended), count, err)
			return
		}
		cancel()
		<-done
		return
	}
}

// whole wants the file that workers replace to be one of its versions.
func whole(t *testing.T, s driver.Session) {
	t.Helper()
	f, err := s.Files().Open(within(t), "whole", files.OpenOptions{})
	if spec.CodeOf(err) == spec.CodeFileNotFound {
		return // the worker was killed before its first one
	}
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	line, _, _ := strings.Cut(string(data), "\n")
	if err != nil || string(data) != strings.Repeat(line+"\n", 5000) {
		t.Errorf("the file is torn: %d bytes of %q, %v", len(data), line, err)
	}
	eventually(t, "no temporary file is left", func() error {
		if names := must(t, s, "ls -A"); names != "ran\nwhole" {
			return fmt.Errorf("the workdir has %q", names)
		}
		return nil
	})
}

// TestGuestKilledWithJobs defends: what ran when the guest was killed is lost when the
// place is started again, and never invented; its log is there as far as it was written,
// its end is told of, and its id and key are not used again.
func TestGuestKilledWithJobs(t *testing.T) {
	levels(t, func(t *testing.T, level spec.Isolation) {
		o := options(t)
		d := open(t, o)
		s := spec.Spec{Key: "killed", Isolation: level}
		jobber := provision(t, d, s).(driver.Jobber)
		lost, err := jobber.StartJob(within(t), &spec.Command{
			Args: spec.Shell("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; printf open; exec sleep 30"), Key: "lost",
		}, spec.JobOptions{Owner: "me"})
		if err != nil {
			t.Fatal(err)
		}
		ended, err := startWorkerJob(within(t), jobber, "ended")
		if err == nil {
			ended, err = jobber.WaitJob(within(t), "me", ended.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the log is written", func() error {
			jobs, err := jobber.Jobs(within(t), spec.JobQuery{Owner: "me", IDs: []string{lost.ID}})
			if err == nil && jobs[0].LogLines != 3001 {
				err = fmt.Errorf("%d lines", jobs[0].LogLines)
			}
			return err
		})
		waited := make(chan error, 1)
		go func() {
			_, err := jobber.WaitJob(within(t), "me", lost.ID)
			waited <- err
		}()
		for _, pid := range processesOf(t, o, place.ID("test", "killed")) {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
		if err := <-waited; spec.CodeOf(err) != spec.CodeUnknownOutcome {
			t.Errorf("a wait when the guest was killed: %v; want an unknown outcome", err)
		}
		jobber = provision(t, d, s).(driver.Jobber)
		jobs, err := jobber.Jobs(within(t), spec.JobQuery{Owner: "me"})
		if err != nil || len(jobs) != 2 {
			t.Fatalf("%+v, %v", jobs, err)
		}
		if j := jobs[0]; j.ID != lost.ID || j.State != spec.JobLost || j.LogLines != 3001 || j.Ended.IsZero() || j.Exit.Code != 0 {
			t.Errorf("%+v; want lost", j)
		}
		if j := jobs[1]; j.ID != ended.ID || j.State != spec.JobExited || j.Exit.Code != 3 || !j.Ended.Equal(ended.Ended) {
			t.Errorf("%+v; want %+v", j, ended)
		}
		log, err := jobber.OpenLog(within(t), "me", lost.ID, spec.LogWindow{From: -2, Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		if data, err := io.ReadAll(log); err != nil || string(data) != "line 2999\nopen" {
			t.Errorf("%q, %v", data, err)
		}
		if j, err := jobber.WaitJob(within(t), "me", lost.ID); err != nil || j.State != spec.JobLost {
			t.Errorf("wait: %+v, %v", j, err)
		}
		if j, err := jobber.KillJob(within(t), "me", lost.ID, 0); err != nil || j.State != spec.JobLost {
			t.Errorf("kill: %+v, %v", j, err)
		}
		if j, err := jobber.StartJob(within(t), &spec.Command{Args: spec.Shell("exit 0"), Key: "lost"}, spec.JobOptions{Owner: "me"}); err != nil || j.ID != lost.ID {
			t.Errorf("the key: %+v, %v", j, err)
		}
		if j, err := startWorkerJob(within(t), jobber, "next"); err != nil || j.ID != "job-3" {
			t.Errorf("the next: %+v, %v", j, err)
		}
		hear(t, jobber, map[string]int{}, 3)
	})
}
