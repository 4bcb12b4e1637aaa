//go:build linux

package process_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/spec"
)

// victimArg makes the test binary a client that is going to be killed.
const victimArg = "berth-victim-reexec"

var reapOptions = driver.ReapOptions{}

func mustExecutable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// victim provisions the place "victim", starts a command that has a background child, and
// says so; it never ends by itself.
func victim(args []string) int {
	state, level, mark := args[0], args[1], args[2]
	d, err := process.New(process.Options{Owner: "test", StateDir: state, BaseEnv: testEnv(), OrphanAfter: orphanAfter, ResumeWindow: resumeWindow})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx := context.Background()
	s, err := d.Provision(ctx, &spec.Spec{Key: "victim", Isolation: spec.Isolation(level)}, driver.ProvisionOptions{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	const script = "(sleep 1000 &) ; echo running; sleep 1000; true"
	p, err := s.Start(ctx, &spec.Command{Args: spec.Shell(script), Env: map[string]string{"MARK": mark}}, driver.Stdio{Stdout: os.Stdout})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = p.Wait(ctx)
	fmt.Println(err)
	return 1
}

// marked lists the processes that carry a mark in their environment.
func marked(mark string) []string {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	var out []string
	for _, name := range names {
		if env, err := os.ReadFile(name); err == nil && strings.Contains("\x00"+string(env), "\x00MARK="+mark+"\x00") {
			out = append(out, filepath.Dir(name))
		}
	}
	return out
}

// TestKilledClient defends: when a client is killed in mid-command, the command is gone
// after the resume window, the place can be attached to, and Reap leaves nothing.
func TestKilledClient(t *testing.T) {
	rounds := 5
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		rounds = 50
	}
	levels(t, func(t *testing.T, level spec.Isolation) {
		o := options(t)
		d := open(t, o)
		t.Cleanup(func() {
			if err := d.Reap(context.Background(), "victim", reapOptions); err != nil {
				t.Error(err)
			}
		})
		for round := range rounds {
			mark := fmt.Sprintf("%d-%s-%d", os.Getpid(), level, round)
			cmd := exec.Command(mustExecutable(t), victimArg, o.StateDir, string(level), mark)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if line != "running\n" {
				t.Fatalf("the client says %q, %v", line, err)
			}
			if len(marked(mark)) == 0 {
				t.Error("the command is not found before the kill")
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			session, err := d.Attach(within(t), "victim", driver.AttachOptions{})
			if err != nil {
				t.Fatalf("round %d: attach: %v", round, err)
			}
			if got := must(t, session, "echo alive"); got != "alive" {
				t.Errorf("round %d: %q", round, got)
			}
			eventually(t, "the command is gone", func() error {
				if now := marked(mark); len(now) > 0 {
					return fmt.Errorf("left: %v", now)
				}
				return nil
			})
			if err := session.Close(within(t)); err != nil {
				t.Error(err)
			}
		}
		session, err := d.Attach(within(t), "victim", driver.AttachOptions{})
		if err != nil {
			t.Fatal(err)
		}
		id := session.ID()
		session.Close(within(t))
		if err := d.Reap(within(t), "victim", reapOptions); err != nil {
			t.Fatal(err)
		}
		if pids := processesOf(t, o, id); len(pids) > 0 {
			t.Errorf("processes left: %v", pids)
		}
		left(t, o)
	})
}

// TestKilledInProvision defends: when a client is killed at any moment of a Provision, the
// next one works, and Reap leaves nothing, recorded or not.
func TestKilledInProvision(t *testing.T) {
	rounds := 12
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		rounds = 100
	}
	levels(t, func(t *testing.T, level spec.Isolation) {
		o := options(t)
		d := open(t, o)
		for range rounds {
			cmd := exec.Command(mustExecutable(t), crowdArg, o.StateDir, string(level))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(rand.Int64N(int64(150 * time.Millisecond))))
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if _, err := joinCrowd(d, level); err != nil {
				t.Error(err)
			}
			if err := d.Reap(within(t), "crowd", reapOptions); err != nil {
				t.Error(err)
			}
			if pids := processesOf(t, o, place.ID("test", "crowd")); len(pids) > 0 {
				t.Errorf("processes left: %v", pids)
			}
		}
		left(t, o)
	})
}
