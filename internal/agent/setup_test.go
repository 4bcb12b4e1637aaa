//go:build linux

package agent_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// startOpenPlace starts a guest whose workdir every user can reach.
func startOpenPlace(t *testing.T) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth-agent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	p := startPlace(t, "--workdir", dir)
	p.workdir = dir
	return p
}

func asUser(user string, r *wire.ExecRequest) *wire.ExecRequest {
	r.User = user
	return r
}

func withUmask(mask uint32, r *wire.ExecRequest) *wire.ExecRequest {
	r.Umask = &mask
	return r
}

func withLimits(limits map[string]uint64, r *wire.ExecRequest) *wire.ExecRequest {
	r.Rlimits = limits
	return r
}

// describe prints all that a process inherits and can see of itself, but for the limit by
// which the guest tells commands apart and which nothing enforces. The shell reads its own
// state: while it waits for a program it has blocked signals itself.
const describe = `echo "args $0 $*"; umask; id -u; id -g; id -G; pwd
tr '\0' ' ' </proc/$$/cmdline; echo
set -- /proc/$$/fd/*; echo "$# $(readlink /proc/$$/fd/1 | cut -d: -f1)"
while read -r l; do case $l in Name*|SigBlk*|SigIgn*|SigPnd*|NoNewPrivs*) echo "$l";; esac; done </proc/$$/status
set -- $(cat /proc/$$/stat); [ "$5" = $$ ] && [ "$6" = $$ ] && echo leader
grep -vE 'Max (core|open|file locks) ' /proc/$$/limits
env | grep -v '^BERTH_COMMAND=' | sort`

// What sets a command up cannot be seen in it: but for what was asked for it is the
// same as without.
func TestSetupIsInvisible(t *testing.T) {
	p := startOpenPlace(t)
	h := p.dial("a")
	// The runtime of what sets it up must not heed what is meant for the program.
	hostile := map[string]wire.Bytes{"GODEBUG": wire.Bytes("inittrace=1"), "GOMEMLIMIT": wire.Bytes("nonsense"), "GOTRACEBACK": wire.Bytes("crash")}
	request := func() *wire.ExecRequest {
		r := command("/bin/sh", "-c", describe, "my name", "", "two words")
		r.Env = maps.Clone(hostile)
		return r
	}
	plain := h.run(request())
	if plain.Exit.Code != 0 || !strings.Contains(plain.Stdout, "leader\n") {
		t.Fatalf("%+v", plain)
	}
	through := h.run(withUmask(0o027, withLimits(map[string]uint64{"core": 0}, request())))
	want := strings.Replace(plain.Stdout, "\n0022\n", "\n0027\n", 1)
	if through.Stdout != want || through.Stderr != plain.Stderr {
		t.Errorf("-without +through a setup:\n%s", cmp.Diff(want, through.Stdout+through.Stderr))
	}
	soft := func(r *wire.ExecRequest) string { return h.run(r).Stdout }
	if a, b := soft(shell("ulimit -Sn; ulimit -Hn")), soft(withUmask(0, shell("ulimit -Sn; ulimit -Hn"))); a != b {
		t.Errorf("the limit on open files is %q, without a setup %q", b, a)
	}
}

// Umask and limits hold from the first instruction on, also those that would stop
// the program that sets them.
func TestUmaskAndLimits(t *testing.T) {
	p := startOpenPlace(t)
	h := p.dial("a")
	run := func(r *wire.ExecRequest) string {
		t.Helper()
		got := h.run(r)
		if got.Exit.Code != 0 || got.Stderr != "" {
			t.Errorf("%+v", got)
		}
		return got.Stdout
	}
	if got := run(withUmask(0o077, shell("touch f; stat -c %a f"))); got != "600\n" {
		t.Errorf("mode %q", got)
	}
	limits := map[string]uint64{"nofile": 33, "fsize": 4096, "core": 0, "cpu": 100, "stack": 1 << 20, "data": 32 << 20, "as": 64 << 20, "nproc": 1}
	got := run(withLimits(limits, shell("cat /proc/self/limits")))
	for line, value := range map[string]uint64{"Max open files": 33, "Max file size": 4096, "Max core file size": 0, "Max cpu time": 100, "Max stack size": 1 << 20, "Max data size": 32 << 20, "Max address space": 64 << 20, "Max processes": 1} {
		text := strconv.FormatUint(value, 10)
		_, rest, _ := strings.Cut(got, line)
		if f := strings.Fields(rest); len(f) < 2 || f[0] != text || f[1] != text {
			t.Errorf("%s is not %s, soft and hard, in:\n%s", line, text, got)
		}
	}
	if got := h.run(withLimits(map[string]uint64{"nofile": 3}, command("true"))); got.Exit.Code != 127 && got.Exit.Code != 0 {
		t.Errorf("three descriptors: %+v", got)
	}
	big := command("/bin/sh", "-c", "echo $#", "sh")
	for range 8 {
		big.Args = append(big.Args, wire.Bytes(strings.Repeat("x", 100_000)))
	}
	if got := run(withLimits(map[string]uint64{"as": 1 << 30, "data": 1 << 30}, big)); got != "8\n" {
		t.Errorf("large arguments under a limit: %q", got)
	}
	if got := h.run(withLimits(map[string]uint64{"cpu": 1}, shell("while :; do :; done"))); got.Exit.Signal == 0 {
		t.Errorf("it runs on: %+v", got.Exit)
	}
}

// What cannot be set up is said with its reason, and nothing runs.
func TestSetupFailures(t *testing.T) {
	p := startOpenPlace(t)
	h := p.dial("a")
	var hard unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &hard); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(p.workdir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	inClosed := asUser("65534", command("true"))
	inClosed.Dir = wire.Bytes("closed")
	below := asUser("65534", command("true"))
	below.Dir = wire.Bytes("closed/below")
	if err := os.Mkdir(filepath.Join(closed, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode fs.FileMode) {
		if err := os.WriteFile(filepath.Join(p.workdir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("root-only", "#!/bin/sh\n", 0o700)
	write("garbage", "no program", 0o755)
	tests := []struct {
		name  string
		req   *wire.ExecRequest
		code  spec.Code
		cause error
	}{
		{"a limit above the hard one", withLimits(map[string]uint64{"nofile": hard.Max + 1}, shell("echo x >ran")), spec.CodePermission, fs.ErrPermission},
		{"an unknown limit", withLimits(map[string]uint64{"files": 1}, shell("echo x >ran")), spec.CodeInvalid, nil},
		{"a umask out of range", withUmask(0o1000, shell("echo x >ran")), spec.CodeInvalid, nil},
		{"a missing program", withUmask(0, command("nosuchprogram")), spec.CodeStartFailed, fs.ErrNotExist},
		{"no program", withUmask(0, command("./garbage")), spec.CodeStartFailed, nil},
		{"an unknown user", asUser("nobody-of-that-name", shell("echo x >ran")), spec.CodeInvalid, nil},
		{"an unknown group", asUser("0:nobody-of-that-name", shell("echo x >ran")), spec.CodeInvalid, nil},
		{"a number that is none", asUser("4294967295", shell("echo x >ran")), spec.CodeInvalid, nil},
		{"a number that would wrap", asUser("4294967296", shell("echo x >ran")), spec.CodeInvalid, nil},
		{"a program closed to the user", asUser("65534", command("./root-only")), spec.CodeStartFailed, fs.ErrPermission},
		{"a directory closed to the user", inClosed, spec.CodeInvalidPath, fs.ErrPermission},
		{"a way closed to the user", below, spec.CodeInvalidPath, fs.ErrPermission},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := h.start(tt.req)
			if spec.CodeOf(err) != tt.code || tt.cause != nil && !errors.Is(err, tt.cause) {
				t.Errorf("%v: code %q, want %s because of %v", err, spec.CodeOf(err), tt.code, tt.cause)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(p.workdir, "ran")); !os.IsNotExist(err) {
		t.Error("something ran")
	}
	eventually(t, "no process is left", func() bool { return p.footprint().children == 0 })
}

// A command runs as the user that is asked for, with that user's group and groups, and
// no more rights than it has.
func TestUser(t *testing.T) {
	p := startOpenPlace(t)
	h := p.dial("a")
	if os.Getuid() != 0 {
		if h.hello.CommandUser {
			t.Error("a guest without rights says that it can change them")
		}
		if _, err := h.start(asUser("0", command("true"))); spec.CodeOf(err) != spec.CodeUnsupported {
			t.Errorf("%v, want unsupported", err)
		}
		return
	}
	if !h.hello.CommandUser {
		t.Skip("ids cannot be changed here")
	}
	for user, want := range map[string]string{
		"12345":        "12345 12345 12345",
		"12345:777":    "12345 777 777",
		"12345:daemon": "12345 1 1",
		"daemon":       "1 1 1",
		"daemon:5":     "1 5 5",
		"1":            "1 1 1",
		"0":            "0 0 0",
	} {
		if got := h.run(asUser(user, shell(`echo $(id -u) $(id -g) $(id -G)`))); got.Stdout != want+"\n" {
			t.Errorf("%s: %q %q, want %q", user, got.Stdout, got.Stderr, want)
		}
	}
	got := h.run(asUser("12345", shell(`cat /etc/shadow; grep -E '^Cap(Inh|Prm|Eff)' /proc/self/status; echo x >mine && stat -c %u mine; readlink /proc/$PPID/cwd || echo hidden`)))
	const none = "0000000000000000\n"
	if want := "CapInh:\t" + none + "CapPrm:\t" + none + "CapEff:\t" + none + "12345\nhidden\n"; got.Stdout != want || !strings.Contains(got.Stderr, "denied") {
		t.Errorf("%+v, want %q", got, want)
	}
	both := withUmask(0o077, withLimits(map[string]uint64{"nproc": 20}, asUser("12345", shell("umask; id -u; ulimit -u 2>/dev/null || ulimit -p"))))
	if got := h.run(both); got.Stdout != "0077\n12345\n20\n" {
		t.Errorf("with a umask and a limit: %+v", got)
	}
	// The guest itself has stayed who it was.
	if got := h.run(shell("id -u; id -G; cat /etc/shadow >/dev/null && echo reads")); got.Stdout != fmt.Sprintf("0\n%s\nreads\n", groupsOf(t)) {
		t.Errorf("afterwards: %+v", got)
	}
	r := h.mustStart(asUser("12345", shell(`trap '' TERM;`+escape+`wait; sleep 300`)))
	procs := p.escaped(h)
	r.tell(killNow)
	if got := r.wait(); got.Exit.Signal != 9 {
		t.Errorf("killed: %+v", got.Exit)
	}
	mustBeGone(t, procs)
}

func groupsOf(t *testing.T) string {
	t.Helper()
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	text := "0"
	for _, g := range groups {
		if g != 0 {
			text += " " + strconv.Itoa(g)
		}
	}
	return text
}

// Silence ends a command, and only silence: output that nobody asked for counts, and so
// does a reader that holds it up.
func TestNoOutputTimeout(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	silence := func(d time.Duration, r *wire.ExecRequest) *wire.ExecRequest {
		r.NoOutputMS = d.Milliseconds()
		return r
	}
	got := h.run(silence(2*time.Second, shell("echo out; echo err >&2; sleep 300")))
	if !got.Exit.TimedOut || !got.Exit.NoOutput || got.Stdout != "out\n" || got.Stderr != "err\n" {
		t.Errorf("silent: %+v", got)
	}
	busy := "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; echo x%s; done"
	for name, r := range map[string]*wire.ExecRequest{
		"stdout":               shell(fmt.Sprintf(busy, "")),
		"stderr":               shell(fmt.Sprintf(busy, " >&2")),
		"stderr, not asked":    shell(fmt.Sprintf(busy, " >&2")),
		"nothing asked":        shell(fmt.Sprintf(busy, "")),
		"merged":               merged(shell(fmt.Sprintf(busy, " >&2"))),
		"merged and not asked": merged(shell(fmt.Sprintf(busy, " >&2"))),
	} {
		if strings.Contains(name, "not") {
			r.Stdout, r.Stderr = name == "stderr, not asked", false
		}
		got := h.run(silence(1500*time.Millisecond, r))
		if got.Exit.TimedOut || got.Exit.Code != 0 {
			t.Errorf("%s: %+v", name, got.Exit)
		}
		if !r.Stderr && got.Exit.StderrBytes != 0 {
			t.Errorf("%s: %d bytes of stderr are counted", name, got.Exit.StderrBytes)
		}
	}
	quiet := silence(300*time.Millisecond, command("sleep", "300"))
	quiet.Stdout, quiet.Stderr = false, false
	if got := h.run(quiet); !got.Exit.NoOutput {
		t.Errorf("nothing asked, nothing said: %+v", got.Exit)
	}
	if got := h.run(silence(10*time.Second, withTimeout(shell("sleep 300"), 200*time.Millisecond))); !got.Exit.TimedOut || got.Exit.NoOutput {
		t.Errorf("the other deadline came first: %+v", got.Exit)
	}

	const total = 3 << 20
	script, want := numbers(total)
	r := silence(1500*time.Millisecond, shell(script))
	r.Stderr = false
	ctl := h.open(&wire.Request{Op: wire.OpExec, Exec: r})
	s := h.open(dataRequest(r.ID, 1, 0))
	held := &running{t: t, id: r.ID, ctl: ctl}
	if err := held.awaitStart(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(4 * time.Second) // in which nobody reads
	held.out[0] = collect(s)
	if got := held.wait(); got.Exit.TimedOut || got.Exit.Code != 0 || got.Stdout != string(want) {
		t.Errorf("held up by its reader: %+v", got.Exit)
	}
}

// A request that comes again after its command has been forgotten runs nothing.
func TestLateRepeatRunsNothing(t *testing.T) {
	p := startPlace(t, "--resume", "2s")
	h := p.dial("a")
	req := shell("echo x >>runs")
	req.Stdout, req.Stderr = false, false
	h.run(req)
	ask := func(again *wire.Request) error {
		time.Sleep(50 * time.Millisecond)
		r := &running{t: t, ctl: h.open(again)}
		defer r.ctl.Close()
		err := r.awaitStart()
		if err == nil {
			_ = wire.WriteMessage(r.ctl, wire.Control{Done: true})
		}
		return err
	}
	eventually(t, "the command is forgotten", func() bool {
		return spec.CodeOf(ask(&wire.Request{Op: wire.OpAttach, Attach: &wire.AttachRequest{ID: req.ID}})) == spec.CodeNotFound
	})
	repeat := &wire.Request{Op: wire.OpExec, Exec: req}
	if err := ask(repeat); spec.CodeOf(err) != spec.CodeUnknownOutcome {
		t.Errorf("%v, want an unknown outcome", err)
	}
	if got := p.fileText("runs"); got != "x\n" {
		t.Errorf("it ran: %q", got)
	}
}

// A process that is born while its command is being ended gets TERM too, and none gets
// it twice.
func TestTermReachesTheNewborn(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	req := shell(`trap 'echo term >>terms; sleep 300 & echo $! >>born' TERM; echo ready; while :; do sleep 0.05; done`)
	req.GraceMS = 60_000
	r := h.mustStart(req)
	eventually(t, "it is ready", func() bool { return r.out[0].len() > 0 })
	r.tell(wire.Control{Cancel: true})
	born := findProc(t, p.fileText("born"))
	eventually(t, "the child has ended", func() bool { return !born.alive() })
	time.Sleep(300 * time.Millisecond)
	if got := p.fileText("terms"); got != "term\n" {
		t.Errorf("the leader got %q", got)
	}
	r.tell(wire.Control{Kill: true})
	r.wait()
}

// The guest holds nothing open that it was started with, but its listener.
func TestInheritedDescriptorsAreClosed(t *testing.T) {
	dir := t.TempDir()
	p := startPlaceUnder(t, []string{"/bin/sh", "-c", `exec 7>"$0"/seven 9>"$0"/nine; exec "$@"`, dir})
	p.dial("a")
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.cmd.Process.Pid))
	if err != nil || len(fds) == 0 {
		t.Fatalf("%v, %v", fds, err)
	}
	for _, fd := range fds {
		if target, _ := os.Readlink(fd); strings.HasPrefix(target, dir) {
			t.Errorf("%s is %s", fd, target)
		}
	}
}

// The cost of a command is that of all its processes.
func TestCosts(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	got := h.run(shell(`head -c 100000000 /dev/zero | tail -c 100000000 | wc -c; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`))
	if got.Exit.MaxRSSBytes < 90<<20 || got.Exit.MaxRSSBytes > 400<<20 {
		t.Errorf("it held %d bytes, want 100 MB and some", got.Exit.MaxRSSBytes)
	}
	if got.Exit.UserTime <= 0 || got.Exit.SystemTime <= 0 || got.Exit.UserTime+got.Exit.SystemTime > 4*got.Exit.Duration {
		t.Errorf("it took %v and %v of %v", got.Exit.UserTime, got.Exit.SystemTime, got.Exit.Duration)
	}
	if h.hello.KillTree == string(spec.KillTreeConfirmed) {
		// Nobody waits for the one that works.
		got = h.run(shell(`(sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo x >done' &); while [ ! -e done ]; do sleep 0.05; done`))
		if got.Exit.UserTime < 50*time.Millisecond {
			t.Errorf("a process that nobody waits for cost %v", got.Exit.UserTime)
		}
	}
	before := h.run(command("true")).Exit
	if before.UserTime+before.SystemTime > 300*time.Millisecond {
		t.Errorf("the next command is charged %v", before.UserTime+before.SystemTime)
	}
}
