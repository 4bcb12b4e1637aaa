package filestest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func hostileCases() []Case {
	return []Case{
		{Name: "DeepPaths", Rule: "A path that is too long for the place is a typed answer; what is below it is passed over and can be removed.", need: needDeep, Run: deepPaths},
		{Name: "ManyEntries", Rule: "List yields the entries without holding them all in memory; Glob is bounded.", Run: manyEntries},
		{Name: "NameTooLong", Rule: "CodeInvalidPath: a name that no file can have.", Run: nameTooLong},
	}
}

// needDeep wants a shell: names beyond the limit of a path are made step by step.
func needDeep(_ context.Context, e Env) string {
	if e.Shell == nil {
		return "a shell, to make a path that is too long"
	}
	return ""
}

func deepPaths(ctx context.Context, t T, e Env) {
	elem := strings.Repeat("d", 200)
	const depth = 30
	script := fmt.Sprintf(`cd -P %s && i=0; while [ $i -lt %d ]; do mkdir %s && cd -P ./%s || exit 1; i=$((i+1)); done; : > leaf`, quote(e.Dir), depth, elem, elem)
	if _, err := e.Shell(ctx, script); err != nil {
		t.Logf("not tried: the shell makes no such path: %v", err)
		return
	}
	deep := e.Dir + strings.Repeat("/"+elem, depth) + "/leaf"
	_, err := e.FS.Stat(ctx, deep, files.StatOptions{})
	wantCode(t, "stat of a path that is too long", err, spec.CodeInvalidPath)
	wantCode(t, "open of a path that is too long", e.open(ctx, deep, files.OpenOptions{}), spec.CodeInvalidPath)
	wantCode(t, "write of a path that is too long", e.writeString(ctx, deep, "x", files.WriteOptions{}), spec.CodeInvalidPath)
	seen := 0
	for m, err := range files.Glob(ctx, e.FS, files.GlobOptions{Dir: e.Dir}) {
		if err != nil {
			t.Errorf("glob: %v", err)
			break
		}
		if seen++; len(e.path(m.Path)) > spec.MaxPathBytes {
			t.Errorf("a match with a name of %d bytes", len(e.path(m.Path)))
		}
	}
	if seen < 10 || seen > depth+1 {
		t.Errorf("glob finds %d directories", seen)
	}
	if err := e.FS.Remove(ctx, e.path(elem), files.RemoveOptions{Recursive: true}); err != nil {
		t.Errorf("remove what is too deep: %v", err)
	}
	e.contains(ctx, t, e.Dir)
}

func manyEntries(ctx context.Context, t T, e Env) {
	count := e.scaled(3000, 100_000)
	e.makeMany(ctx, t, e.path("many"), count)
	began := time.Now()
	listed := 0
	for _, err := range e.FS.List(ctx, e.path("many")) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		listed++
	}
	found := 0
	for m, err := range files.Glob(ctx, e.FS, files.GlobOptions{Dir: e.Dir, Pattern: "many/*"}) {
		if err != nil {
			t.Fatalf("glob: %v", err)
		}
		if want := "many/" + manyName(found); m.Path != want {
			t.Fatalf("match %d is %q, want %q", found, m.Path, want)
		}
		found++
	}
	if listed != count || found != count {
		t.Errorf("%d are listed, %d are found, want %d", listed, found, count)
	}
	took := time.Since(began)
	t.Logf("%d entries are listed twice in %v", count, took)
	if took > 30*time.Second+time.Duration(count)*time.Millisecond {
		t.Errorf("listing %d entries twice takes %v", count, took)
	}
	if err := e.FS.Remove(ctx, e.path("many"), files.RemoveOptions{Recursive: true}); err != nil {
		t.Errorf("remove: %v", err)
	}
}

// The names of many files: in order, since the numbers are of one length.
const (
	manyPrefix = "a name of some length, number "
	manyFirst  = 1_000_000
)

func manyName(i int) string { return fmt.Sprint(manyPrefix, manyFirst+i) }

// makeMany makes empty files in a new directory, by the shell's own means where there
// is one: it has no round trip.
func (e Env) makeMany(ctx context.Context, t T, dir string, count int) {
	t.Helper()
	e.mkdir(ctx, t, dir)
	if e.Shell != nil {
		script := fmt.Sprintf(`cd %s && i=%d; while [ $i -lt %d ]; do : > %s"$i" || exit 1; i=$((i+1)); done`, quote(dir), manyFirst, manyFirst+count, quote(manyPrefix))
		if _, err := e.Shell(ctx, script); err != nil {
			t.Fatalf("make %d files: %v", count, err)
		}
		return
	}
	n, err := files.WriteBatch(ctx, e.FS, func(yield func(files.BatchFile, error) bool) {
		for i := range count {
			if !yield(batchFile(dir+"/"+manyName(i), ""), nil) {
				return
			}
		}
	}, files.BatchOptions{})
	if n != count || err != nil {
		t.Fatalf("%d files of %d, %v", n, count, err)
	}
}

func nameTooLong(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "f")
	for _, name := range []string{strings.Repeat("x", 256), strings.Repeat("é", 128)} {
		_, err := e.FS.Stat(ctx, e.path(name), files.StatOptions{})
		wantCode(t, "stat of a name of 256 bytes", err, spec.CodeInvalidPath)
		wantCode(t, "write of a name of 256 bytes", e.writeString(ctx, e.path(name), "x", files.WriteOptions{}), spec.CodeInvalidPath)
		wantCode(t, "copy to a name of 256 bytes", e.copy(ctx, "f", name, files.CopyOptions{}), spec.CodeInvalidPath)
		e.finds(ctx, t, files.GlobOptions{Pattern: name})
		e.finds(ctx, t, files.GlobOptions{Pattern: name + "/*"})
	}
	longest := strings.Repeat("x", 255)
	e.write(ctx, t, e.path(longest), "x")
	e.finds(ctx, t, files.GlobOptions{Pattern: longest}, longest)
	e.contains(ctx, t, e.Dir, "f", longest)
}
