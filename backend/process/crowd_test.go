//go:build linux

package process_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// crowdArg makes the test binary one of several clients that provision at once.
const crowdArg = "berth-crowd-reexec"

const (
	crowds   = 4
	eachHere = 8
)

// crowd provisions one place many times at once, runs a command through each session,
// and says what the place is called and what the command says of its guest.
func crowd(args []string) int {
	d, err := process.New(process.Options{Owner: "test", StateDir: args[0], BaseEnv: testEnv()})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	for range eachHere {
		group.Go(func() {
			said, err := joinCrowd(d, spec.Isolation(args[1]))
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(said, err)
		})
	}
	group.Wait()
	return 0
}

func joinCrowd(d driver.Driver, level spec.Isolation) (string, error) {
	ctx := context.Background()
	s, err := d.Provision(ctx, &spec.Spec{Key: "crowd", Isolation: level}, driver.ProvisionOptions{})
	if err != nil {
		return "", err
	}
	defer s.Close(ctx)
	var out bytes.Buffer
	p, err := s.Start(ctx, &spec.Command{Args: spec.Shell("readlink /proc/self/ns/pid; echo $PPID")}, driver.Stdio{Stdout: &out})
	if err != nil {
		return "", err
	}
	_, err = p.Wait(ctx)
	return s.ID() + " " + strings.Join(strings.Fields(out.String()), " "), err
}

// TestCrowd defends: concurrent Provisions in several processes converge on one guest.
func TestCrowd(t *testing.T) {
	levels(t, func(t *testing.T, level spec.Isolation) {
		o := options(t)
		d := open(t, o)
		t.Cleanup(func() {
			if err := d.Reap(context.Background(), "crowd", reapOptions); err != nil {
				t.Error(err)
			}
			left(t, o)
		})
		var outs [crowds]bytes.Buffer
		var cmds [crowds]*exec.Cmd
		for i := range cmds {
			cmds[i] = exec.Command(mustExecutable(t), crowdArg, o.StateDir, string(level))
			cmds[i].Stdout, cmds[i].Stderr = &outs[i], os.Stderr
			if err := cmds[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		met := map[string]int{}
		for i, cmd := range cmds {
			if err := cmd.Wait(); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
			for _, line := range strings.Split(strings.TrimSpace(outs[i].String()), "\n") {
				met[line]++
			}
		}
		said, err := joinCrowd(d, level)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]int{said + " <nil>": crowds * eachHere}, met); diff != "" {
			t.Error(diff)
		}
	})
}
