package berth_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
)

// first returns the first error of a sequence.
func first[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// Each method of Files says once what was being done, where and to what.
func TestFilesErrorsSayWhere(t *testing.T) {
	ctx := testContext(t)
	sb := berth.New(newFake(), berth.Spec{Key: "k"}, berth.ProvisionOptions{})
	f := sb.Files()
	change := func([]byte) ([]byte, error) { return nil, nil }
	one := func(yield func(files.BatchFile, error) bool) {
		yield(files.BatchFile{Name: "/", Src: strings.NewReader("")}, nil)
	}
	for want, err := range map[string]error{
		`chmod fake fk_1 "no": no such file`:   f.Chmod(ctx, "no", 0o600),
		`copy fake fk_1 "no": no such file`:    f.Copy(ctx, "no", "to", files.CopyOptions{}),
		`glob fake fk_1 "no": no such file`:    first(f.Glob(ctx, files.GlobOptions{Dir: "no"})),
		`grep fake fk_1 "no": no such file`:    first(f.Grep(ctx, files.GrepOptions{Files: files.GlobOptions{Dir: "no"}})),
		`list fake fk_1 "no": no such file`:    first(f.Names(ctx, "no", files.NamesOptions{})),
		`list fake fk_1 "other": no such file`: first(f.List(ctx, "other")),
		`resolve fake fk_1 "no": no such file`: second(f.Resolve(ctx, "no")),
		`read fake fk_1 "no": no such file`:    second(f.ReadLines(ctx, "no", files.LinesOptions{})),
		`read fake fk_1 "no1": no such file`:   second(f.ReadHead(ctx, "no1", 1)),
		`read fake fk_1 "no2": no such file`:   second(f.Hash(ctx, "no2")),
		`read fake fk_1 "no3": no such file`:   second(f.Edit(ctx, "no3", files.EditOptions{}, change)),
		`read fake fk_1 "no4": no such file`:   second(f.Replace(ctx, "no4", []byte("a"), nil, files.ReplaceOptions{})),
		`write fake fk_1 "/": is a directory`:  second(f.WriteBatch(ctx, one, files.BatchOptions{})),
	} {
		var e *berth.Error
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What the driver's files cannot do is refused, and what can be done over any files is
// done.
func TestFilesOverAPlainDriver(t *testing.T) {
	ctx := testContext(t)
	f := newFake()
	f.session = func(s *fakeSession) { s.fs = struct{ files.FS }{s.fs} }
	sb := berth.New(f, berth.Spec{Key: "k"}, berth.ProvisionOptions{})
	fsys := sb.Files()
	if err := fsys.WriteFile(ctx, "d/a", []byte("text\n"), files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Chmod(ctx, "d/a", 0o600); !errors.Is(err, berth.ErrUnsupported) {
		t.Errorf("chmod: %v", err)
	}
	if err := fsys.Copy(ctx, "d", "e", files.CopyOptions{Recursive: true}); err != nil {
		t.Errorf("copy: %v", err)
	}
	var found []string
	for m, err := range fsys.Glob(ctx, files.GlobOptions{Pattern: "*/a"}) {
		found = append(found, m.Path)
		if err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(found, []string{"d/a", "e/a"}) {
		t.Errorf("found %q", found)
	}
	if got, err := fs.ReadFile(sb.FS(ctx, "e"), "a"); err != nil || string(got) != "text\n" {
		t.Errorf("read as io/fs: %q, %v", got, err)
	}
}

// FS starts nothing by itself.
func TestFSIsLazy(t *testing.T) {
	f := newFake()
	sb := berth.New(f, berth.Spec{Key: "k"}, berth.ProvisionOptions{})
	fsys := sb.FS(context.Background(), "/")
	if f.log() != "" {
		t.Errorf("calls %q", f.log())
	}
	if _, err := fs.Stat(fsys, "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat: %v", err)
	}
}
