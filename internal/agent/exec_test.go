//go:build linux

package agent_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

var ignoreCosts = cmpopts.IgnoreFields(spec.Exit{}, "Duration", "UserTime", "SystemTime", "MaxRSSBytes")

// A command's streams are separate and byte-exact, its end is what it was.
func TestExec(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	tests := []struct {
		name string
		req  *wire.ExecRequest
		want result
	}{
		{"both streams", shell("echo out; echo err >&2"), result{Stdout: "out\n", Stderr: "err\n"}},
		{"argv is not a shell", command("echo", "$HOME", "a  b", ";x"), result{Stdout: "$HOME a  b ;x\n"}},
		{"no newline at the end", command("printf", "x"), result{Stdout: "x"}},
		{"exit code", shell("exit 7"), result{Exit: spec.Exit{Code: 7}}},
		{"exit 124 is no timeout", withTimeout(shell("exit 124"), 30*time.Second), result{Exit: spec.Exit{Code: 124}}},
		{"kill -9 $$ is no timeout", withTimeout(shell("kill -9 $$"), 30*time.Second), result{Exit: spec.Exit{Code: 137, Signal: 9}}},
		{"death by signal", shell("kill -TERM $$"), result{Exit: spec.Exit{Code: 143, Signal: 15}}},
		{"stdin is empty", command("cat"), result{}},
		{"SIGPIPE ends a writer", shell("yes | head -1"), result{Stdout: "y\n"}},
		{"bytes that are no text", command("printf", `\377\000\n`), result{Stdout: "\xff\x00\n"}},
		{"workdir", command("pwd"), result{Stdout: p.workdir + "\n"}},
		{"descriptors 0, 1, 2 and that of the listing", shell("ls /proc/self/fd"), result{Stdout: "0\n1\n2\n3\n"}},
		{"merged", merged(shell("echo a; echo b >&2; echo c")), result{Stdout: "a\nb\nc\n"}},
		{"own session and group", shell(`set -- $(cat /proc/self/stat); [ "$5" = $$ ] && [ "$6" = $$ ] && echo yes`), result{Stdout: "yes\n"}},
		{"signals at their defaults", command("sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status"), result{Stdout: "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := h.run(tt.req)
			tt.want.Exit.StdoutBytes, tt.want.Exit.StderrBytes = int64(len(tt.want.Stdout)), int64(len(tt.want.Stderr))
			if diff := cmp.Diff(tt.want, got, ignoreCosts); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func withTimeout(r *wire.ExecRequest, d time.Duration) *wire.ExecRequest {
	r.TimeoutMS = d.Milliseconds()
	return r
}

func merged(r *wire.ExecRequest) *wire.ExecRequest {
	r.Merge = true
	return r
}

// The environment is the place's and the command's; a clean one is exactly what is
// given; a shell is not made to read a file first.
func TestEnvironment(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	env := func(clean bool, add map[string]string) []string {
		r := command("/usr/bin/env")
		r.CleanEnv, r.Env = clean, map[string]wire.Bytes{}
		for k, v := range add {
			r.Env[k] = wire.Bytes(v)
		}
		var lines []string
		for _, l := range strings.Split(strings.TrimSuffix(h.run(r).Stdout, "\n"), "\n") {
			if strings.HasPrefix(l, "BERTH_COMMAND=") {
				l = "BERTH_COMMAND"
			}
			lines = append(lines, l)
		}
		return lines
	}
	path := "PATH=" + os.Getenv("PATH")
	if diff := cmp.Diff([]string{path, "HOME=/root", "PLACE=2", "A=$(X) b", "BASH_ENV=x", "BERTH_COMMAND"},
		env(false, map[string]string{"A": "$(X) b", "BASH_ENV": "x", "PLACE": "2"}), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("added: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ONLY=1"}, env(true, map[string]string{"ONLY": "1"})); diff != "" {
		t.Errorf("clean: -want +got:\n%s", diff)
	}
	r := command("true")
	r.CleanEnv = true
	if got := h.run(r).Exit; got.Code != 0 {
		t.Errorf("under a clean environment the program is looked up on the place's PATH: %v", got)
	}
	own := filepath.Join(p.workdir, "bin")
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "mine"), []byte("#!/bin/sh\necho mine\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r = command("mine")
	r.Env = map[string]wire.Bytes{"PATH": wire.Bytes(own + ":/bin")}
	if got := h.run(r).Stdout; got != "mine\n" {
		t.Errorf("the command's own PATH is not used: %q", got)
	}
}

// What cannot start says why, and runs nothing.
func TestStartFailures(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(p.workdir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("plain", "echo hi\n", 0o755)
	write("locked", "#!/bin/sh\n", 0o644)
	write("lost", "#!/nonexistent/sh\n", 0o755)
	if err := os.Symlink("/proc/self/fd", filepath.Join(p.workdir, "magic")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/self/cwd", filepath.Join(p.workdir, "magic2")); err != nil {
		t.Fatal(err)
	}
	dir := func(d string) *wire.ExecRequest {
		r := command("pwd")
		r.Dir = wire.Bytes(d)
		return r
	}
	badEnv := command("true")
	badEnv.Env = map[string]wire.Bytes{"A=B": nil}
	tests := []struct {
		name  string
		req   *wire.ExecRequest
		code  spec.Code
		cause error
	}{
		{"missing program", command("nosuchprogram"), spec.CodeStartFailed, fs.ErrNotExist},
		{"missing path", command("./nosuch"), spec.CodeStartFailed, fs.ErrNotExist},
		{"not executable", command("./locked"), spec.CodeStartFailed, fs.ErrPermission},
		{"a directory", command("/tmp"), spec.CodeStartFailed, fs.ErrPermission},
		{"missing interpreter", command("./lost"), spec.CodeStartFailed, fs.ErrNotExist},
		{"no #! line", command("./plain"), spec.CodeStartFailed, nil},
		{"missing directory", dir("nosuch"), spec.CodeInvalidPath, nil},
		{"a file as directory", dir("plain"), spec.CodeInvalidPath, nil},
		{"/proc", dir("/proc"), spec.CodeInvalidPath, nil},
		{"/proc/self/fd/3", dir("/proc/self/fd/3"), spec.CodeInvalidPath, nil},
		{"/proc by ..", dir("/tmp/../proc/self"), spec.CodeInvalidPath, nil},
		{"/proc by a link", dir("magic"), spec.CodeInvalidPath, nil},
		{"a magic link by a link", dir("magic2"), spec.CodeInvalidPath, nil},
		{"empty argv", command(), spec.CodeInvalid, nil},
		{"bad name", badEnv, spec.CodeInvalid, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := h.start(tt.req)
			if spec.CodeOf(err) != tt.code {
				t.Fatalf("start: %v, want %s", err, tt.code)
			}
			if tt.cause != nil && !errors.Is(err, tt.cause) {
				t.Errorf("start: %v is not %v", err, tt.cause)
			}
			for _, c := range r.out {
				<-c.done // a data stream of a command that never was ends too
				if c.err == nil {
					t.Error("the output of a command that never was ended as if it had been one")
				}
			}
		})
	}
	if got := h.run(dir("/")).Stdout; got != "/\n" {
		t.Errorf("pwd in /: %q", got)
	}
}

// Input arrives whole and ends; a command that does not read it holds up nothing.
func TestStdin(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	feed := func(args []string, n int) (result, int64) {
		req := command(args...)
		req.Stdin = true
		r := h.mustStart(req)
		reply, err := wire.ReadReply(r.in)
		if err != nil || reply.Offset != 0 {
			t.Fatalf("first reply: %+v, %v", reply, err)
		}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			if _, err := wire.WriteData(r.in, []byte(strings.Repeat("x", n)), 0); err == nil {
				_ = wire.WriteEnd(r.in)
			}
		}()
		second, err := wire.ReadReply(r.in)
		if err != nil {
			t.Fatalf("second reply: %v", err)
		}
		<-sent
		r.in.Close()
		return r.wait(), second.Offset
	}
	const n = 3 << 20
	if got, taken := feed([]string{"cat"}, n); len(got.Stdout) != n || taken != n {
		t.Errorf("cat gave %d bytes, took %d", len(got.Stdout), taken)
	}
	if got, taken := feed([]string{"true"}, n); got.Exit.Code != 0 || taken >= n {
		t.Errorf("true: %v, took %d", got.Exit, taken)
	}
	if got, taken := feed([]string{"sh", "-c", "exec <&-; sleep 0.2; echo done"}, n); got.Stdout != "done\n" || taken >= n {
		t.Errorf("a command that closes its stdin: %+v, took %d", got, taken)
	}
	if got, _ := feed([]string{"sh", "-c", "sleep 0.3; wc -c"}, n); strings.TrimSpace(got.Stdout) != "3145728" {
		t.Errorf("a command that reads late: %q", got.Stdout)
	}
}

// A background child that keeps the pipe holds up nothing, and lives on; what the
// leader wrote is all there, however chatty the child is.
func TestStragglers(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	begun := time.Now()
	got := h.run(withTimeout(shell("sleep 300 & echo $! > pid; echo started"), time.Minute))
	if got.Stdout != "started\n" || got.Exit.TimedOut || got.Exit.Code != 0 {
		t.Errorf("got %+v", got)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	child := findProc(t, p.fileText("pid"))
	if !child.alive() {
		t.Error("the background child is dead")
	}
	got = h.run(shell("yes & echo $! > pid2; sleep 0.1; exit 3"))
	if got.Exit.Code != 3 {
		t.Errorf("beside a chatty child: %v", got.Exit)
	}
	chatty := findProc(t, p.fileText("pid2"))
	if !chatty.alive() || !child.alive() {
		t.Error("a background child is dead")
	}
	for _, c := range []proc{child, chatty} {
		if err := syscall.Kill(c.pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		eventually(t, "the guest reaps the child", func() bool {
			_, err := os.Stat("/proc/" + itoa(c.pid))
			return os.IsNotExist(err) || startOf(c.pid) != "" && !c.alive()
		})
	}
}

// Signals reach the group of a command; one that has ended is no error.
func TestSignals(t *testing.T) {
	h := startPlace(t).dial("a")
	r := h.mustStart(shell(`trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.05; done`))
	eventually(t, "it is ready", func() bool { return r.out[0].len() > 0 })
	r.tell(wire.Control{Signal: 10, Seq: 1})
	var ack wire.Event
	if err := wire.ReadMessage(r.ctl, &ack, 0); err != nil || ack.Ack != 1 {
		t.Errorf("ack: %+v, %v", ack, err)
	}
	got := r.wait()
	if got.Stdout != "ready\ngot\n" || got.Exit.Code != 5 {
		t.Errorf("got %+v", got)
	}
}
