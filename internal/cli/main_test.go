//go:build linux

package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-dev/berth/guest/selfexec"
	"github.com/berth-dev/berth/internal/testutil/race"
)

// TestMain makes this test binary the berth program, under that name on PATH, and
// the guest of its sandboxes.
func TestMain(m *testing.M) {
	selfexec.Main()
	if strings.HasSuffix(os.Args[0], ".test") {
		heedSignals()
	}
	testscript.Main(m, map[string]func(){
		"berth": func() {
			os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// heedSignals undoes what a test run under nohup begins with. A signal that a program
// handles is at its default in its children, one that is ignored stays so: berth would
// rightly leave it ignored, and the tests that send it would wait for ever.
func heedSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// home gives berth a home of its own below dir and returns the environment for it.
// When the test has ended, nothing that belongs to it may run any more.
func home(t testing.TB, dir string) []string {
	t.Helper()
	for _, name := range []string{"home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + filepath.Join(dir, "home"),
		"TMPDIR=" + filepath.Join(dir, "tmp"),
		"BERTH_STATE_DIR=" + filepath.Join(dir, "home", "state"),
		"BERTH_CACHE_DIR=" + filepath.Join(dir, "home", "cache"),
		race.QuickExit,
		// A test must not find the engine or the hosts of whoever runs it.
		"DOCKER_HOST=unix://" + filepath.Join(dir, "no-engine.sock"),
		"CONTAINER_HOST=unix://" + filepath.Join(dir, "no-service.sock"),
	}
}

// nothingLeft waits until no process works below dir, and fails the test if some do.
func nothingLeft(t interface{ Errorf(string, ...any) }, dir string) {
	var left []string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if left = processesBelow(dir); len(left) == 0 {
			return
		}
	}
	t.Errorf("still running: %s", strings.Join(left, "; "))
}

// processesBelow lists the processes whose working directory, program or arguments
// lie below dir, this one left out.
func processesBelow(dir string) []string {
	var found []string
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		proc := filepath.Join("/proc", entry.Name())
		cwd, _ := os.Readlink(filepath.Join(proc, "cwd"))
		args, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		if cwd == dir || strings.HasPrefix(cwd, dir+"/") || bytes.Contains(args, []byte(dir+"/")) {
			found = append(found, entry.Name()+" "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return found
}

// Every verb, as a person uses it, on real sandboxes of this machine.
func TestScripts(t *testing.T) {
	// Not in /tmp, which guard lets commands write.
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp(cache, "berth-cli-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	testscript.Run(t, testscript.Params{
		WorkdirRoot:         root,
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			for _, entry := range home(t, e.WorkDir) {
				name, value, _ := strings.Cut(entry, "=")
				e.Setenv(name, value)
			}
			e.Defer(func() { nothingLeft(t, e.WorkDir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"waitfor": waitFor,
			"lines":   lines,
		},
		Condition: condition,
	})
}

// condition knows [root] and [guard].
func condition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Geteuid() == 0, nil
	}
	return false, errors.New("no such condition: " + name)
}

// exits STATUS PROGRAM [ARG]... runs a program and checks its exit status; '*' is any.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARG]...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if args[0] != "*" && strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

// lines FILE MOST fails if a file, stdout or stderr has more lines than that.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	most, err := strconv.Atoi(args[1])
	ts.Check(err)
	if n := strings.Count(ts.ReadFile(args[0]), "\n"); n > most || neg {
		ts.Fatalf("%s has %d lines, want at most %d", args[0], n, most)
	}
}

// waitfor FILE waits until a file is there.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	name := ts.MkAbs(args[0])
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return
		}
	}
	ts.Fatalf("%s did not come", args[0])
}
