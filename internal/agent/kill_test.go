//go:build linux

package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

func itoa(n int) string { return strconv.Itoa(n) }

// escape is a script that brings forth processes in every way in which they leave
// their group, and writes their pids.
const escape = `
sleep 301 & echo $! > child
setsid sh -c 'echo $$ > session; exec sleep 302' &
( setsid sh -c '(echo $(exec sh -c "echo \$PPID") > orphan; exec sleep 303) & exit' ) 
( ( exec sh -c 'echo $$ > double; exec sleep 304' ) & ) &
`

// escaped names what the script has brought forth, by pids as they are out here.
func (p *place) escaped(h *host) map[string]proc {
	out := map[string]proc{}
	for _, name := range []string{"child", "session", "orphan", "double"} {
		out[name] = findProc(p.t, p.outside(h, p.fileText(name)))
	}
	return out
}

// outside translates a pid of the place to what it is out here: the NSpid line of
// its status has both.
func (p *place) outside(h *host, inside string) string {
	inside = strings.TrimSpace(inside)
	if h.hello.PID != 1 {
		return inside
	}
	statuses, _ := filepath.Glob("/proc/[0-9]*/status")
	ns := pidNamespace(guestPID(p.t, p))
	for _, name := range statuses {
		data, _ := os.ReadFile(name)
		for _, line := range strings.Split(string(data), "\n") {
			f := strings.Fields(line)
			if len(f) == 3 && f[0] == "NSpid:" && f[2] == inside {
				if pid, _ := strconv.Atoi(f[1]); pidNamespace(pid) == ns {
					return f[1]
				}
			}
		}
	}
	p.t.Fatalf("pid %s of the place is not found", inside)
	return ""
}

func pidNamespace(pid int) string {
	name, _ := os.Readlink("/proc/" + itoa(pid) + "/ns/pid")
	return name
}

func mustBeGone(t *testing.T, procs map[string]proc) {
	t.Helper()
	for name, p := range procs {
		if p.start == "" {
			t.Errorf("%s was gone before", name)
		}
		if p.alive() {
			t.Errorf("%s lives: pid %d", name, p.pid)
		}
	}
}

// On timeout the whole tree dies, those that left its group too; what was printed
// is returned, and nothing else.
func TestTimeoutKillsTheTree(t *testing.T) {
	t.Run("with groups where there are any", func(t *testing.T) { timeoutKillsTheTree(t, startPlace(t)) })
	t.Run("without groups", func(t *testing.T) { timeoutKillsTheTree(t, startPlaceUnder(t, withoutGroups(t))) })
	t.Run("as an init", func(t *testing.T) {
		needNamespaces(t)
		timeoutKillsTheTree(t, startPlaceUnder(t, append(withoutGroups(t), inNamespace...)))
	})
}

// withoutGroups is a wrapper that hides every cgroup hierarchy.
func withoutGroups(t *testing.T) []string {
	t.Helper()
	words := []string{"unshare", "--mount", "--", "sh", "-c", `mount -t tmpfs none /sys/fs/cgroup 2>/dev/null; exec "$@"`, "sh"}
	if err := exec.Command(words[0], append(words[1:], "true")...).Run(); err != nil {
		t.Skipf("no mount namespace can be made here: %v", err)
	}
	return words
}

func timeoutKillsTheTree(t *testing.T, p *place) {
	h := p.dial("a")
	r := h.mustStart(withTimeout(shell(`trap '' TERM; echo before;`+escape+`wait; sleep 300`), 4*time.Second))
	procs := p.escaped(h)
	got := r.wait()
	if !got.Exit.TimedOut || got.Exit.Signal != 9 || got.Stdout != "before\n" || got.Stderr != "" {
		t.Errorf("got %+v", got)
	}
	if got.Exit.Kill != spec.KillTerminated || len(got.Exit.Survivors) > 0 {
		t.Errorf("kill: %q %v", got.Exit.Kill, got.Exit.Survivors)
	}
	mustBeGone(t, procs)
	if again := h.run(command("echo", "alive")); again.Stdout != "alive\n" {
		t.Errorf("the next command: %+v", again)
	}
}

// The deadline times the command, not its output.
func TestTimeoutOfClosedOutput(t *testing.T) {
	h := startPlace(t).dial("a")
	got := h.run(withTimeout(shell("exec >&- 2>&-; sleep 300"), 300*time.Millisecond))
	if !got.Exit.TimedOut || got.Exit.Duration > 10*time.Second {
		t.Errorf("got %+v", got)
	}
	clean := h.run(withTimeout(shell("trap 'exit 0' TERM; while :; do sleep 0.05; done"), 300*time.Millisecond))
	if !clean.Exit.TimedOut || clean.Exit.Code != 0 {
		t.Errorf("a clean end after the deadline is a timeout: %+v", clean)
	}
	stopped := h.run(withTimeout(shell("kill -STOP $$; sleep 300"), 300*time.Millisecond))
	if !stopped.Exit.TimedOut {
		t.Errorf("a stopped command: %+v", stopped)
	}
}

// Kill ends the tree at once and is confirmed when it is done; a cancel gives grace.
func TestKillAndCancel(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	r := h.mustStart(shell(`trap '' TERM;` + escape + `wait; sleep 300`))
	procs := p.escaped(h)
	r.tell(wire.Control{Kill: true, Seq: 7})
	var ev wire.Event
	if err := wire.ReadMessage(r.ctl, &ev, 0); err != nil || ev.Ack != 7 {
		t.Fatalf("ack: %+v, %v", ev, err)
	}
	mustBeGone(t, procs)
	if got := r.wait(); got.Exit.Signal != 9 || got.Exit.TimedOut {
		t.Errorf("killed: %+v", got.Exit)
	}

	req := shell(`trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.05; done`)
	req.GraceMS = 20_000
	r = h.mustStart(req)
	eventually(t, "it is ready", func() bool { return r.out[0].len() > 0 })
	r.tell(wire.Control{Cancel: true})
	if got := r.wait(); got.Stdout != "ready\nbye\n" || got.Exit.Code != 4 || got.Exit.TimedOut {
		t.Errorf("cancelled: %+v", got)
	}

	req = shell(`trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	req.GraceMS = 60_000
	r = h.mustStart(req)
	eventually(t, "it is ready", func() bool { return r.out[0].len() > 0 })
	r.tell(wire.Control{Cancel: true})
	r.tell(wire.Control{Kill: true})
	if got := r.wait(); got.Exit.Signal != 9 {
		t.Errorf("a kill cuts the grace short: %+v", got.Exit)
	}
}

// A process that has left its session, its parents and its environment is found by
// what is left: the group of the command where there is one.
func TestKillFindsWhatHides(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	if h.hello.KillTree != string(spec.KillTreeConfirmed) {
		t.Skip("no cgroup can be made here, so nothing is promised")
	}
	r := h.mustStart(shell(`(env -i setsid sh -c '(sh -c "echo \$PPID > hidden"; exec sleep 305) &') ; echo ready; sleep 300`))
	hidden := findProc(t, p.fileText("hidden"))
	if !hidden.alive() {
		t.Fatal("nothing to find")
	}
	r.tell(wire.Control{Kill: true})
	if got := r.wait(); got.Exit.Kill != spec.KillTerminated {
		t.Errorf("kill: %q", got.Exit.Kill)
	}
	if hidden.alive() {
		t.Error("it lives")
	}
}

// A process that forks on and on is caught up with.
func TestKillCatchesARabbit(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	if h.hello.KillTree != string(spec.KillTreeConfirmed) {
		t.Skip("no cgroup can be made here, so nothing is promised")
	}
	// One is alive at a time: each waits, starts the next in a session of its own
	// and ends.
	script := "#!/bin/sh\nsleep 0.01\necho x >> hops\nsetsid \"$0\" &\n"
	if err := os.WriteFile(filepath.Join(p.workdir, "rabbit"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r := h.mustStart(shell("./rabbit & sleep 300"))
	hops := func() int {
		data, _ := os.ReadFile(filepath.Join(p.workdir, "hops"))
		return len(data)
	}
	eventually(t, "it runs", func() bool { return hops() > 20 })
	r.tell(wire.Control{Kill: true})
	if got := r.wait(); got.Exit.Kill != spec.KillTerminated {
		t.Errorf("kill: %q %v", got.Exit.Kill, got.Exit.Survivors)
	}
	caught := hops()
	time.Sleep(500 * time.Millisecond)
	if hops() != caught {
		t.Error("it runs on")
	}
}

// Ending one command leaves the others and their background children alone.
func TestKillSparesOthers(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	if got := h.run(shell("setsid sleep 306 & echo $! > background; echo x")); got.Stdout != "x\n" {
		t.Fatalf("got %+v", got)
	}
	background := findProc(t, p.fileText("background"))
	other := h.mustStart(shell("echo up; exec sleep 307"))
	eventually(t, "the other is up", func() bool { return other.out[0].len() > 0 })
	if got := h.run(withTimeout(shell("sleep 308 & wait"), 200*time.Millisecond)); !got.Exit.TimedOut {
		t.Errorf("got %+v", got.Exit)
	}
	if startOf(other.started.PID) == "" || !background.alive() {
		t.Error("an innocent process is dead")
	}
	other.tell(wire.Control{Signal: 15})
	if got := other.wait(); got.Exit.Signal != 15 || got.Exit.Kill != spec.KillNone {
		t.Errorf("the other: %+v", got.Exit)
	}
	if !strings.Contains(h.run(command("cat", "/proc/"+itoa(background.pid)+"/comm")).Stdout, "sleep") {
		t.Error("the background child is dead")
	}
}

// killNow asks for the end of a tree.
var killNow = wire.Control{Kill: true}
