package filestest

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func copyCases() []Case {
	return []Case{
		{Name: "CopyFile", Rule: "A file is copied like a Write: atomically, with its mode. Missing parents of newname are made.", Run: copyFile},
		{Name: "CopyOverwrite", Rule: "An existing newname is CodeExists, unless Overwrite is set: then a file or link is replaced.", Run: copyOverwrite},
		{Name: "CopyTree", Rule: "A directory is copied with all in it if Recursive is set, else it is CodeIsDirectory.", Run: copyTree},
		{Name: "CopyTreeOverwrite", Rule: "With Overwrite a directory is copied into the one that is there. A directory onto a file is CodeNotDirectory, a file onto a directory CodeIsDirectory.", Run: copyTreeOverwrite},
		{Name: "CopyIntoItself", Rule: "A directory into itself is CodeInvalid.", Run: copyIntoItself},
		{Name: "CopyIntoItselfByLink", Rule: "A directory into itself is CodeInvalid.", need: both(needLinks, needCopier), Run: copyIntoItselfByLink},
		{Name: "CopyLink", Rule: "A link is copied as a link.", need: both(needLinks, needCopier), Run: copyLink},
		{Name: "CopySpecial", Rule: "A FIFO, device or socket is CodeNotRegular, before anything is copied if it is oldname itself.", need: needFIFO, Run: copySpecial},
		{Name: "CopyErrors", Rule: "CodeFileNotFound: missing. CodeNotDirectory: a file stands where a directory is needed.", Run: copyErrors},
		{Name: "CopyRace", Rule: "An existing newname is CodeExists, checked atomically for a file.", Run: copyRace},
	}
}

// needCopier wants an FS that copies in place: only such a one copies links.
func needCopier(_ context.Context, e Env) string {
	if _, ok := e.FS.(files.Copier); !ok {
		return "a way to copy a link"
	}
	return ""
}

func (e Env) copy(ctx context.Context, from, to string, o files.CopyOptions) error {
	return files.Copy(ctx, e.FS, e.path(from), e.path(to), o)
}

func copyFile(ctx context.Context, t T, e Env) {
	for i, size := range []int{0, 5, 300_000} {
		content := noise(size, uint64(i))
		for j, mode := range []fs.FileMode{0o600, 0o755, 0o444} {
			from, to := fmt.Sprintf("f%d%d", i, j), fmt.Sprintf("copies/%d/%d", i, j)
			e.writeMode(ctx, t, e.path(from), content, files.WriteOptions{Mode: mode})
			if err := e.copy(ctx, from, to, files.CopyOptions{}); err != nil {
				t.Fatalf("copy a file: %v", err)
			}
			e.holds(ctx, t, e.path(to), content)
			e.holds(ctx, t, e.path(from), content)
			if info := e.stat(ctx, t, e.path(to)); info.Mode != mode {
				t.Errorf("the copy of a file with mode %v has %v", mode, info.Mode)
			}
		}
		e.contains(ctx, t, e.path(fmt.Sprintf("copies/%d", i)), "0", "1", "2")
	}
	if info := e.stat(ctx, t, e.path("copies")); info.Mode != fs.ModeDir|0o755 {
		t.Errorf("a parent that was made has mode %v", info.Mode)
	}
}

func copyOverwrite(ctx context.Context, t T, e Env) {
	e.writeMode(ctx, t, e.path("a"), "a", files.WriteOptions{Mode: 0o600})
	e.writeMode(ctx, t, e.path("b"), "b, longer", files.WriteOptions{Mode: 0o755})
	wantCode(t, "copy onto a file", e.copy(ctx, "a", "b", files.CopyOptions{}), spec.CodeExists)
	wantCode(t, "copy onto itself", e.copy(ctx, "a", "a", files.CopyOptions{}), spec.CodeExists)
	e.holds(ctx, t, e.path("b"), "b, longer")
	if err := e.copy(ctx, "a", "b", files.CopyOptions{Overwrite: true}); err != nil {
		t.Fatalf("copy over a file: %v", err)
	}
	e.holds(ctx, t, e.path("b"), "a")
	if info := e.stat(ctx, t, e.path("b")); info.Mode != 0o600 {
		t.Errorf("the copy has mode %v, want that of its original, 0600", info.Mode)
	}
	e.contains(ctx, t, e.Dir, "a", "b")
}

func (e Env) tree(ctx context.Context, t T, root string) {
	t.Helper()
	e.write(ctx, t, e.path(root+"/f"), "f")
	e.writeMode(ctx, t, e.path(root+"/sub/run"), "run", files.WriteOptions{Mode: 0o755})
	e.write(ctx, t, e.path(root+"/sub/deep/.dot"), "dot")
	e.write(ctx, t, e.path(root+"/sub/new\nline \xff"), "odd")
	e.mkdir(ctx, t, e.path(root+"/empty"))
}

func (e Env) treeHolds(ctx context.Context, t T, root string) {
	t.Helper()
	e.holds(ctx, t, e.path(root+"/f"), "f")
	e.holds(ctx, t, e.path(root+"/sub/run"), "run")
	e.holds(ctx, t, e.path(root+"/sub/deep/.dot"), "dot")
	e.holds(ctx, t, e.path(root+"/sub/new\nline \xff"), "odd")
	e.contains(ctx, t, e.path(root+"/empty"))
	if info := e.stat(ctx, t, e.path(root+"/sub/run")); info.Mode != 0o755 {
		t.Errorf("a file in a copied directory has mode %v, want 0755", info.Mode)
	}
}

func copyTree(ctx context.Context, t T, e Env) {
	e.tree(ctx, t, "tree")
	wantCode(t, "copy a directory without Recursive", e.copy(ctx, "tree", "copy", files.CopyOptions{}), spec.CodeIsDirectory)
	e.contains(ctx, t, e.Dir, "tree")
	shut := needChmod(ctx, e) == ""
	if shut {
		if err := files.Chmod(ctx, e.FS, e.path("tree/empty"), 0o700); err != nil {
			t.Fatalf("chmod: %v", err)
		}
	}
	for _, to := range []string{"copy", "made/for/it"} {
		if err := e.copy(ctx, "tree", to, files.CopyOptions{Recursive: true}); err != nil {
			t.Fatalf("copy a directory: %v", err)
		}
		e.treeHolds(ctx, t, to)
		e.contains(ctx, t, e.path(to), "f", "sub", "empty")
		if info := e.stat(ctx, t, e.path(to+"/empty")); shut && info.Mode != fs.ModeDir|0o700 {
			t.Errorf("a copied directory has mode %v, want that of its original, 0700", info.Mode)
		}
	}
	wantCode(t, "copy a directory onto one", e.copy(ctx, "tree", "copy", files.CopyOptions{Recursive: true}), spec.CodeExists)
	e.treeHolds(ctx, t, "tree")
}

func copyTreeOverwrite(ctx context.Context, t T, e Env) {
	e.tree(ctx, t, "tree")
	e.write(ctx, t, e.path("old/f"), "old content")
	e.write(ctx, t, e.path("old/sub/kept"), "kept")
	over := files.CopyOptions{Recursive: true, Overwrite: true}
	if err := e.copy(ctx, "tree", "old", over); err != nil {
		t.Fatalf("copy a directory into one: %v", err)
	}
	e.treeHolds(ctx, t, "old")
	e.holds(ctx, t, e.path("old/sub/kept"), "kept")
	e.write(ctx, t, e.path("file"), "kept")
	wantCode(t, "copy a directory onto a file", e.copy(ctx, "tree", "file", over), spec.CodeNotDirectory)
	wantCode(t, "copy a file onto a directory", e.copy(ctx, "file", "tree", over), spec.CodeIsDirectory)
	e.write(ctx, t, e.path("clash/sub"), "a file")
	wantCode(t, "copy where a file stands for a directory", e.copy(ctx, "tree", "clash", over), spec.CodeNotDirectory)
	e.holds(ctx, t, e.path("file"), "kept")
	e.holds(ctx, t, e.path("clash/sub"), "a file")
	e.treeHolds(ctx, t, "tree")
}

func copyIntoItself(ctx context.Context, t T, e Env) {
	e.tree(ctx, t, "tree")
	for _, o := range []files.CopyOptions{{Recursive: true}, {Recursive: true, Overwrite: true}} {
		for _, to := range []string{"tree/copy", "tree/sub/copy", "tree/sub/../copy", "tree/new/copy", "tree/sub"} {
			if err := e.copy(ctx, "tree", to, o); spec.CodeOf(err) != spec.CodeExists || o.Overwrite {
				wantCode(t, "copy a directory to "+to, err, spec.CodeInvalid)
			}
		}
	}
	e.contains(ctx, t, e.path("tree/sub/deep"), ".dot")
	if err := e.copy(ctx, "tree", "tree2", files.CopyOptions{Recursive: true}); err != nil {
		t.Errorf("copy a directory to a name that begins like its own: %v", err)
	}
}

func copyIntoItselfByLink(ctx context.Context, t T, e Env) {
	e.tree(ctx, t, "tree")
	e.symlink(ctx, t, "tree/sub", e.path("link"))
	wantCode(t, "copy a directory into itself by a link", e.copy(ctx, "tree", "link/copy", files.CopyOptions{Recursive: true}), spec.CodeInvalid)
	e.contains(ctx, t, e.path("tree/sub"), "run", "deep", "new\nline \xff")
}

func copyLink(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("tree/f"), "f")
	e.symlink(ctx, t, "f", e.path("tree/link"))
	e.symlink(ctx, t, "/nowhere/at all", e.path("tree/dangling"))
	e.symlink(ctx, t, "..", e.path("tree/up"))
	e.write(ctx, t, e.path("over"), "old")
	for from, to := range map[string]string{"tree/link": "l", "tree/dangling": "d", "tree/up": "u"} {
		if err := e.copy(ctx, from, to, files.CopyOptions{}); err != nil {
			t.Errorf("copy a link: %v", err)
		}
		wantCode(t, "copy a link onto something", e.copy(ctx, from, "over", files.CopyOptions{}), spec.CodeExists)
	}
	if err := e.copy(ctx, "tree/link", "over", files.CopyOptions{Overwrite: true}); err != nil {
		t.Errorf("copy a link over a file: %v", err)
	}
	if err := e.copy(ctx, "tree", "copy", files.CopyOptions{Recursive: true}); err != nil {
		t.Fatalf("copy a directory with links: %v", err)
	}
	for name, want := range map[string]string{"l": "f", "d": "/nowhere/at all", "u": "..", "over": "f", "copy/link": "f", "copy/dangling": "/nowhere/at all", "copy/up": ".."} {
		if info := e.stat(ctx, t, e.path(name)); info.Mode.Type() != fs.ModeSymlink || info.Target != want {
			t.Errorf("%s is %v to %q, want a link to %q", name, info.Mode, info.Target, want)
		}
	}
	e.contains(ctx, t, e.path("copy"), "f", "link", "dangling", "up")
	e.contains(ctx, t, e.Dir, "tree", "copy", "l", "d", "u", "over")
}

func copySpecial(ctx context.Context, t T, e Env) {
	e.mkfifo(ctx, t, e.path("fifo"))
	err := promptly(t, "copying a FIFO", func() error { return e.copy(ctx, "fifo", "made/copy", files.CopyOptions{Recursive: true}) })
	wantCode(t, "copy a FIFO", err, spec.CodeNotRegular)
	e.contains(ctx, t, e.Dir, "fifo")
	e.mkfifo(ctx, t, e.path("fifo2"))
	e.write(ctx, t, e.path("f"), "f")
	err = promptly(t, "copying over a FIFO", func() error { return e.copy(ctx, "f", "fifo2", files.CopyOptions{Overwrite: true}) })
	wantCode(t, "copy over a FIFO", err, spec.CodeNotReplaceable)
}

func copyErrors(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "kept")
	for _, o := range []files.CopyOptions{{}, {Recursive: true, Overwrite: true}} {
		wantCode(t, "copy what is missing", e.copy(ctx, "missing", "to", o), spec.CodeFileNotFound)
		wantCode(t, "copy from below a file", e.copy(ctx, "f/x", "to", o), spec.CodeNotDirectory)
		wantCode(t, "copy to below a file", e.copy(ctx, "f", "f/x", o), spec.CodeNotDirectory)
		wantCode(t, "copy of no name", files.Copy(ctx, e.FS, "", e.path("to"), o), spec.CodeInvalidPath)
		wantCode(t, "copy to no name", files.Copy(ctx, e.FS, e.path("f"), "", o), spec.CodeInvalidPath)
	}
	e.holds(ctx, t, e.path("f"), "kept")
	e.contains(ctx, t, e.Dir, "f")
}

func copyRace(ctx context.Context, t T, e Env) {
	const copiers = 8
	for i := range copiers {
		e.write(ctx, t, e.path(fmt.Sprintf("f%d", i)), fmt.Sprintf("file %d", i))
	}
	errs := make([]error, copiers)
	var wg sync.WaitGroup
	for i := range copiers {
		wg.Go(func() { errs[i] = e.copy(ctx, fmt.Sprintf("f%d", i), "to", files.CopyOptions{}) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Errorf("copiers %d and %d have both won", winner, i)
		case err == nil:
			winner = i
		default:
			wantCode(t, "a loser", err, spec.CodeExists)
		}
	}
	if winner >= 0 {
		e.holds(ctx, t, e.path("to"), fmt.Sprintf("file %d", winner))
	} else {
		t.Errorf("nobody has won")
	}
}
