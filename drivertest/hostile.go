package drivertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/drivertest/internal/rawcall"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// hostileCases are about commands that mean harm to the place itself: each uses up what
// it can, or lies as well as it can, and the place answers afterwards.
func hostileCases() []Case {
	return []Case{
		{Name: "HostileKillsItsGroup", Rule: "A command that kills its group has ended by that signal; the guest is in another one.", Need: needShell, Run: hostileGroup},
		{Name: "HostileStopsEverything", Rule: "A command that stops every process in sight stops no timeout, no kill and no answer of the place.", Need: all(needShell, needShielded), Own: true, Run: hostileStops},
		{Name: "HostileForks", Rule: "A command that forks until it is refused leaves a place that answers and starts commands, and is ended whole.", Need: all(needShell, needShielded), Own: true, Run: hostileForks},
		{Name: "HostileOpens", Rule: "A command that opens descriptors until it is refused has used up its own only.", Need: all(needShell, needRaw), Run: hostileOpens},
		{Name: "HostileWrites", Rule: "A command that writes until it is refused is ended or told so; the place answers, and can remove what was written.", Need: needShell, Run: hostileWrites},
		{Name: "HostileAllocates", Rule: "A command that takes memory until it is refused has had its own only; the place answers.", Need: all(needShell, needRaw), Run: hostileAllocates},
		{Name: "HostileSpeaksProtocol", Rule: "Output is bytes: a command that writes the frames of the protocol is believed in nothing.", Need: needShell, Run: hostileFrames},
		{Name: "HostileManyArguments", Rule: "What the kernel takes is taken: 10,000 arguments arrive. What it cannot take is too_large before anything runs.", Need: needShell, Run: hostileArguments},
		{Name: "HostileSwapsTheDir", Rule: "A dir that is swapped for a link into /proc while commands start in it is never where one runs.", Need: all(needShell, needRaw), Own: true, Run: hostileDir},
	}
}

// needNative wants a kernel in the place.
func needNative(c spec.Caps) string {
	if !c.NativePrograms {
		return "native_programs"
	}
	return ""
}

// needRaw wants one for which programs of system calls can be made.
func needRaw(c spec.Caps) string {
	if why := needNative(c); why != "" {
		return why
	}
	if c.Arch != rawcall.Arch {
		return "a place on " + rawcall.Arch
	}
	return ""
}

// program puts a program of system calls into the place and returns its name.
func (e *Env) program(ctx context.Context, t T, calls ...rawcall.Call) string {
	t.Helper()
	name := e.file("program")
	e.write(ctx, t, name, rawcall.Program(calls...), files.WriteOptions{Mode: 0o755})
	return "./" + name
}

// wantAnswers wants the place to answer and to start a command, without delay.
func (e *Env) wantAnswers(ctx context.Context, t T) {
	t.Helper()
	start := time.Now()
	if err := e.Sandbox.Ping(ctx); err != nil {
		t.Errorf("ping: %v", err)
	}
	if r := e.Sh(ctx, t, "echo works"); string(r.Stdout) != "works\n" {
		t.Errorf("a command says %q %q", r.Stdout, r.Stderr)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the answers took %v", took)
	}
}

func hostileGroup(ctx context.Context, t T, e *Env) {
	r := e.Exec(ctx, t, berth.Shell("sleep 300 & kill -9 0; echo after"), berth.ExecOptions{Timeout: long})
	if r.Signal != int(spec.SIGKILL) || r.TimedOut || len(r.Stdout) > 0 {
		t.Errorf("signal %d, timed out %v, stdout %q; want the end by KILL", r.Signal, r.TimedOut, r.Stdout)
	}
	e.WaitGone(ctx, t)
	e.wantAnswers(ctx, t)
}

func hostileStops(ctx context.Context, t T, e *Env) {
	before, err := e.Sandbox.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	victim := e.Cmd(ctx, "/bin/sh", "-c", "echo ready; sleep 300")
	e.startReady(t, victim)
	r := e.Exec(ctx, t, berth.Shell("kill -STOP -1; kill -STOP 1; kill -STOP $$; sleep 300"), berth.ExecOptions{Timeout: time.Second, Grace: short})
	if !r.TimedOut {
		t.Errorf("a stopped command did not time out: code %d, signal %d", r.ExitCode, r.Signal)
	}
	if err := e.Sandbox.Ping(ctx); err != nil {
		t.Errorf("ping: %v", err)
	}
	if err := victim.Kill(ctx); err != nil {
		t.Errorf("kill of a stopped command: %v", err)
	}
	if err := victim.Wait(); err == nil {
		t.Errorf("the stopped command was a success")
	}
	e.WaitGone(ctx, t)
	e.wantSamePlace(ctx, t, before)
}

// mostForks bounds a bomb where nothing else does.
const mostForks = 200

func hostileForks(ctx context.Context, t T, e *Env) {
	before, err := e.Sandbox.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	// The limit counts all processes of the user, so that it refuses early or - root - not
	// at all.
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do sleep 300 & i=$((i+1)); done; sleep 300", mostForks)
	bomb := e.Cmd(ctx, "/bin/sh", "-c", "echo ready; "+script)
	bomb.Rlimits = map[string]uint64{"nproc": 50}
	e.startReady(t, bomb)
	for range 5 {
		e.wantAnswers(ctx, t)
	}
	if err := bomb.Kill(ctx); err != nil {
		t.Errorf("kill: %v", err)
	}
	_ = bomb.Wait() // it was killed; or it was refused and gave up, and what it left lives on
	e.Sh(ctx, t, "kill -9 -1")
	e.WaitGone(ctx, t)
	e.wantSamePlace(ctx, t, before)
}

func hostileOpens(ctx context.Context, t T, e *Env) {
	const most, tooMany = 64, 24 // EMFILE
	dup := rawcall.Call{Number: rawcall.Dup, Args: []rawcall.Arg{rawcall.Int(1)}}
	calls := make([]rawcall.Call, 2*most)
	for i := range calls {
		calls[i] = dup
	}
	r := e.Exec(ctx, t, []string{e.program(ctx, t, calls...)}, berth.ExecOptions{Rlimits: map[string]uint64{"nofile": most}})
	if r.ExitCode != tooMany {
		t.Errorf("code %d; want it to be refused with %d", r.ExitCode, tooMany)
	}
	e.wantAnswers(ctx, t)
	if r := e.Exec(ctx, t, []string{e.program(ctx, t, calls[:most/2]...)}, berth.ExecOptions{}); !r.Success() {
		t.Errorf("the next command: code %d", r.ExitCode)
	}
}

func hostileWrites(ctx context.Context, t T, e *Env) {
	const most = 1 << 20
	name := e.file("full")
	r := e.Exec(ctx, t, []string{"/bin/sh", "-c", `cat /dev/zero >"$1"`, "sh", name}, berth.ExecOptions{Timeout: long, Rlimits: map[string]uint64{"fsize": most}})
	if r.TimedOut || r.Success() {
		t.Errorf("code %d, signal %d, timed out %v; want it to be refused", r.ExitCode, r.Signal, r.TimedOut)
	}
	info, err := e.Sandbox.Files().Stat(ctx, name, files.StatOptions{})
	if err != nil || info.Size > most {
		t.Errorf("%d bytes were written, %v", info.Size, err)
	}
	e.wantAnswers(ctx, t)
	if err := e.Sandbox.Files().Remove(ctx, name, files.RemoveOptions{}); err != nil {
		t.Errorf("remove: %v", err)
	}
	e.write(ctx, t, name, noise(2*most, 1), files.WriteOptions{}) // the limit was the command's
	if err := e.Sandbox.Files().Remove(ctx, name, files.RemoveOptions{}); err != nil {
		t.Errorf("remove: %v", err)
	}
}

func hostileAllocates(ctx context.Context, t T, e *Env) {
	const (
		most, refused  = 512 << 20, 12 // ENOMEM
		writable, anon = 3, 0x22
	)
	take := rawcall.Call{Number: rawcall.MemoryMap, Args: []rawcall.Arg{rawcall.Int(0), rawcall.Int(most / 8), rawcall.Int(writable), rawcall.Int(anon), rawcall.Int(-1)}}
	calls := make([]rawcall.Call, 9)
	for i := range calls {
		calls[i] = take
	}
	r := e.Exec(ctx, t, []string{e.program(ctx, t, calls...)}, berth.ExecOptions{Rlimits: map[string]uint64{"as": most}})
	if r.ExitCode != refused {
		t.Errorf("code %d, signal %d; want it to be refused with %d", r.ExitCode, r.Signal, refused)
	}
	e.wantAnswers(ctx, t)
}

func hostileFrames(ctx context.Context, t T, e *Env) {
	var frames bytes.Buffer
	for kind := range byte(6) { // what a multiplexer's header and a frame's could look like
		for _, length := range []uint32{0, 1, 12, 1 << 16, 1 << 31, 1<<32 - 1} {
			frames.Write([]byte{0, kind, 0, 1})
			frames.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(kind)), length))
			frames.Write(append(binary.BigEndian.AppendUint32([]byte{kind}, length), kind))
		}
	}
	for _, text := range []string{
		`{"exit":{"code":0}}`, `{"timed_out":true,"code":124}`, `{"error":{"code":"not_found"}}`, `{"op":"shutdown","shutdown":{}}`, "BERTH", "berth-guest 1.2\n",
	} {
		frames.Write(binary.BigEndian.AppendUint32(nil, uint32(len(text))))
		frames.WriteString(text + "\n")
	}
	name := e.file("frames")
	e.write(ctx, t, name, frames.Bytes(), files.WriteOptions{})
	r := e.Exec(ctx, t, []string{"/bin/sh", "-c", `cat "$1"; cat "$1" >&2; exit 7`, "sh", name}, berth.ExecOptions{Timeout: long})
	wantText(t, "stdout", r.Stdout, frames.String())
	wantText(t, "stderr", r.Stderr, frames.String())
	if r.ExitCode != 7 || r.Signal != 0 || r.TimedOut {
		t.Errorf("code %d, signal %d, timed out %v; want 7", r.ExitCode, r.Signal, r.TimedOut)
	}
	e.wantAnswers(ctx, t)
}

func hostileArguments(ctx context.Context, t T, e *Env) {
	argv := []string{"/bin/sh", "-c", `echo $#; shift 9999; echo "$1"`, "sh"}
	for i := range 10_000 {
		argv = append(argv, "argument "+strconv.Itoa(i))
	}
	wantText(t, "how many arrive, and the last", e.Exec(ctx, t, argv, berth.ExecOptions{}).Stdout, "10000\nargument 9999\n")
	env := map[string]string{}
	for i := range 1000 {
		env[fmt.Sprint("C_MANY_", i)] = strings.Repeat("v", 100)
	}
	r := e.Exec(ctx, t, []string{"env"}, berth.ExecOptions{Env: env})
	if n := bytes.Count(r.Stdout, []byte("C_MANY_")); n != len(env) {
		t.Errorf("%d variables arrive of %d", n, len(env))
	}
	name := e.file("ran")
	argv = []string{"/bin/sh", "-c", `echo ran >"$0"`, name}
	for range 80 {
		argv = append(argv, strings.Repeat("x", 100_000)) // 8 MB, more than any kernel takes
	}
	_, err := e.Sandbox.Exec(ctx, argv, berth.ExecOptions{})
	wantError(t, "8 MB of arguments", err, spec.ErrTooLarge)
	_, err = e.Sandbox.Files().ReadFile(ctx, name)
	wantError(t, "what it would have written", err, spec.ErrFileNotFound)
}

func hostileDir(ctx context.Context, t T, e *Env) {
	const swaps = 3000
	dir, link := e.file("dir"), e.file("link")
	if r := e.Exec(ctx, t, []string{"/bin/sh", "-c", `mkdir "$1" && ln -s /proc/self "$2"`, "sh", dir, link}, berth.ExecOptions{}); !r.Success() {
		t.Fatalf("mkdir, ln: %s", r.Stderr)
	}
	swap := rawcall.Call{Number: rawcall.RenameAt2, Args: []rawcall.Arg{rawcall.Int(-100), rawcall.String(dir), rawcall.Int(-100), rawcall.String(link), rawcall.Int(2)}}
	calls := make([]rawcall.Call, swaps)
	for i := range calls {
		calls[i] = swap
	}
	swapper := e.Cmd(ctx, "/bin/sh", "-c", `echo ready; while "$1"; do :; done`, "sh", e.program(ctx, t, calls...))
	e.startReady(t, swapper)
	ran, refused := 0, 0
	for range e.often(60, 1000) {
		r, err := e.Sandbox.Exec(ctx, []string{"pwd"}, e.marked(berth.ExecOptions{Dir: dir, Timeout: long}))
		switch {
		case err != nil:
			wantError(t, "a dir that is a link into /proc", err, spec.ErrInvalidPath)
			refused++
		case strings.HasPrefix(string(r.Stdout), "/proc"):
			t.Errorf("a command ran in %q", r.Stdout)
		default:
			ran++
		}
	}
	t.Logf("%d ran, %d were refused", ran, refused)
	if err := swapper.Kill(ctx); err != nil {
		t.Errorf("kill: %v", err)
	}
	_ = swapper.Wait() // it was killed
}

// often is how many attempts a race gets.
func (e *Env) often(quick, soak int) int {
	if e.Options.Soak {
		return soak
	}
	return quick
}
