package drivertest

import (
	"context"
	"strings"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// workspaceRoot is a directory that every place has. Not all of its files are a
// case's own, so that each works in a directory of it.
const workspaceRoot = "/tmp"

// rootCases are about a file API that keeps to one directory.
func rootCases() []Case {
	return []Case{
		{Name: "RootConfinesText", Rule: "Under WorkspaceRoot a path that is not below it by its text is invalid_path before anything is read.", Need: needRoot, Run: rootText},
		{Name: "RootConfinesLinks", Rule: "Under WorkspaceRoot a path that leads out of it through a link is invalid_path before anything is read.", Need: all(needRoot, needShell), Run: rootLinks},
		{Name: "RootConfinesFilesOnly", Rule: "WorkspaceRoot confines the file API, not the commands.", Need: all(needRoot, needShell), Run: rootCommands},
		{Name: "RootMissing", Rule: "A WorkspaceRoot that does not exist is invalid_path, and no place is made.", Need: all(needRoot, needKeyed), Run: rootMissing},
		{Name: "RootUnsupported", Rule: "A WorkspaceRoot that cannot be enforced is refused before anything is created.", Need: all(needNoRoot, needKeyed), Run: rootUnsupported},
	}
}

func needRoot(c spec.Caps) string {
	if !c.WorkspaceRoot {
		return "workspace_root"
	}
	return ""
}

func needNoRoot(c spec.Caps) string {
	if c.WorkspaceRoot {
		return "a place without workspace_root"
	}
	return ""
}

// confined provisions a place whose files keep to workspaceRoot, and makes a directory
// in it.
func (e *Env) confined(ctx context.Context, t T) (*berth.Sandbox, string) {
	t.Helper()
	s := e.Spec()
	s.WorkspaceRoot = workspaceRoot
	sb := e.Provision(ctx, t, s)
	dir := workspaceRoot + "/" + e.file("root")
	if err := sb.Files().Mkdir(ctx, dir, files.MkdirOptions{}); err != nil {
		t.Fatalf("mkdir below the root: %v", err)
	}
	e.Cleanup(func(ctx context.Context) error {
		return sb.Files().Remove(ctx, dir, files.RemoveOptions{Recursive: true})
	})
	return sb, dir
}

// wantConfined wants every way to use the file out, which is not below the root, to be
// refused. in is a file that is.
func wantConfined(ctx context.Context, t T, fsys files.FS, in, out string) {
	t.Helper()
	first := func(seq func(func(files.Info, error) bool)) (err error) {
		for _, err = range seq {
			break
		}
		return err
	}
	_, open := fsys.Open(ctx, out, files.OpenOptions{})
	_, stat := fsys.Stat(ctx, out, files.StatOptions{Follow: true})
	_, glob := matched(files.Glob(ctx, fsys, files.GlobOptions{Dir: out}))
	_, batch := files.WriteBatch(ctx, fsys, func(yield func(files.BatchFile, error) bool) {
		empty := strings.NewReader("")
		_ = yield(files.BatchFile{Name: in + "-batch", Src: empty}, nil) && yield(files.BatchFile{Name: out + "/new", Src: empty}, nil)
	}, files.BatchOptions{})
	for what, err := range map[string]error{
		"open": open, "stat": stat, "glob": glob, "batch": batch,
		"list":      first(fsys.List(ctx, out)),
		"chmod":     files.Chmod(ctx, fsys, out, 0o700),
		"write":     files.WriteFile(ctx, fsys, out+"/new", nil, files.WriteOptions{}),
		"mkdir":     fsys.Mkdir(ctx, out+"/new", files.MkdirOptions{Parents: true}),
		"remove":    fsys.Remove(ctx, out+"/new", files.RemoveOptions{Recursive: true}),
		"rename":    fsys.Rename(ctx, in, out+"/new", files.RenameOptions{}),
		"copy to":   files.Copy(ctx, fsys, in, out+"/new", files.CopyOptions{}),
		"copy from": files.Copy(ctx, fsys, out+"/new", in+"-copied", files.CopyOptions{}),
	} {
		wantError(t, what+" "+out, err, spec.ErrInvalidPath)
	}
	if _, err := fsys.Stat(ctx, in+"-batch", files.StatOptions{}); err == nil {
		t.Errorf("a file of a batch that is refused for %s has landed", out)
	}
}

// matched counts what a search yields before its error.
func matched(seq func(func(files.Match, error) bool)) (n int, err error) {
	for _, err = range seq {
		if err != nil {
			break
		}
		n++
	}
	return n, err
}

func rootText(ctx context.Context, t T, e *Env) {
	sb, dir := e.confined(ctx, t)
	in := dir + "/in"
	if err := sb.Files().WriteFile(ctx, in, []byte("inside"), files.WriteOptions{}); err != nil {
		t.Fatalf("write below the root: %v", err)
	}
	for _, out := range []string{"/", "/etc", "/tmp-other", "/proc/self", workspaceRoot + "/..", workspaceRoot + "/../etc", dir + "/../../etc"} {
		wantConfined(ctx, t, sb.Files(), in, out)
	}
	got, err := sb.Files().ReadFile(ctx, dir+"/../"+strings.TrimPrefix(in, workspaceRoot+"/"))
	if err != nil {
		t.Fatalf("read below the root: %v", err)
	}
	wantText(t, "the file below the root", got, "inside")
}

func rootLinks(ctx context.Context, t T, e *Env) {
	sb, dir := e.confined(ctx, t)
	in := dir + "/in"
	if err := sb.Files().WriteFile(ctx, in, []byte("inside"), files.WriteOptions{}); err != nil {
		t.Fatalf("write below the root: %v", err)
	}
	r := e.ExecIn(ctx, t, sb, []string{"/bin/sh", "-c", `cd "$1" && mkdir sub && ln -s / far && ln -s ../../etc near && ln -s near again && ln -s ../../../etc sub/up && ln -s ../in sub/back && ln -s "$1/in" sub/absolute`, "sh", dir}, berth.ExecOptions{})
	if !r.Success() {
		t.Fatalf("making links: %s", r.Stderr)
	}
	for _, out := range []string{"far", "far/etc", "near", "near/.", "again", "sub/up", "sub/../near"} {
		wantConfined(ctx, t, sb.Files(), in, dir+"/"+out)
	}
	for _, name := range []string{"sub/back", "sub/absolute"} {
		got, err := sb.Files().ReadFile(ctx, dir+"/"+name)
		if err != nil {
			t.Errorf("read %s, which leads below the root: %v", name, err)
			continue
		}
		wantText(t, name, got, "inside")
	}
}

func rootCommands(ctx context.Context, t T, e *Env) {
	sb, dir := e.confined(ctx, t)
	r := e.ExecIn(ctx, t, sb, []string{"/bin/sh", "-c", `cd / && ls / >/dev/null && echo inside >"$1/f"`, "sh", dir}, berth.ExecOptions{})
	if !r.Success() {
		t.Errorf("a command outside the root: %s", r.Stderr)
	}
	got, err := sb.Files().ReadFile(ctx, dir+"/f")
	if err != nil {
		t.Fatalf("read what it wrote: %v", err)
	}
	wantText(t, "what it wrote", got, "inside\n")
}

// wantNoPlace wants s to be refused, and no place to be there under its key.
func wantNoPlace(ctx context.Context, t T, e *Env, s spec.Spec, target error) {
	t.Helper()
	_, err := berth.Provision(ctx, e.Driver, s)
	wantError(t, "provision", err, target)
	_, err = e.Driver.Attach(ctx, s.Key, driver.AttachOptions{})
	wantError(t, "attach to what was refused", err, spec.ErrNotFound)
}

func rootMissing(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	s.WorkspaceRoot = "/nonexistent/at/all"
	wantNoPlace(ctx, t, e, s, spec.ErrInvalidPath)
}

func rootUnsupported(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	s.WorkspaceRoot = workspaceRoot
	wantNoPlace(ctx, t, e, s, spec.ErrUnsupported)
}
