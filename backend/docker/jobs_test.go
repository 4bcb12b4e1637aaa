//go:build linux

package docker_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/testutil/killtest"
	"github.com/berth-dev/berth/spec"
)

const workerVerb = "berth-docker-test-worker"

// worker is a client that works in a place until it is killed.
func worker(args []string) int {
	host, owner, key, image, binary, prefix, mark := args[0], args[1], args[2], args[3], args[4], args[5], args[6]
	d, err := open(docker.Options{Host: host, Owner: owner, Guest: guest.BinaryOptions{Path: binary}, ResumeWindow: time.Second, OrphanAfter: 5 * time.Second})
	if err == nil {
		err = killtest.Work(d, spec.Spec{Key: spec.Key(key), Image: image}, prefix, mark, os.Stdout)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// A client may be killed at any moment, in the middle of starting jobs and writing files.
func TestClientIsKilledWithJobs(t *testing.T) {
	rounds := 4
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		rounds = 25
	}
	o := testOptions(t)
	o.ResumeWindow, o.OrphanAfter = time.Second, 5*time.Second // as the worker has them
	d, s := newDriver(t, o), busybox(t)
	t.Cleanup(func() {
		if err := d.Reap(testContext(t), s.Key, driver.ReapOptions{}); err != nil {
			t.Errorf("reap: %v", err)
		}
	})
	killtest.Clients{
		Driver: d, Spec: s, Rounds: rounds,
		Command: func(prefix, mark string) *exec.Cmd {
			return exec.Command(os.Args[0], workerVerb, o.Host, o.Owner, string(s.Key), s.Image, o.Guest.Path, prefix, mark)
		},
	}.Run(t)
}
