package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/filestest"
	"github.com/berth-dev/berth/spec"
)

// fileCases runs the suite of the file contract inside the place.
func fileCases() []Case {
	var all []Case
	for _, c := range filestest.Cases() {
		all = append(all, Case{Name: "Files" + c.Name, Rule: c.Rule, Run: func(ctx context.Context, t T, e *Env) {
			env := e.filesEnv(ctx, t)
			if missing := c.Missing(ctx, env); missing != "" {
				skip(t, "the place has not "+missing)
			}
			c.Run(ctx, t, env)
		}})
	}
	return all
}

// filesEnv makes what a case of filestest works on: a directory of its own in the
// case's place.
func (e *Env) filesEnv(ctx context.Context, t T) filestest.Env {
	t.Helper()
	fsys := e.Sandbox.Files()
	dir := e.workdir(ctx, t) + "/" + e.file("files")
	if err := fsys.Mkdir(ctx, dir, files.MkdirOptions{}); err != nil {
		t.Fatalf("mkdir: %v", err)
	}
	e.Cleanup(func(ctx context.Context) error {
		err := fsys.Remove(ctx, dir, files.RemoveOptions{Recursive: true})
		if errors.Is(err, spec.ErrFileNotFound) {
			return nil // the case has removed it
		}
		return err
	})
	env := filestest.Env{FS: fsys, Dir: dir, Soak: e.Options.Soak}
	if e.Caps.Shell {
		env.Shell = func(ctx context.Context, script string) (string, error) {
			r, err := e.Sandbox.Exec(ctx, berth.Shell(script), e.marked(berth.ExecOptions{}))
			if err != nil {
				return "", err
			}
			if !r.Success() {
				return "", fmt.Errorf("exit status %d: %.200s", r.ExitCode, r.Stderr)
			}
			return string(r.Stdout), nil
		}
	}
	return env
}

// workdir is the absolute name of the place's workdir.
func (e *Env) workdir(ctx context.Context, t T) string {
	t.Helper()
	if dir := e.Options.Spec.Workdir; dir != "" {
		return dir
	}
	if e.Caps.Coreutils {
		r := e.Exec(ctx, t, []string{"pwd"}, berth.ExecOptions{})
		return strings.TrimSuffix(string(r.Stdout), "\n")
	}
	o, ok := e.listed(ctx, t, e.Sandbox.ID())
	if !ok || o.Workdir == "" {
		t.Fatalf("the workdir of the place is not known: neither the spec nor the listing says it")
	}
	return o.Workdir
}

// skip ends a case that the place has no object for: no device node, say.
func skip(t T, reason string) {
	t.Helper()
	if s, ok := t.(interface{ Skip(args ...any) }); ok {
		s.Skip(reason)
	}
	t.Fatalf("%s", reason)
}
