//go:build linux

package process_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/internal/testutil/killtest"
	"github.com/berth-dev/berth/spec"
)

// workerArg makes the test binary a client that starts jobs and writes files until it is
// killed.
const workerArg = "berth-worker-reexec"

// worker is a client that works in the place "worker" until it is killed.
func worker(args []string) int {
	state, level, prefix, mark := args[0], args[1], args[2], args[3]
	d, err := process.New(process.Options{Owner: "test", StateDir: state, BaseEnv: testEnv(), OrphanAfter: orphanAfter, ResumeWindow: resumeWindow})
	if err == nil {
		err = killtest.Work(d, workerSpec(spec.Isolation(level)), prefix, mark, os.Stdout)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func workerSpec(level spec.Isolation) spec.Spec { return spec.Spec{Key: "worker", Isolation: level} }

// TestKilledWithJobs defends: a client may be killed at any moment, in the middle of
// starting jobs and writing files.
func TestKilledWithJobs(t *testing.T) {
	rounds := 4
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		rounds = 50 // at each of two levels
	}
	levels(t, func(t *testing.T, level spec.Isolation) {
		o := options(t)
		d := open(t, o)
		t.Cleanup(func() {
			if err := d.Reap(context.Background(), "worker", reapOptions); err != nil {
				t.Error(err)
			}
			left(t, o)
		})
		killtest.Clients{
			Driver: d, Spec: workerSpec(level), Rounds: rounds,
			Command: func(prefix, mark string) *exec.Cmd {
				return exec.Command(mustExecutable(t), workerArg, o.StateDir, string(level), prefix, mark)
			},
		}.Run(t)
	})
}

// startShort starts a job that ends at once, with exit status 3.
func startShort(ctx context.Context, jobber driver.Jobber, key string) (spec.Job, error) {
	return jobber.StartJob(ctx, &spec.Command{Args: spec.Shell("exit 3"), Key: key}, spec.JobOptions{Owner: "me"})
}

// hear listens until the ends of so many jobs have been told.
func hear(t *testing.T, jobber driver.Jobber, count int) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	ended := map[string]bool{}
	err := jobber.JobEvents(ctx, "me", func(e spec.JobEvent) error {
		if ended[e.Job.ID] = true; len(ended) == count {
			cancel()
		}
		return nil
	})
	if len(ended) != count {
		t.Errorf("told of %d jobs of %d: %v", len(ended), count, err)
	}
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
		ended, err := startShort(within(t), jobber, "ended")
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
		if j, err := startShort(within(t), jobber, "next"); err != nil || j.ID != "job-3" {
			t.Errorf("the next: %+v, %v", j, err)
		}
		hear(t, jobber, 3)
	})
}
