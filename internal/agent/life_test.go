//go:build linux

package agent_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Shutdown answers, ends every process of the place and then the guest.
func TestShutdown(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	if got := h.run(shell("setsid sleep 321 & echo $! > background")); got.Exit.Code != 0 {
		t.Fatalf("got %+v", got)
	}
	background := findProc(t, p.fileText("background"))
	r := h.mustStart(shell("trap 'echo told > told; exit 0' TERM; echo up; while :; do sleep 0.05; done"))
	eventually(t, "it is up", func() bool { return r.out[0].len() > 0 })
	stubborn := h.mustStart(shell("trap '' TERM; echo up; while :; do sleep 0.05; done"))
	eventually(t, "it is up", func() bool { return stubborn.out[0].len() > 0 })
	leader := findProc(t, itoa(stubborn.started.PID))
	if _, err := h.call(&wire.Request{Op: wire.OpShutdown, Shutdown: &wire.ShutdownRequest{GraceMS: 2000}}); err != nil {
		t.Fatalf("shutdown: %v", err)
	}
	p.waitEnd(20 * time.Second)
	if background.alive() || leader.alive() {
		t.Error("a process outlived the place")
	}
	if p.fileText("told") != "told\n" {
		t.Error("no TERM came before the KILL")
	}
	if p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the guest: %v", p.cmd.ProcessState)
	}
}

// An ephemeral place ends some time after its last client, and when none ever came;
// others end when they are idle or old.
func TestEnds(t *testing.T) {
	for name, args := range map[string][]string{
		"nobody came": {"--ephemeral", "--orphan-after", "200ms"},
		"idle":        {"--idle", "200ms"},
		"old":         {"--ttl", "200ms"},
	} {
		t.Run(name, func(t *testing.T) { startPlace(t, args...).waitEnd(20 * time.Second) })
	}
	t.Run("the last client left", func(t *testing.T) {
		p := startPlace(t, "--ephemeral", "--orphan-after", "400ms")
		h := p.dial("a")
		sleeper := findProc(t, itoa(h.mustStart(withKey(shell("exec sleep 322"), "k")).started.PID))
		time.Sleep(600 * time.Millisecond)
		reply, err := h.call(&wire.Request{Op: wire.OpStatus})
		if err != nil || reply.Status.Clients != 1 || reply.Status.Commands != 1 || reply.Status.ExpiresInNS >= 0 {
			t.Fatalf("status: %+v, %v", reply, err)
		}
		h.close()
		p.waitEnd(20 * time.Second)
		if sleeper.alive() {
			t.Error("a command outlived the place")
		}
	})
	t.Run("a command is not idle", func(t *testing.T) {
		p := startPlace(t, "--idle", "300ms")
		h := p.dial("a")
		h.mustStart(withKey(shell("sleep 1; echo x > x"), "k"))
		h.close()
		p.fileText("x")
		p.waitEnd(20 * time.Second)
	})
}

// The owner with the highest epoch has the place.
func TestEpoch(t *testing.T) {
	p := startPlace(t)
	old := p.dialEpoch("a", 3)
	r := old.mustStart(withKey(shell("sleep 323"), "k"))
	h := p.dialEpoch("b", 5)
	if h.hello.Epoch != 5 {
		t.Errorf("hello says epoch %d", h.hello.Epoch)
	}
	if _, err := p.connect("c", 4); spec.CodeOf(err) != spec.CodeStaleOwner {
		t.Errorf("a lower epoch: %v", err)
	}
	if _, err := old.start(shell("echo x > stale")); spec.CodeOf(err) != spec.CodeStaleOwner {
		t.Errorf("a request of the old owner: %v", err)
	}
	if _, err := old.call(&wire.Request{Op: wire.OpPing}); spec.CodeOf(err) != spec.CodeStaleOwner {
		t.Errorf("a ping of the old owner: %v", err)
	}
	r.tell(wire.Control{Kill: true})
	if _, err := r.exit(); spec.CodeOf(err) != spec.CodeStaleOwner {
		t.Errorf("a kill by the old owner: %v", err)
	}
	if startOf(r.started.PID) == "" {
		t.Error("the old owner has killed")
	}
	if names := h.run(command("ls")).Stdout; strings.Contains(names, "stale") {
		t.Error("the old owner has run something")
	}
}

// A host that means another place is told so.
func TestIdentity(t *testing.T) {
	p := startPlace(t)
	conn, err := net.Dial("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := greet(t, conn, wire.HostHello{ID: "another", Client: "a"}); spec.CodeOf(err) != spec.CodeNotFound {
		t.Errorf("hello: %v", err)
	}
	h := p.dial("a")
	g := h.hello
	if g.ID != placeID || string(g.Workdir) != p.workdir || !g.Shell || !g.Coreutils || g.OS != "linux" || g.PID != p.cmd.Process.Pid {
		t.Errorf("hello: %+v", g)
	}
	if _, err := h.call(&wire.Request{Op: "nosuch"}); spec.CodeOf(err) != spec.CodeUnsupported {
		t.Errorf("an unknown operation: %v", err)
	}
}

// Who is not outside, or was not put there by an engine, does not get in.
func TestPeers(t *testing.T) {
	for _, policy := range []string{"outside", "engine"} {
		t.Run(policy, func(t *testing.T) {
			p := startPlace(t, "--peer", policy)
			if _, err := p.connect("a", 0); err == nil {
				t.Error("a process of the same pid namespace was let in")
			}
			_ = p.cmd.Process.Kill() // the cleanup cannot get in either
		})
	}
	needNamespaces(t)
	t.Run("from outside", func(t *testing.T) {
		p := startPlaceUnder(t, inNamespace, "--peer", "outside")
		h := p.dial("a")
		if h.hello.PID != 1 {
			t.Fatalf("the guest has pid %d", h.hello.PID)
		}
		if got := h.run(shell("echo in")); got.Stdout != "in\n" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("by an engine", func(t *testing.T) {
		p := startPlaceUnder(t, inNamespace, "--peer", "engine")
		if _, err := p.connect("a", 0); err == nil {
			t.Error("a process outside was let in, but no engine's")
		}
		h := throughRelay(t, p)
		if got := h.run(shell("echo in")); got.Stdout != "in\n" {
			t.Errorf("got %+v", got)
		}
	})
}

// inNamespace runs the guest as pid 1 of a pid namespace of its own; that of the
// guest ends with it.
var inNamespace = []string{"unshare", "--pid", "--mount-proc", "--fork", "--kill-child", "--"}

func needNamespaces(t *testing.T) {
	t.Helper()
	if err := exec.Command(inNamespace[0], append(inNamespace[1:], "true")...).Run(); err != nil {
		t.Skipf("no pid namespace can be made here: %v", err)
	}
}

// guestPID is the pid, out here, of the init of a place in a namespace.
func guestPID(t testing.TB, p *place) int {
	t.Helper()
	var pid string
	eventually(t, "the guest has started", func() bool {
		// A wrapper that execs keeps its pid; the one that forks is the last.
		data, _ := os.ReadFile(filepath.Join("/proc", itoa(p.cmd.Process.Pid), "task", itoa(p.cmd.Process.Pid), "children"))
		pid = strings.TrimSpace(string(data))
		return pid != ""
	})
	return findProc(t, pid).pid
}

// throughRelay connects by a relay that is put into the place's namespace, as an
// engine's exec does it.
func throughRelay(t *testing.T, p *place) *host {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	relay := exec.Command("nsenter", "--pid", "--mount", "--target", itoa(guestPID(t, p)), "--",
		self, "berth-guest-reexec", "relay", "--path", p.socket, "--peer-pid", "0")
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	far, near := os.NewFile(uintptr(fds[0]), "far"), os.NewFile(uintptr(fds[1]), "near")
	relay.Stdin, relay.Stdout, relay.Stderr = far, far, os.Stderr
	if err := relay.Start(); err != nil {
		t.Fatal(err)
	}
	far.Close()
	t.Cleanup(func() { // a relay ends with its stream
		done := make(chan error, 1)
		go func() { done <- relay.Wait() }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			_ = relay.Process.Kill()
			t.Error("the relay outlived its stream")
		}
	})
	conn, err := net.FileConn(near)
	if err != nil {
		t.Fatal(err)
	}
	near.Close()
	h, err := greet(t, conn, wire.HostHello{ID: placeID, Client: "relayed", Epoch: 1 << 40, Profile: wire.Local()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	return h
}

// An init guest lives through every signal from inside, queued ones included, and
// `kill -9 -1` ends commands only.
func TestShield(t *testing.T) {
	needNamespaces(t)
	p := startPlaceUnder(t, inNamespace)
	h := p.dial("a")
	if h.hello.PID != 1 {
		t.Fatalf("the guest has pid %d: nothing here may be killed", h.hello.PID)
	}
	h.run(shell("i=1; while [ $i -le 64 ]; do kill -$i 1; i=$((i+1)); done"))
	for _, how := range []string{"kill", "queue"} {
		req := command("/proc/self/exe", "berth-guest-signal-all", how)
		req.Args[0] = wire.Bytes(mustExecutable(t))
		if got := h.run(req); got.Exit.Code != 0 || got.Stdout != "sent\n" {
			t.Errorf("%s: %+v", how, got)
		}
	}
	victim := h.mustStart(shell("sleep 324"))
	got := h.run(command("/bin/sh", "-c", "kill -9 -1"))
	if got.Exit.Signal != 0 && got.Exit.Signal != 9 {
		t.Errorf("the killer: %+v", got.Exit)
	}
	if got := victim.wait(); got.Exit.Signal != 9 {
		t.Errorf("the victim: %+v", got.Exit)
	}
	if got := h.run(command("echo", "alive")); got.Stdout != "alive\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func mustExecutable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// A guest that was started with blocked and ignored signals does not pass that on.
func TestInheritedSignalState(t *testing.T) {
	p := startPlaceUnder(t, []string{mustExecutable(t), "berth-guest-block-signals"})
	h := p.dial("a")
	got := h.run(shell("grep -E 'Sig(Blk|Ign)' /proc/self/status; yes | head -1"))
	if got.Stdout != "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\ny\n" {
		t.Errorf("got %+v", got)
	}
}

// A place of a user ends by TERM, and an inherited descriptor reaches no command.
func TestTermEndsAPlaceWithoutShield(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	sleeper := findProc(t, itoa(h.mustStart(shell("exec sleep 325")).started.PID))
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGPIPE, syscall.SIGALRM} {
		if err := p.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.run(command("echo", "alive")); got.Stdout != "alive\n" {
		t.Errorf("after harmless signals: %+v", got)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.waitEnd(20 * time.Second)
	if sleeper.alive() {
		t.Error("a command outlived the place")
	}
}

// UnusedNS is 0 while a command runs or a client asks for something, whoever asks, and the
// time since then else; looking is no use.
func TestUnused(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	unused := func() time.Duration {
		t.Helper()
		r, err := h.call(&wire.Request{Op: wire.OpStatus})
		if err != nil || r.Status == nil {
			t.Fatalf("status: %v", err)
		}
		return time.Duration(r.Status.UnusedNS)
	}
	const while = 300 * time.Millisecond
	long := func() bool {
		if _, err := h.call(&wire.Request{Op: wire.OpPing}); err != nil {
			t.Fatalf("ping: %v", err)
		}
		return unused() > while
	}
	eventually(t, "nobody used it", long)
	r := h.mustStart(shell("sleep 324"))
	if u := unused(); u != 0 {
		t.Errorf("unused for %v while a command runs", u)
	}
	r.tell(wire.Control{Kill: true})
	r.wait()
	eventually(t, "nobody uses it again", long)
	begun := time.Now()
	if _, err := h.call(file(wire.OpMkdir, wire.FileRequest{Name: wire.Bytes("d")})); err != nil {
		t.Fatalf("mkdir: %v", err)
	}
	if u := unused(); u > time.Since(begun) {
		t.Errorf("unused for %v, though a directory was made %v ago", u, time.Since(begun))
	}
}
