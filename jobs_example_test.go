//go:build linux

package berth_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/berth-dev/berth"
)

// A job runs in the background of a place: it is started, watched, read a page at a time
// and waited for.
func ExampleSandbox_Jobs() {
	ctx := context.Background()
	d, cleanUp := thisMachine()
	defer cleanUp()
	sb, err := berth.Provision(ctx, d, berth.Spec{Isolation: berth.IsolationNone})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close(ctx)
	jobs := sb.Jobs("agent-1")
	job, err := jobs.Start(ctx, berth.Shell("echo building; echo done >&2; exit 3"), berth.JobOptions{Key: "build"})
	if err != nil {
		log.Fatal(err)
	}
	info, err := job.Wait(ctx)
	fmt.Println(info.ID, info.State, info.Exit, err)
	page, err := job.Lines(ctx, 1, 0)
	fmt.Printf("lines %d to %d of %d, more %v, %v\n%s", page.FirstLine, page.LastLine, page.Lines, page.More, err, page.Data)
	// Output:
	// job-1 exited exit status 3 <nil>
	// lines 1 to 2 of 2, more false, <nil>
	// building
	// done
}

// A watcher is told of each end once, and first of what ended while nobody watched.
func ExampleJobs_Watch() {
	ctx := context.Background()
	d, cleanUp := thisMachine()
	defer cleanUp()
	sb, err := berth.Provision(ctx, d, berth.Spec{Isolation: berth.IsolationNone})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close(ctx)
	jobs := sb.Jobs("agent-1")
	for _, script := range []string{"exit 0", "exit 4"} {
		job, err := jobs.Start(ctx, berth.Shell(script), berth.JobOptions{})
		if err == nil {
			_, err = job.Wait(ctx)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err = jobs.Watch(ctx, berth.JobWatch{OnExit: func(info berth.JobInfo) error {
		fmt.Println(info.ID, info.Exit)
		if info.ID == "job-2" {
			stop() // it has been told of only once this returns
		}
		return nil
	}})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// job-1 exit status 0
	// job-2 exit status 4
	// true
}
