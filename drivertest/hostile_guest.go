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
		{Name: "GuestKeepsItsLimits", Rule: "Behind a wall of this machine a command changes neither a limit nor a priority of the guest; those of its own it does.", Need: all(needShell, needShielded, needOwnWall, needRaw), Own: true, Run: guestLimited},
		{Name: "NothingRunsAsItsOwner", Rule: "Behind a wall of this machine no command makes a file that runs as its owner or its group: on disk that may be root.", Need: all(needShell, needOwnWall, needRaw), Run: nothingPrivileged},
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

// needOwnWall wants a wall that is made of this machine's own parts, and not a container.
func needOwnWall(c spec.Caps) string {
	if c.Isolation.Has(spec.IsolationGuard) || c.Isolation.Has(spec.IsolationJail) {
		return ""
	}
	return "guard or jail"
}

func guestLimited(ctx context.Context, t T, e *Env) {
	before, err := e.Sandbox.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	limit := func(pid int64, resource int64, most uint64) rawcall.Call {
		return rawcall.Call{Number: rawcall.LimitOf, Args: []rawcall.Arg{rawcall.Int(pid), rawcall.Int(resource), rawcall.Bytes(vector(most, most))}}
	}
	const (
		cpu, fsize, nofile, as = 0, 1, 7, 9
		ofProcess, ofUser      = 0, 2
		idle                   = 3 << 13
	)
	own := int64(0)
	for name, tt := range map[string]struct {
		call  rawcall.Call
		works bool
	}{
		"address space":    {limit(1, as, 1_000_000), false},
		"size of files":    {limit(1, fsize, 0), false},
		"processor time":   {limit(1, cpu, 1), false},
		"descriptors":      {limit(1, nofile, 4), false},
		"priority":         {rawcall.Call{Number: rawcall.SetPriority, Args: []rawcall.Arg{rawcall.Int(ofProcess), rawcall.Int(1), rawcall.Int(19)}}, false},
		"the user's":       {rawcall.Call{Number: rawcall.SetPriority, Args: []rawcall.Arg{rawcall.Int(ofUser), rawcall.Int(0), rawcall.Int(19)}}, false},
		"disk priority":    {rawcall.Call{Number: rawcall.SetIOPrio, Args: []rawcall.Arg{rawcall.Int(ofProcess + 1), rawcall.Int(1), rawcall.Int(idle)}}, false},
		"processors":       {rawcall.Call{Number: rawcall.SetAffinity, Args: []rawcall.Arg{rawcall.Int(1), rawcall.Int(8), rawcall.Bytes(vector(1, 0))}}, false},
		"own descriptors":  {limit(own, nofile, 4), true},
		"own priority":     {rawcall.Call{Number: rawcall.SetPriority, Args: []rawcall.Arg{rawcall.Int(ofProcess), rawcall.Int(own), rawcall.Int(19)}}, true},
		"own disk's":       {rawcall.Call{Number: rawcall.SetIOPrio, Args: []rawcall.Arg{rawcall.Int(ofProcess + 1), rawcall.Int(own), rawcall.Int(idle)}}, true},
		"the guest's read": {rawcall.Call{Number: rawcall.LimitOf, Args: []rawcall.Arg{rawcall.Int(1), rawcall.Int(as), rawcall.Int(0), rawcall.Bytes(vector(0, 0))}}, true},
	} {
		if r := e.Exec(ctx, t, []string{e.program(ctx, t, tt.call)}, berth.ExecOptions{}); r.Success() != tt.works {
			t.Errorf("%s: code %d, want it to work: %v", name, r.ExitCode, tt.works)
		}
	}
	e.wantAnswers(ctx, t)
	e.wantSamePlace(ctx, t, before)
	name := e.file("written")
	e.write(ctx, t, name, noise(1<<20, 3), files.WriteOptions{}) // the guest writes it
}

func nothingPrivileged(ctx context.Context, t T, e *Env) {
	const (
		create, temporary = 0x41, 0x410002 // O_WRONLY|O_CREAT, O_RDWR|O_TMPFILE
		regular           = 0x8000
	)
	name, made := e.file("program"), e.file("made")
	e.write(ctx, t, name, []byte("#!/bin/sh\necho works\n"), files.WriteOptions{Mode: 0o755})
	for _, mode := range []int64{0o4755, 0o2755} {
		for what, c := range map[string]rawcall.Call{
			"chmod":     {Number: rawcall.Chmod, Args: []rawcall.Arg{rawcall.String(name), rawcall.Int(mode)}},
			"chmod at":  {Number: rawcall.ChmodAt, Args: []rawcall.Arg{rawcall.Int(-100), rawcall.String(name), rawcall.Int(mode)}},
			"open":      {Number: rawcall.Open, Args: []rawcall.Arg{rawcall.String(made), rawcall.Int(create), rawcall.Int(mode)}},
			"temporary": {Number: rawcall.Open, Args: []rawcall.Arg{rawcall.String("."), rawcall.Int(temporary), rawcall.Int(mode)}},
			"mknod":     {Number: rawcall.Mknod, Args: []rawcall.Arg{rawcall.String(made), rawcall.Int(regular | mode)}},
			"openat2": {Number: rawcall.OpenAt2, Args: []rawcall.Arg{
				rawcall.Int(-100), rawcall.String(made), rawcall.Bytes(append(vector(create, uint64(mode)), make([]byte, 8)...)), rawcall.Int(24),
			}},
		} {
			if r := e.Exec(ctx, t, []string{e.program(ctx, t, c)}, berth.ExecOptions{}); r.Success() {
				t.Errorf("%s with mode %#o: it worked", what, mode)
			}
		}
	}
	info, err := e.Sandbox.Files().Stat(ctx, name, files.StatOptions{})
	if err != nil || info.Mode != 0o755 {
		t.Errorf("the program's mode is %v, %v", info.Mode, err)
	}
	_, err = e.Sandbox.Files().Stat(ctx, made, files.StatOptions{})
	wantError(t, "what was not made", err, spec.ErrFileNotFound)
	if r := e.Exec(ctx, t, []string{"/bin/sh", "-c", `"./$1" && chmod 755 "$1" && mkdir -m 2755 "$2" && test -g "$2"`, "sh", name, made}, berth.ExecOptions{}); string(r.Stdout) != "works\n" || !r.Success() {
		t.Errorf("an ordinary mode, and a directory that hands on its group: %q %q", r.Stdout, r.Stderr)
	}
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
