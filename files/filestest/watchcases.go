package filestest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func watchCases() []Case {
	return []Case{
		{Name: "WatchKinds", Rule: "Watch calls tell with what changes in a directory: created, written, mode, removed, renamed.", need: needWatch, Run: watchKinds},
		{Name: "WatchParents", Rule: "Nothing that lasts is missed: what has appeared in a directory before that could be watched is told as created.", need: needWatch, Run: watchParents},
		{Name: "WatchRename", Rule: "WatchRenamed: both names lie in what is watched; moved in from elsewhere is created, moved out removed.", need: needWatch, Run: watchRename},
		{Name: "WatchBelow", Rule: "Recursive watches all directories below; without it only the directory itself is.", need: needWatch, Run: watchBelow},
		{Name: "WatchFile", Rule: "Watch calls tell with what changes to one file, and returns CodeFileNotFound once it is gone, after its last event.", need: needWatch, Run: watchFile},
		{Name: "WatchGone", Rule: "It returns CodeFileNotFound once what is watched is gone itself, moved away too.", need: needWatch, Run: watchGone},
		{Name: "WatchNames", Rule: "Names are bytes; one that is not UTF-8, holds a newline or has 255 bytes is as good as any other.", need: needWatch, Run: watchNames},
		{Name: "WatchLeftOut", Rule: "What matches Exclude, or git would ignore, is not told.", need: needWatch, Run: watchLeftOut},
		{Name: "WatchLinks", Rule: "A symbolic link is not followed, but as name itself.", need: both(needWatch, needLinks), Run: watchLinks},
		{Name: "WatchMany", Rule: "Each of many watches is told of everything.", need: needWatch, Run: watchMany},
		{Name: "WatchEnds", Rule: "It returns tell's error, the context's, or why there is nothing to watch.", need: needWatch, Run: watchEnds},
		{Name: "WatchSlow", Rule: "A tell that is slow is an overflow in the end: events are told, or it is said that they are missing.", need: needWatch, Run: watchSlow},
		{Name: "WatchLongPaths", Rule: "What has a path of more than spec.MaxPathBytes is an overflow, and the watch goes on.", need: needWatch, Run: watchLongPaths},
		{Name: "WatchManyFiles", Rule: "Nothing that lasts is missed, however many change it at once.", need: needWatch, Run: watchManyFiles},
		{Name: "WatchAnything", Rule: "Who is told of everything knows in the end what there is.", need: needWatch, Run: watchAnything},
	}
}

var recursively = files.WatchOptions{Recursive: true}

func watchKinds(ctx context.Context, t T, e Env) {
	w := e.watch(ctx, t, ".", files.WatchOptions{})
	defer w.cancel()
	e.write(ctx, t, e.path("f"), "one")
	if got := w.tells(t, files.WatchCreated, "f"); got.Dir {
		t.Errorf("a file is told as %+v", got)
	}
	if err := files.Chmod(ctx, e.FS, e.path("f"), 0o600); err == nil {
		w.tells(t, files.WatchMode, "f")
	} else if spec.CodeOf(err) != spec.CodeUnsupported {
		t.Errorf("chmod: %v", err)
	}
	e.mkdir(ctx, t, e.path("d"))
	if got := w.tells(t, files.WatchCreated, "d"); !got.Dir {
		t.Errorf("a directory is told as %+v", got)
	}
	if err := e.FS.Rename(ctx, e.path("f"), e.path("g"), files.RenameOptions{}); err != nil {
		t.Fatalf("rename: %v", err)
	}
	if got := w.tells(t, files.WatchRenamed, "g"); got.OldPath != "f" || got.Dir {
		t.Errorf("a rename is told as %+v", got)
	}
	if e.Shell != nil {
		if _, err := e.Shell(ctx, "echo more >> "+quote(e.path("g"))); err != nil {
			t.Fatalf("append: %v", err)
		}
		w.tells(t, files.WatchWritten, "g")
	}
	e.write(ctx, t, e.path("g"), "two") // another file takes the name
	w.tells(t, files.WatchCreated, "g")
	for name, dir := range map[string]bool{"g": false, "d": true} {
		if err := e.FS.Remove(ctx, e.path(name), files.RemoveOptions{}); err != nil {
			t.Fatalf("remove: %v", err)
		}
		if got := w.tells(t, files.WatchRemoved, name); got.Dir != dir {
			t.Errorf("a removal is told as %+v", got)
		}
	}
	w.ends(t)
}

func watchParents(ctx context.Context, t T, e Env) {
	w := e.watch(ctx, t, ".", recursively)
	defer w.cancel()
	for i := range 20 {
		deep := fmt.Sprintf("%d/b/c/d/e", i)
		if e.Shell != nil && i%2 == 0 {
			if _, err := e.Shell(ctx, fmt.Sprintf("cd %s && mkdir -p %s && : > %s/f", quote(e.Dir), deep, deep)); err != nil {
				t.Fatalf("mkdir -p: %v", err)
			}
		} else {
			e.write(ctx, t, e.path(deep+"/f"), "x")
		}
	}
	w.agrees(ctx, t)
	seen := map[string]int{}
	w.mu.Lock()
	for _, event := range w.events {
		if event.Kind == files.WatchCreated && event.Dir { // a file that is renamed into its place may be told twice
			seen[event.Path]++
		}
	}
	w.mu.Unlock()
	for path, n := range seen {
		if n > 1 {
			t.Errorf("%s is told as created %d times", path, n)
		}
	}
	for i := range 20 {
		if err := e.FS.Remove(ctx, e.path(fmt.Sprint(i)), files.RemoveOptions{Recursive: true}); err != nil {
			t.Fatalf("remove: %v", err)
		}
	}
	w.agrees(ctx, t)
	w.ends(t)
}

func watchRename(ctx context.Context, t T, e Env) {
	e.mkdir(ctx, t, e.path("top"))
	e.writeAll(ctx, t, "outside/tree/sub/f")
	w := e.watch(ctx, t, "top", recursively)
	defer w.cancel()
	move := func(from, to string) {
		t.Helper()
		if err := e.FS.Rename(ctx, e.path(from), e.path(to), files.RenameOptions{}); err != nil {
			t.Fatalf("rename %s to %s: %v", from, to, err)
		}
	}
	e.writeAll(ctx, t, "top/a/b/f", "top/x")
	w.agrees(ctx, t)
	move("top/a", "top/moved")
	if got := w.tells(t, files.WatchRenamed, "moved"); got.OldPath != "a" || !got.Dir {
		t.Errorf("a rename of a directory is told as %+v", got)
	}
	e.write(ctx, t, e.path("top/moved/b/new"), "x")
	w.tells(t, files.WatchCreated, "moved/b/new")
	move("top/moved/b", "top/b")
	e.write(ctx, t, e.path("top/b/newer"), "x")
	w.tells(t, files.WatchCreated, "b/newer")
	move("outside/tree", "top/tree")
	w.tells(t, files.WatchCreated, "tree")
	w.agrees(ctx, t)
	e.write(ctx, t, e.path("top/tree/sub/new"), "x")
	w.tells(t, files.WatchCreated, "tree/sub/new")
	move("top/tree", "outside/tree")
	w.tells(t, files.WatchRemoved, "tree")
	e.write(ctx, t, e.path("outside/tree/sub/unseen"), "x")
	e.write(ctx, t, e.path("top/last"), "x")
	w.tells(t, files.WatchCreated, "last")
	w.agrees(ctx, t)
	w.ends(t)
}

func watchBelow(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "d/sub/f")
	flat := e.watch(ctx, t, ".", files.WatchOptions{})
	defer flat.cancel()
	deep := e.watch(ctx, t, ".", recursively)
	defer deep.cancel()
	e.writeAll(ctx, t, "d/sub/g", "new/h", "last")
	for _, path := range []string{"d/sub/g", "new", "new/h", "last"} {
		deep.tells(t, files.WatchCreated, path)
	}
	flat.tells(t, files.WatchCreated, "new")
	flat.tells(t, files.WatchCreated, "last")
	for path := range flat.tree {
		if strings.Contains(path, "/") {
			t.Errorf("%q is told, which lies below", path)
		}
	}
	flat.ends(t)
	deep.ends(t)
}

func watchFile(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "f", "other")
	w := e.watch(ctx, t, "f", files.WatchOptions{})
	e.write(ctx, t, e.path("other"), "x")
	e.write(ctx, t, e.path("f"), "x")
	w.tells(t, files.WatchCreated, ".")
	if e.Shell != nil {
		if _, err := e.Shell(ctx, "echo more >> "+quote(e.path("f"))); err != nil {
			t.Fatalf("append: %v", err)
		}
		w.tells(t, files.WatchWritten, ".")
	}
	if err := e.FS.Remove(ctx, e.path("f"), files.RemoveOptions{}); err != nil {
		t.Fatalf("remove: %v", err)
	}
	w.gone(t)
	if last := w.events[len(w.events)-1]; last.Kind != files.WatchRemoved || last.Path != "." {
		t.Errorf("the last event is %+v", last)
	}
}

func watchGone(ctx context.Context, t T, e Env) {
	for name, do := range map[string]func(string) error{
		"removed": func(name string) error { return e.FS.Remove(ctx, name, files.RemoveOptions{Recursive: true}) },
		"moved":   func(name string) error { return e.FS.Rename(ctx, name, e.path("elsewhere"), files.RenameOptions{}) },
	} {
		e.writeAll(ctx, t, name+"/sub/f")
		w := e.watch(ctx, t, name, recursively)
		if err := do(e.path(name)); err != nil {
			w.cancel()
			t.Fatalf("%s: %v", name, err)
		}
		w.gone(t)
		if n := len(w.events); n == 0 || w.events[n-1].Kind != files.WatchRemoved || w.events[n-1].Path != "." || !w.events[n-1].Dir {
			t.Errorf("%s: the last of the events is not its removal: %+v", name, w.events)
		}
	}
}

func watchNames(ctx context.Context, t T, e Env) {
	w := e.watch(ctx, t, ".", recursively)
	defer w.cancel()
	names := []string{"\xff\xfe", "new\nline", "tab\t", " ", "-", "...", "\\", "*", "é", strings.Repeat("x", 255)}
	for _, name := range names {
		e.writeAll(ctx, t, name, "in-"+name[:min(len(name), 200)]+"/"+name)
	}
	for _, name := range names {
		w.tells(t, files.WatchCreated, "in-"+name[:min(len(name), 200)]+"/"+name)
	}
	w.agrees(ctx, t)
	w.ends(t)
}

func watchLeftOut(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, ".git/HEAD", "node_modules/old/f")
	e.write(ctx, t, e.path(".gitignore"), "*.log\nbuild/\n")
	w := e.watch(ctx, t, ".", files.WatchOptions{Recursive: true, Gitignore: true, Exclude: []string{"node_modules", "**/*.tmp"}})
	defer w.cancel()
	e.writeAll(ctx, t, "a.log", "build/x", "node_modules/new/f", "node_modules/old/g", "x.tmp", "sub/y.tmp", "sub/b.log", ".git/index", "sub/build/z")
	e.writeAll(ctx, t, "sub/kept", "later/build/z")
	w.tells(t, files.WatchCreated, "later")
	if err := e.FS.Rename(ctx, e.path("build"), e.path("kept"), files.RenameOptions{}); err != nil {
		t.Fatalf("rename: %v", err)
	}
	w.until(t, "what is in a directory that gets another name", func() bool { _, ok := w.tree["kept/x"]; return ok })
	if err := e.FS.Rename(ctx, e.path("kept"), e.path("later/build/back"), files.RenameOptions{}); err != nil {
		t.Fatalf("rename: %v", err)
	}
	w.tells(t, files.WatchRemoved, "kept")
	e.write(ctx, t, e.path("last"), "x")
	w.tells(t, files.WatchCreated, "last")
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []string
	for path := range w.tree {
		got = append(got, path)
	}
	slices.Sort(got)
	if want := []string{"last", "later", "sub", "sub/kept"}; !slices.Equal(got, want) {
		t.Errorf("told are %q, want %q", got, want)
	}
	w.cancel()
}

func watchLinks(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "outside/dir/f", "top/f")
	e.symlink(ctx, t, "../outside", e.path("top/link"))
	e.symlink(ctx, t, "top", e.path("way"))
	w := e.watch(ctx, t, "way", recursively)
	defer w.cancel()
	e.symlink(ctx, t, "../outside/dir", e.path("top/newer"))
	if got := w.tells(t, files.WatchCreated, "newer"); got.Dir {
		t.Errorf("a link is told as %+v", got)
	}
	e.writeAll(ctx, t, "outside/new", "outside/dir/new", "top/last")
	w.tells(t, files.WatchCreated, "last")
	for path := range w.tree {
		if strings.Contains(path, "new") && path != "newer" {
			t.Errorf("%q is told, which lies behind a link", path)
		}
	}
	w.ends(t)
}

func watchMany(ctx context.Context, t T, e Env) {
	all := make([]*watching, 16)
	for i := range all {
		all[i] = e.watch(ctx, t, ".", recursively)
		defer all[i].cancel()
	}
	e.writeAll(ctx, t, "a/b/f", "g")
	for _, w := range all {
		w.tells(t, files.WatchCreated, "g")
		w.agrees(ctx, t)
	}
	for _, w := range all {
		w.ends(t)
	}
}

func watchEnds(ctx context.Context, t T, e Env) {
	ignore := func(files.WatchEvent) error { return nil }
	wantCode(t, "watch what is missing", files.Watch(ctx, e.FS, e.path("missing"), recursively, nil, ignore), spec.CodeFileNotFound)
	wantCode(t, "watch with a malformed pattern", files.Watch(ctx, e.FS, e.Dir, files.WatchOptions{Exclude: []string{"["}}, nil, ignore), spec.CodeInvalid)
	wantCode(t, "watch a name with a NUL", files.Watch(ctx, e.FS, "a\x00", recursively, nil, ignore), spec.CodeInvalidPath)
	own := errors.New("enough")
	told := 0
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		ended <- files.Watch(ctx, e.FS, e.Dir, recursively, func() { close(ready) }, func(files.WatchEvent) error {
			told++
			return own
		})
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("watch: %v", err)
	}
	e.writeAll(ctx, t, "f", "g")
	if err := <-ended; !errors.Is(err, own) || told != 1 {
		t.Errorf("a watch whose tell fails returns %v after %d events", err, told)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := files.Watch(over, e.FS, e.Dir, recursively, nil, ignore); !errors.Is(err, context.Canceled) {
		t.Errorf("a watch whose context has ended returns %v", err)
	}
}

func watchSlow(ctx context.Context, t T, e Env) {
	w := e.watch(ctx, t, ".", recursively)
	defer w.cancel()
	e.write(ctx, t, e.path("first"), "x")
	w.tells(t, files.WatchCreated, "first")
	w.mu.Lock() // what tell waits for
	deep := strings.Repeat(strings.Repeat("d", 250)+"/", 14)
	e.mkdir(ctx, t, e.path(deep))
	n, err := files.WriteBatch(ctx, e.FS, func(yield func(files.BatchFile, error) bool) {
		for i := range 2500 {
			if !yield(batchFile(e.path(deep+fmt.Sprint("f", i)), ""), nil) {
				return
			}
		}
	}, files.BatchOptions{})
	w.mu.Unlock()
	if err != nil {
		t.Fatalf("%d files written: %v", n, err)
	}
	w.until(t, "all files, or that some are missing", func() bool {
		last, ok := w.tree[deep+"f2499"]
		return w.overflow > 0 || ok && !last
	})
	if w.overflow == 0 {
		w.agrees(ctx, t)
	}
	e.write(ctx, t, e.path("last"), "x")
	w.tells(t, files.WatchCreated, "last")
	w.ends(t)
}

func watchLongPaths(ctx context.Context, t T, e Env) {
	e.mkdir(ctx, t, e.path("top"))
	for i, o := range []files.WatchOptions{recursively, {Recursive: true, Exclude: []string{"nothing"}}} {
		w := e.watch(ctx, t, "top", o)
		defer w.cancel()
		_, undo := e.tooLong(ctx, t, "top")
		w.until(t, "an overflow", func() bool { return w.overflow > 0 })
		last := fmt.Sprint("last", i)
		e.write(ctx, t, e.path("top/"+last), "x")
		undo()
		w.tells(t, files.WatchCreated, last)
		w.ends(t)
	}
}

func watchManyFiles(ctx context.Context, t T, e Env) {
	w := e.watch(ctx, t, ".", recursively)
	defer w.cancel()
	each := e.scaled(500, 5000)
	var all sync.WaitGroup
	for k := range 4 {
		all.Go(func() {
			if e.Shell != nil {
				script := fmt.Sprintf(`cd %s && i=0; while [ $i -lt %d ]; do d=%d-$((i/100)); [ -d $d/sub ] || mkdir -p $d/sub; : > $d/sub/$i || exit 1; i=$((i+1)); done`, quote(e.Dir), each, k)
				if _, err := e.Shell(ctx, script); err != nil {
					t.Errorf("make files: %v", err)
				}
				return
			}
			for i := range each {
				name := e.path(fmt.Sprintf("%d-%d/sub/%d", k, i/100, i))
				if err := e.writeString(ctx, name, "x", files.WriteOptions{}); err != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	w.settled(ctx, t)
	w.ends(t)
}

func watchAnything(ctx context.Context, t T, e Env) {
	e.mkdir(ctx, t, e.path("top"))
	e.mkdir(ctx, t, e.path("outside"))
	w := e.watch(ctx, t, "top", recursively)
	defer w.cancel()
	steps := e.scaled(120, 5000)
	seed := rand.Uint64()
	var all sync.WaitGroup
	for k := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(k)))
			for range steps {
				e.anything(ctx, r, k)
			}
		})
	}
	all.Wait()
	w.settled(ctx, t)
	w.ends(t)
	t.Logf("seed %d: %d events", seed, len(w.events))
}

// anything does one thing at random below top. That it fails is as may be.
func (e Env) anything(ctx context.Context, r *rand.Rand, who int) {
	pick := func() string {
		p := e.path("top")
		for range 1 + r.IntN(3) {
			p += "/" + string(rune('a'+r.IntN(4)))
		}
		return p
	}
	a, b := pick(), pick()
	switch r.IntN(8) {
	case 0, 1:
		_ = e.FS.Mkdir(ctx, a, files.MkdirOptions{Parents: true})
	case 2, 3:
		_ = e.writeString(ctx, a+"-f", "x", files.WriteOptions{})
	case 4, 5:
		_ = e.FS.Rename(ctx, a, b, files.RenameOptions{Overwrite: r.IntN(2) == 0})
	case 6:
		_ = e.FS.Remove(ctx, a, files.RemoveOptions{Recursive: true})
	case 7:
		away := e.path(fmt.Sprint("outside/", who))
		_ = e.FS.Rename(ctx, a, away, files.RenameOptions{})
		_ = e.FS.Rename(ctx, away, b, files.RenameOptions{Overwrite: true})
	}
}
