package files

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"testing"

	"github.com/berth-dev/berth/spec"
)

// endless is an FS of directories that never end, each full of directories.
type endless struct{ FS }

func (endless) Names(context.Context, string, NamesOptions) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for i := 0; yield(Info{Name: fmt.Sprint(i), Mode: fs.ModeDir}, nil); i++ {
		}
	}
}

// A walk has a bounded number of names in memory, whatever it walks through.
func TestWalkIsBounded(t *testing.T) {
	w := walker{ctx: t.Context(), fsys: endless{}, held: maxHeld - 1000}
	if _, err := w.names("d", NamesOptions{}); spec.CodeOf(err) != spec.CodeTooLarge {
		t.Errorf("a directory without an end: %v, want %s", err, spec.CodeTooLarge)
	}
}

// flaky is an FS whose directories cannot be read but for the first.
type flaky struct {
	FS
	err error
}

func (f flaky) Names(_ context.Context, dir string, _ NamesOptions) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if dir != "." {
			yield(Info{}, f.err)
			return
		}
		_ = yield(Info{Name: "a", Mode: fs.ModeDir}, nil) && yield(Info{Name: "b"}, nil)
	}
}

// What is about one directory is passed over; a place that is gone is not.
func TestWalkPassesOver(t *testing.T) {
	for code, passes := range map[spec.Code]bool{
		spec.CodeFileNotFound: true, spec.CodePermission: true, spec.CodeNotDirectory: true, spec.CodeInvalidPath: true,
		spec.CodeUnavailable: false, spec.CodeUnknownOutcome: false, spec.CodeInternal: false, spec.CodeStaleOwner: false,
	} {
		var paths []string
		var failed error
		for m, err := range Glob(t.Context(), flaky{err: &spec.Error{Code: code}}, GlobOptions{}) {
			if err != nil {
				failed = err
				break
			}
			paths = append(paths, m.Path)
		}
		if want := map[bool]int{true: 2, false: 1}[passes]; len(paths) != want || (failed == nil) != passes {
			t.Errorf("%s: found %q, error %v", code, paths, failed)
		}
	}
}
