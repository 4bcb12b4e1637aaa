//go:build linux

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// user is somebody who runs one command line after the other in one directory.
type user struct {
	t   *testing.T
	dir string
	env []string
}

// newUser returns one who has a sandbox with the key k, on the directory place.
func newUser(t *testing.T, isolation string) *user {
	t.Helper()
	model, dir := berthCommand(t)
	u := &user{t: t, dir: dir, env: model.Env}
	if err := os.Mkdir(filepath.Join(dir, "place"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.must("down", "--key", "k", "--if-exists") })
	u.must("up", "--key", "k", "--isolation", isolation, "--workdir", "place")
	return u
}

func (u *user) command(args ...string) *exec.Cmd {
	cmd := exec.Command("berth", args...)
	cmd.Env, cmd.Dir = u.env, u.dir
	return cmd
}

// must runs a command line that is to succeed and returns its output.
func (u *user) must(args ...string) string {
	u.t.Helper()
	cmd := u.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		u.t.Fatalf("berth %q: %v\n%s", args, err, errs.String())
	}
	return out.String()
}

// many makes n small files below a directory, and returns their names and bytes.
func many(t *testing.T, dir string, n int) {
	t.Helper()
	for i := range n {
		name := filepath.Join(dir, fmt.Sprint("d", i%97), fmt.Sprint("f", i))
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err == nil {
			err = os.WriteFile(name, bytes.Repeat([]byte{byte(i)}, i%1000), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// same fails the test unless two trees hold the same.
func same(t *testing.T, a, b string) {
	t.Helper()
	if out, err := exec.Command("diff", "-r", a, b).CombinedOutput(); err != nil {
		t.Errorf("%s and %s differ: %.2000s", a, b, out)
	}
}

// 10,000 small files travel both ways, whole.
func TestCopyMany(t *testing.T) {
	for isolation, n := range map[string]int{"none": 10_000, "guard": 2_000} {
		t.Run(isolation, func(t *testing.T) {
			u := newUser(t, isolation)
			many(t, filepath.Join(u.dir, "src"), n)
			var sum struct {
				Files, Directories int
				MS                 int64
			}
			for _, line := range [][]string{{"src", "k:"}, {"k:src", "out"}} {
				out := u.must("cp", "--json", line[0], line[1])
				if err := json.Unmarshal([]byte(out), &sum); err != nil || sum.Files != n || sum.Directories != 98 {
					t.Errorf("%v: %s", err, out)
				}
				t.Logf("%v: %d ms", line, sum.MS)
			}
			same(t, filepath.Join(u.dir, "src"), filepath.Join(u.dir, "place", "src"))
			same(t, filepath.Join(u.dir, "src"), filepath.Join(u.dir, "out"))
		})
	}
}

// A copy that is interrupted, or killed, leaves nothing half written under its name; the
// next one, with --force, completes it.
func TestCopyInterrupted(t *testing.T) {
	u := newUser(t, "none")
	size := 2 << 20
	for i := range 40 {
		if err := os.MkdirAll(filepath.Join(u.dir, "src"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(u.dir, "src", fmt.Sprint("f", i)), bytes.Repeat([]byte("x"), size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	u.must("cp", "src", "k:whole")
	out := filepath.Join(u.dir, "out")
	for _, line := range []struct{ from, to, target string }{{"src", "k:in", "place/in"}, {"k:whole", "out", "out"}} {
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
			target := filepath.Join(u.dir, line.target)
			if err := os.RemoveAll(target); err != nil {
				t.Fatal(err)
			}
			cmd := u.command("cp", line.from, line.to)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// Once something is there it is in the middle, unless it is very fast.
			for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				if entries, _ := os.ReadDir(target); len(entries) > 0 {
					break
				}
			}
			_ = cmd.Process.Signal(signal)
			err := cmd.Wait()
			if got := statusOf(t, err); signal == syscall.SIGINT && got != 0 && got != 130 {
				t.Errorf("%v: exit status %d, want 130", line, got)
			}
			// What a guest was writing it removes when its client is gone; what a
			// killed berth was, nobody does.
			var temps []string
			for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
				if temps, _ = filepath.Glob(filepath.Join(target, ".berth-*")); len(temps) == 0 || signal == syscall.SIGKILL && target == out {
					break
				}
			}
			if len(temps) > 0 && (signal == syscall.SIGINT || target != out) {
				t.Errorf("%v, %v: left %v", line, signal, temps)
			}
			entries, _ := os.ReadDir(target)
			for _, e := range entries {
				info, err := e.Info()
				if err != nil || info.Size() != int64(size) && !strings.HasPrefix(e.Name(), ".berth-") {
					t.Errorf("%v, %v: %s is half written (%v)", line, signal, e.Name(), err)
				}
			}
			u.must("cp", "--force", line.from+"/.", line.to)
		}
	}
	for _, dir := range []string{"place/in", "out"} {
		for i := range 40 {
			info, err := os.Stat(filepath.Join(u.dir, dir, fmt.Sprint("f", i)))
			if err != nil || info.Size() != int64(size) {
				t.Errorf("%s: %v", dir, err)
			}
		}
	}
}

// An input that does not come does not hold up an interrupt, and nothing is written.
func TestWriteInterrupted(t *testing.T) {
	u := newUser(t, "none")
	for _, args := range [][]string{{"write", "k:new"}, {"cp", "-", "k:new"}} {
		cmd := u.command(args...)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := stdin.Write([]byte("half")); err != nil {
			t.Fatal(err)
		}
		awaitEntry(t, filepath.Join(u.dir, "place"))
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if got := statusOf(t, cmd.Wait()); got != 130 {
			t.Errorf("%v: exit status %d, want 130", args, got)
		}
		stdin.Close()
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if entries, _ := os.ReadDir(filepath.Join(u.dir, "place")); len(entries) == 0 {
				break
			}
		}
		if entries, _ := os.ReadDir(filepath.Join(u.dir, "place")); len(entries) > 0 {
			t.Errorf("%v: left %v", args, entries)
		}
	}
}

// awaitEntry waits until there is something in a directory.
func awaitEntry(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			return
		}
	}
	t.Fatalf("nothing came in %s", dir)
}

// A reader who has enough ends cat, find, ls and logs as a pipe of a shell would.
func TestBrokenPipeOfResults(t *testing.T) {
	u := newUser(t, "none")
	many(t, filepath.Join(u.dir, "place", "many"), 5000)
	u.must("write", "k:big", "--text", strings.Repeat("0123456789\n", 10_000))
	u.must("jobs", "start", "--key", "k", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do cat big; done; exec sleep 1000")
	for _, args := range [][]string{
		{"cat", "k:big", "k:big", "k:big", "k:big"},
		{"cp", "k:big", "k:big", "k:big", "k:big", "-"},
		{"files", "find", "k:many"},
		{"files", "find", "k:many", "--long", "--json"},
		{"jobs", "logs", "--key", "k", "-f", "job-1"},
		{"jobs", "logs", "--key", "k", "-f", "--json", "job-1"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			cmd := u.command(args...)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = w, &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			r.Close()
			if got := statusOf(t, cmd.Wait()); got != 128+13 {
				t.Errorf("exit status %d, want 141", got)
			}
			if errs.Len() > 0 {
				t.Errorf("stderr %q, want nothing", errs.String())
			}
		})
	}
}
