//go:build linux

package ssh_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/berth-dev/berth/backend/ssh"
	"github.com/berth-dev/berth/internal/testutil/killtest"
	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/spec"
)

// workerArg makes the test binary a client that starts jobs and writes files until it is
// killed.
const workerArg = "ssh-test-worker"

var workerSpec = spec.Spec{Key: "worker"}

func worker(args []string) int {
	addr, user, keyFile, knownHosts, dir, prefix, mark := args[0], args[1], args[2], args[3], args[4], args[5], args[6]
	d, err := ssh.New(ssh.Options{
		Addr: addr, User: user, KeyFiles: []string{keyFile}, KnownHostsFiles: []string{knownHosts}, RemoteDir: dir,
		OrphanAfter: orphanAfter, ResumeWindow: resumeWindow,
	})
	if err == nil {
		err = killtest.Work(d, workerSpec, prefix, mark, os.Stdout)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// A client may be killed at any moment, in the middle of starting jobs and writing files.
func TestClientKilledWithJobs(t *testing.T) {
	rounds := 4
	if soak() {
		rounds = 25
	}
	o := farOptions(t, sshtest.Start(t, sshtest.Options{}))
	t.Cleanup(func() { reapAll(t, o) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killtest.Clients{
		Driver: newDriver(t, o), Spec: workerSpec, Rounds: rounds,
		Command: func(prefix, mark string) *exec.Cmd {
			return exec.Command(self, workerArg, o.Addr, o.User, o.KeyFiles[0], o.KnownHostsFiles[0], o.RemoteDir, prefix, mark)
		},
	}.Run(t)
}
