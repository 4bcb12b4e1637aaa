package drivertest

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/drivertest/internal/rawcall"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// hostileGuestCases are about commands that attack the guest. Where it is not shielded
// it is a process like any other of the user, who may do with it what he likes.
func hostileGuestCases() []Case {
	return []Case{
		{Name: "GuestIsSealed", Rule: "Nothing inside reads the guest's memory, environment or descriptors, or attaches to it.", Need: all(needShell, needShielded, needNative), Run: guestSealed},
		{Name: "GuestIsNotReplaced", Rule: "The guest's program cannot be written or replaced from inside, by its path or through /proc.", Need: all(needShell, needShielded, needNative), Own: true, Run: guestReplaced},
		{Name: "GuestBearsAFlood", Rule: "Whoever finds the guest's socket is refused, however often; the guest answers its own client meanwhile.", Need: all(needShell, needShielded, needRaw), Own: true, Run: guestFlooded},
		{Name: "KernelIsShut", Rule: "Behind a wall a command changes no setting of the kernel, makes no mount and no device, opens no disk and gains no rights.", Need: all(needShell, needWall, needRaw), Run: kernelShut},
	}
}

// needWall wants a level with a wall.
func needWall(c spec.Caps) string {
	if c.Isolation.Has(spec.IsolationNone) {
		return "a wall"
	}
	return ""
}

func guestSealed(ctx context.Context, t T, e *Env) {
	for _, script := range []string{
		"cat /proc/1/environ", "head -c 1 /proc/1/mem", "cat /proc/1/maps", ": <>/proc/1/mem", "cat /proc/1/auxv", "readlink /proc/1/fd/0", ": </proc/1/fd/0", ": </proc/1/fd/3",
		"cat /proc/1/syscall", "readlink /proc/1/task/1/fd/0", ": <>/proc/1/task/1/mem",
	} {
		if r := e.Sh(ctx, t, script); r.Success() {
			t.Errorf("%s: %.100q", script, r.Stdout)
		}
	}
	if needRaw(e.Caps) != "" {
		return
	}
	const attach = 16
	for name, calls := range map[string][]rawcall.Call{
		"seize":  {seize(1)},
		"attach": {{Number: rawcall.Ptrace, Args: []rawcall.Arg{rawcall.Int(attach), rawcall.Int(1)}}},
		"read memory": {{Number: rawcall.ProcessRead, Args: []rawcall.Arg{
			rawcall.Int(1), rawcall.Bytes(vector(0x400000, 8)), rawcall.Int(1), rawcall.Bytes(vector(0x400000, 8)), rawcall.Int(1),
		}}},
		"take a descriptor": {
			{Number: rawcall.PidfdOpen, Args: []rawcall.Arg{rawcall.Int(1)}},
			{Number: rawcall.PidfdGetFD, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Int(0)}},
		},
	} {
		if r := e.Exec(ctx, t, []string{e.program(ctx, t, calls...)}, berth.ExecOptions{}); r.Success() {
			t.Errorf("%s: it worked", name)
		}
	}
	e.wantAnswers(ctx, t)
}

// vector is an iovec.
func vector(address, length uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, address), length)
}

func guestReplaced(ctx context.Context, t T, e *Env) {
	before, err := e.Sandbox.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	// Where it lies, as far as a command can find out: the name that it was started by.
	line, err := e.Sandbox.Files().ReadFile(ctx, "/proc/1/cmdline")
	if err != nil {
		t.Fatalf("read the guest's command line: %v", err)
	}
	name, _, _ := strings.Cut(string(line), "\x00")
	was, err := files.Hash(ctx, e.Sandbox.Files(), name)
	if err != nil {
		t.Logf("%s is not to be seen: %v", name, err)
		name = "/proc/1/exe"
	}
	for _, script := range []string{
		`echo evil >/proc/1/exe`, `echo evil >>/proc/1/exe`, `cp /bin/sh /proc/1/exe`, `echo evil >/proc/1/task/1/exe`, `echo evil >/proc/1/root"$1"`, `echo evil >/proc/1/cwd/x`,
		`echo evil >"$1"`, `rm -f "$1" && test ! -e "$1"`, `mv "$1" "$1.old"`, `ln -sf /bin/sh "$1" && test -L "$1"`, `chmod 0 "$1"`, `exec 3<"$1" && echo evil >/proc/self/fd/3`,
		`mv "${1%/*}" "${1%/*}.old"`, `rm -rf "$1" 2>/dev/null; test -d "${1%/*}" && test ! -e "$1" && test ! -L "$1"`,
	} {
		if r := e.Exec(ctx, t, []string{"/bin/sh", "-c", script, "sh", name}, berth.ExecOptions{}); r.Success() {
			t.Errorf("%s on %s: it worked", script, name)
		}
	}
	if was != "" {
		if now, err := files.Hash(ctx, e.Sandbox.Files(), name); err != nil || now != was {
			t.Errorf("%s had the hash %q, now %q, %v", name, was, now, err)
		}
	}
	e.wantSamePlace(ctx, t, before)
	// What becomes the command is the guest's own program, once more.
	if r := e.Exec(ctx, t, []string{"true"}, berth.ExecOptions{Rlimits: map[string]uint64{"core": 0}}); !r.Success() {
		t.Errorf("a command that is set up: code %d", r.ExitCode)
	}
}

func guestFlooded(ctx context.Context, t T, e *Env) {
	before, err := e.Sandbox.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	names := e.sockets(ctx, t)
	t.Logf("%d sockets are to be seen", len(names))
	var floods []*berth.Cmd
	for _, name := range names {
		const connections = 200
		garbage := noise(4096, 7)
		var calls []rawcall.Call
		for range connections {
			at := len(calls)
			for i, c := range rawcall.ConnectUnix(name) {
				if i > 0 {
					c.Args[0] = rawcall.Result(at)
				}
				c.May = true
				calls = append(calls, c)
			}
			const noSignal, dontWait = 0x4000, 0x40
			calls = append(calls, rawcall.Call{
				Number: rawcall.SendTo, May: true,
				Args: []rawcall.Arg{rawcall.Result(at), rawcall.Bytes(garbage), rawcall.Int(int64(len(garbage))), rawcall.Int(noSignal | dontWait)},
			})
		}
		flood := e.Cmd(ctx, "/bin/sh", "-c", `echo ready; while "$1"; do :; done`, "sh", e.program(ctx, t, calls...))
		flood.Rlimits = map[string]uint64{"nofile": 512}
		e.startReady(t, flood)
		floods = append(floods, flood)
	}
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
		e.wantAnswers(ctx, t)
	}
	for _, flood := range floods {
		if err := flood.Kill(ctx); err != nil {
			t.Errorf("kill: %v", err)
		}
		if err := flood.Wait(); err == nil || errors.Is(err, spec.ErrUnknownOutcome) {
			t.Errorf("the flood: %v; want its end by KILL", err)
		}
	}
	e.WaitGone(ctx, t)
	e.wantSamePlace(ctx, t, before)
}

// sockets returns the names of the unix sockets that can be seen inside and are listened
// on, as an address has them.
func (e *Env) sockets(ctx context.Context, t T) []string {
	t.Helper()
	const acceptsConnections = "00010000"
	table, err := e.Sandbox.Files().ReadFile(ctx, "/proc/net/unix")
	if err != nil {
		t.Fatalf("read the table of sockets: %v", err)
	}
	var names []string
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 8 || f[3] != acceptsConnections {
			continue
		}
		if rest, ok := strings.CutPrefix(f[7], "@"); ok {
			names = append(names, "\x00"+rest)
		}
	}
	return names
}

func kernelShut(ctx context.Context, t T, e *Env) {
	a := &attempt{sb: e.Sandbox, caps: e.Caps}
	for _, p := range kernelProbes() {
		switch p.Name {
		case "ReadSettings", "Keyring", "IoUring", "UserNamespace": // not promised by every wall
			continue
		case "Capabilities", "ChangeRoot": // root in a container may have what gets it nowhere
			continue
		}
		verdict, err := p.try(ctx, a)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if verdict == WallOpen {
			t.Errorf("%s: it works", p.What)
		}
	}
}
