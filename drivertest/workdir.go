package drivertest

import (
	"context"
	"strings"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// workdirCases are about where a command runs.
func workdirCases() []Case {
	return []Case{
		{Name: "WorkdirIsTheDefault", Rule: "A command runs in the sandbox's workdir; relative names of files begin there.", Need: needCoreutils, Run: workdirDefault},
		{Name: "WorkdirIsRelative", Rule: "A command's dir is relative to the sandbox's workdir; an absolute one is taken as it is.", Need: needCoreutils, Run: workdirRelative},
		{Name: "WorkdirMissing", Rule: "A dir that is missing is invalid_path before anything runs.", Run: workdirMissing},
		{Name: "WorkdirIsAFile", Rule: "A dir that is not a directory is invalid_path before anything runs.", Run: workdirFile},
		{Name: "WorkdirUnderProc", Rule: "A dir under /proc is invalid_path before anything runs.", Run: workdirProc},
		{Name: "WorkdirLinksToProc", Rule: "A dir that leads to /proc through a link is under /proc.", Need: needShell, Run: workdirLink},
	}
}

func workdirDefault(ctx context.Context, t T, e *Env) {
	r := e.Exec(ctx, t, []string{"pwd"}, berth.ExecOptions{})
	dir := strings.TrimSuffix(string(r.Stdout), "\n")
	if !strings.HasPrefix(dir, "/") {
		t.Fatalf("pwd says %q", r.Stdout)
	}
	if want := e.Options.Spec.Workdir; want != "" && dir != want {
		t.Errorf("pwd says %q; the spec %q", dir, want)
	}
	name := e.file("here")
	e.write(ctx, t, name, []byte("here"), files.WriteOptions{})
	r = e.Exec(ctx, t, []string{"cat", dir + "/" + name}, berth.ExecOptions{})
	wantText(t, "the file at its absolute path", r.Stdout, "here")
}

func workdirRelative(ctx context.Context, t T, e *Env) {
	name := e.file("sub dir")
	if err := e.Sandbox.Files().Mkdir(ctx, name+"/deeper", files.MkdirOptions{Parents: true}); err != nil {
		t.Fatalf("mkdir: %v", err)
	}
	r := e.Exec(ctx, t, []string{"pwd"}, berth.ExecOptions{Dir: name + "/deeper"})
	if !strings.HasSuffix(string(r.Stdout), "/"+name+"/deeper\n") {
		t.Errorf("pwd says %q; want %q at its end", r.Stdout, name+"/deeper")
	}
	r = e.Exec(ctx, t, []string{"pwd"}, berth.ExecOptions{Dir: "/"})
	wantText(t, "pwd in /", r.Stdout, "/\n")
}

// wantNoDir wants dir to be refused as a working directory, with nothing run.
func wantNoDir(ctx context.Context, t T, e *Env, dir string) {
	t.Helper()
	// The program does not exist either: had it been tried, the error were another.
	_, err := e.Sandbox.Exec(ctx, []string{"berth-no-such-program"}, berth.ExecOptions{Dir: dir})
	wantError(t, dir, err, spec.ErrInvalidPath)
}

func workdirMissing(ctx context.Context, t T, e *Env) {
	wantNoDir(ctx, t, e, e.file("missing"))
	wantNoDir(ctx, t, e, "/nonexistent/at/all")
}

func workdirFile(ctx context.Context, t T, e *Env) {
	name := e.file("plain")
	e.write(ctx, t, name, nil, files.WriteOptions{})
	wantNoDir(ctx, t, e, name)
	wantNoDir(ctx, t, e, name+"/below")
}

func workdirProc(ctx context.Context, t T, e *Env) {
	for _, dir := range []string{"/proc", "/proc/self", "/proc/1/root", "/./proc/self/cwd", "/tmp/../proc"} {
		wantNoDir(ctx, t, e, dir)
	}
}

func workdirLink(ctx context.Context, t T, e *Env) {
	name := e.file("link")
	r := e.Exec(ctx, t, []string{"/bin/sh", "-c", `ln -s /proc/self "$1" && ln -s "$1" "$1-again"`, "sh", name}, berth.ExecOptions{})
	if !r.Success() {
		t.Fatalf("ln: %s", r.Stderr)
	}
	wantNoDir(ctx, t, e, name)
	wantNoDir(ctx, t, e, name+"-again")
}
