package drivertest

import (
	"context"
	"strings"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// keyCases are about commands that must not run twice.
func keyCases() []Case {
	return []Case{
		{Name: "CommandKeyRunsOnce", Rule: "A repeated Start with one key returns the process that ran; nothing runs again.", Need: needShell, Run: keyOnce},
		{Name: "CommandKeyReplaysToAnother", Rule: "The finished command of a key is returned to another client, with its exit and its output.", Need: all(needKeyed, needCoreutils), Run: keyReplays},
		{Name: "CommandKeyFindsTheRunning", Rule: "A repeated Start with one key returns the process that runs, also to a second client.", Need: all(needKeyed, needShell), Run: keyRunning},
		{Name: "CommandKeyOutlivesItsClient", Rule: "A command with a key outlives the session that started it.", Need: all(needKeyed, needShell), Run: keyOutlives},
	}
}

// lines counts the lines of a file.
func lines(ctx context.Context, t T, sb *berth.Sandbox, name string) int {
	t.Helper()
	data, err := sb.Files().ReadFile(ctx, name)
	if err != nil {
		t.Errorf("read: %v", err)
	}
	return strings.Count(string(data), "\n")
}

func keyOnce(ctx context.Context, t T, e *Env) {
	name, key := e.file("runs"), "conform-"+randomHex()
	for range 3 {
		r := e.Exec(ctx, t, []string{"/bin/sh", "-c", `echo ran >>"$1"; echo out; exit 5`, "sh", name}, berth.ExecOptions{Key: key})
		if r.ExitCode != 5 {
			t.Errorf("code %d; want that of the one run, 5", r.ExitCode)
		}
		wantText(t, "stdout", r.Stdout, "out\n")
	}
	if n := lines(ctx, t, e.Sandbox, name); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func keyReplays(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	first := e.Provision(ctx, t, s)
	for _, sb := range []*berth.Sandbox{first, e.Attach(ctx, t, s.Key)} {
		r := e.ExecIn(ctx, t, sb, []string{"cat", "/nonexistent", "-"}, berth.ExecOptions{Key: "one", Stdin: strings.NewReader("input")})
		if r.ExitCode != 1 || len(r.Stderr) == 0 {
			t.Errorf("code %d, stderr %q; want those of the one run", r.ExitCode, r.Stderr)
		}
		wantText(t, "stdout", r.Stdout, "input")
	}
}

func keyRunning(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	first := e.Provision(ctx, t, s)
	second := e.Attach(ctx, t, s.Key)
	c := &spec.Command{Key: "one", Args: berth.Shell("echo ran >>runs; while [ ! -e go ]; do sleep 1; done; exit 6")}
	p1, err := first.Start(ctx, c, berth.Stdio{})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	p2, err := second.Start(ctx, c, berth.Stdio{})
	if err != nil {
		t.Fatalf("start again: %v", err)
	}
	if p1.ID() != p2.ID() {
		t.Errorf("ids %q and %q; want one command", p1.ID(), p2.ID())
	}
	if err := first.Files().WriteFile(ctx, "go", nil, files.WriteOptions{}); err != nil {
		t.Fatalf("write: %v", err)
	}
	for i, p := range []*berth.Process{p1, p2} {
		if exit, err := p.Wait(ctx); err != nil || exit.Code != 6 {
			t.Errorf("client %d: %v, %v; want exit status 6", i+1, exit, err)
		}
	}
	if n := lines(ctx, t, first, "runs"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func keyOutlives(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	holder := e.Provision(ctx, t, s)
	first := e.Attach(ctx, t, s.Key)
	c := &spec.Command{Key: "one", Args: berth.Shell("echo ran >>runs; while [ ! -e go ]; do sleep 1; done; exit 7")}
	if _, err := first.Start(ctx, c, berth.Stdio{}); err != nil {
		t.Fatalf("start: %v", err)
	}
	if err := first.Detach(ctx); err != nil {
		t.Errorf("detach: %v", err)
	}
	p, err := holder.Start(ctx, c, berth.Stdio{})
	if err != nil {
		t.Fatalf("start again: %v", err)
	}
	if err := holder.Files().WriteFile(ctx, "go", nil, files.WriteOptions{}); err != nil {
		t.Fatalf("write: %v", err)
	}
	if exit, err := p.Wait(ctx); err != nil || exit.Code != 7 {
		t.Errorf("%v, %v; want exit status 7", exit, err)
	}
	if n := lines(ctx, t, holder, "runs"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}
