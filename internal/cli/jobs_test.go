//go:build linux

package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A job outlives the program that started it, also one that is killed, and is found,
// followed and waited for by others, several at once.
func TestJobOutlivesItsStarter(t *testing.T) {
	for _, isolation := range []string{"none", "guard"} {
		t.Run(isolation, func(t *testing.T) {
			u := newUser(t, isolation)
			script := `echo begin; until test -e go; do sleep 0.05; done; echo end; exit 7`
			starter := u.command("jobs", "start", "--key", "k", "--", "sh", "-c", script)
			out, err := starter.Output()
			if err != nil || string(out) != "job-1\n" {
				t.Fatalf("start: %v, %q", err, out)
			}
			follower := u.command("jobs", "logs", "--key", "k", "-f", "job-1")
			log, err := follower.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			follower.Stderr = &errs
			if err := follower.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(log)
			if !lines.Scan() || lines.Text() != "begin" {
				t.Errorf("followed: %q", lines.Text())
			}
			// One who follows is killed; nobody else notices.
			killed := u.command("jobs", "logs", "--key", "k", "-f", "job-1")
			first, err := killed.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := killed.Start(); err != nil {
				t.Fatal(err)
			}
			if !bufio.NewScanner(first).Scan() {
				t.Error("the second follower saw nothing")
			}
			if err := killed.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = killed.Wait()
			waiters := make(chan error, 2)
			for range cap(waiters) {
				waiter := u.command("jobs", "wait", "--key", "k", "job-1")
				if err := waiter.Start(); err != nil {
					t.Fatal(err)
				}
				go func() { waiters <- waiter.Wait() }()
			}
			u.must("write", "k:go", "--text", "x")
			if !lines.Scan() || lines.Text() != "end" || lines.Scan() {
				t.Errorf("followed: %q", lines.Text())
			}
			if got := statusOf(t, follower.Wait()); got != 0 {
				t.Errorf("the follower ended with %d: %s", got, errs.String())
			}
			for range cap(waiters) {
				if got := statusOf(t, <-waiters); got != 7 {
					t.Errorf("a waiter ended with %d, want the job's 7", got)
				}
			}
			if log := u.must("jobs", "logs", "--key", "k", "job-1"); log != "begin\nend\n" {
				t.Errorf("log %q", log)
			}
		})
	}
}

// An interrupt ends the following or the waiting, and not the job.
func TestInterruptLeavesTheJob(t *testing.T) {
	u := newUser(t, "none")
	u.must("jobs", "start", "--key", "k", "--", "sh", "-c", "echo up; exec sleep 1000")
	for _, args := range [][]string{{"jobs", "logs", "--key", "k", "-f", "job-1"}, {"jobs", "wait", "--key", "k", "job-1"}} {
		cmd := u.command(args...)
		out, err := os.Create(filepath.Join(u.dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		clients := func() bool {
			return strings.Contains(u.must("info", "--key", "k", "--json"), `"clients":2`)
		}
		for deadline := time.Now().Add(20 * time.Second); !clients() && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if got := statusOf(t, cmd.Wait()); got != 130 {
			t.Errorf("%v: exit status %d, want 130", args, got)
		}
		out.Close()
	}
	if list := u.must("jobs", "ls", "--key", "k", "--running", "--json"); !strings.Contains(list, `"state":"running"`) {
		t.Errorf("the job is gone: %s", list)
	}
}

// A long log is shown in part in no more time than a short one, and whole byte for byte.
func TestLongLog(t *testing.T) {
	u := newUser(t, "none")
	const n = 300_000
	u.must("jobs", "start", "--key", "k", "--", "seq", fmt.Sprint(n))
	u.must("jobs", "wait", "--key", "k", "job-1")
	for _, test := range []struct{ args, want string }{
		{"--from 150000 --lines 2", "150000\n150001\n"},
		{"--from -2", "299999\n300000\n"},
		{"--from 299999 --lines 5", "299999\n300000\n"},
		{"--from 400000", ""},
		{"--lines 1", "1\n"},
		{"--from -1 -f", "300000\n"},
	} {
		args := append([]string{"jobs", "logs", "--key", "k", "job-1"}, strings.Fields(test.args)...)
		if got := u.must(args...); got != test.want {
			t.Errorf("%s: %.60q, want %q", test.args, got, test.want)
		}
	}
	want := u.command("exec", "-n", "--key", "k", "--", "seq", fmt.Sprint(n))
	whole, err := want.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := u.must("jobs", "logs", "--key", "k", "job-1"); got != string(whole) {
		t.Errorf("%d bytes of log, want %d", len(got), len(whole))
	}
}
