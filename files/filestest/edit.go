package filestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func editCases() []Case {
	return []Case{
		{Name: "Edit", Rule: "Edit reads a regular file, gives its bytes to change, and makes the file hold what that returns, atomically and with the mode that it has.", Run: editRules},
		{Name: "EditExpectedHash", Rule: "SHA256 is what the caller believes the file to hold; if it holds something else the edit is CodeExists.", Run: editExpected},
		{Name: "EditConflict", Rule: "A file that has changed since it was read is left alone: CodeExists.", Run: editConflict},
		{Name: "EditRace", Rule: "A file that has changed since it was read is left alone.", Run: editRace},
		{Name: "EditLink", Rule: "A symbolic link is CodeNotRegular: an edit of it would replace it.", need: needLinks, Run: editLink},
		{Name: "Replace", Rule: "Text that does not occur is CodeInvalid, and so is text that occurs more than once unless All is set: a Replace that returns no error has replaced something.", Run: replaceRules},
	}
}

func editRules(ctx context.Context, t T, e Env) {
	name := e.path("f")
	e.writeMode(ctx, t, name, "old", files.WriteOptions{Mode: 0o751})
	got, err := files.Edit(ctx, e.FS, name, files.EditOptions{}, func(data []byte) ([]byte, error) {
		if string(data) != "old" {
			t.Errorf("the file is given as %q", data)
		}
		return append(data, " and new"...), nil
	})
	if want := (files.Edited{Before: sum("old"), After: sum("old and new")}); err != nil || got != want {
		t.Errorf("edit: %+v, %v; want %+v", got, err, want)
	}
	e.holds(ctx, t, name, "old and new")
	if info := e.stat(ctx, t, name); info.Mode != 0o751 {
		t.Errorf("the file has mode %v, want 0751", info.Mode)
	}
	refused := errors.New("the editor refuses")
	_, err = files.Edit(ctx, e.FS, name, files.EditOptions{}, func([]byte) ([]byte, error) { return nil, refused })
	if !errors.Is(err, refused) {
		t.Errorf("an edit that is refused: %v", err)
	}
	same, err := files.Edit(ctx, e.FS, name, files.EditOptions{}, func(data []byte) ([]byte, error) { return data, nil })
	if err != nil || same.Before != same.After {
		t.Errorf("an edit that changes nothing: %+v, %v", same, err)
	}
	nothing := func([]byte) ([]byte, error) { return nil, nil }
	_, err = files.Edit(ctx, e.FS, e.path("missing"), files.EditOptions{}, nothing)
	wantCode(t, "an edit of what is missing", err, spec.CodeFileNotFound)
	_, err = files.Edit(ctx, e.FS, e.Dir, files.EditOptions{}, nothing)
	wantCode(t, "an edit of a directory", err, spec.CodeIsDirectory)
	_, err = files.Edit(ctx, e.FS, name, files.EditOptions{MaxBytes: 3}, nothing)
	wantCode(t, "an edit of a file that is too large", err, spec.CodeTooLarge)
	e.holds(ctx, t, name, "old and new")
	if _, err := files.Edit(ctx, e.FS, name, files.EditOptions{Sync: true}, nothing); err != nil {
		t.Errorf("an edit to nothing: %v", err)
	}
	e.holds(ctx, t, name, "")
	e.contains(ctx, t, e.Dir, "f")
}

func editExpected(ctx context.Context, t T, e Env) {
	name := e.path("f")
	e.write(ctx, t, name, "what it is")
	called := false
	edit := func(hash string) error {
		_, err := files.Edit(ctx, e.FS, name, files.EditOptions{SHA256: hash}, func([]byte) ([]byte, error) {
			called = true
			return []byte("new"), nil
		})
		return err
	}
	wantCode(t, "an edit of something else", edit(sum("what it was")), spec.CodeExists)
	if called {
		t.Errorf("the file was given to be changed")
	}
	_, err := files.Edit(ctx, e.FS, name, files.EditOptions{SHA256: strings.ToUpper(sum("what it is"))}, func(data []byte) ([]byte, error) { return data, nil })
	if err != nil {
		t.Errorf("an edit of what is expected, in capital digits: %v", err)
	}
	e.holds(ctx, t, name, "what it is")
	if err := edit(sum("what it is")); err != nil {
		t.Errorf("an edit of what is expected: %v", err)
	}
	e.holds(ctx, t, name, "new")
}

func editConflict(ctx context.Context, t T, e Env) {
	name := e.path("f")
	for _, other := range []string{"another", "12"} {
		e.write(ctx, t, name, "1")
		_, err := files.Edit(ctx, e.FS, name, files.EditOptions{}, func([]byte) ([]byte, error) {
			e.write(ctx, t, name, other)
			return []byte("mine"), nil
		})
		wantCode(t, "an edit of a file that changes", err, spec.CodeExists)
		e.holds(ctx, t, name, other)
	}
	_, err := files.Edit(ctx, e.FS, name, files.EditOptions{}, func([]byte) ([]byte, error) {
		return []byte("mine"), e.FS.Remove(ctx, name, files.RemoveOptions{})
	})
	wantCode(t, "an edit of a file that vanishes", err, spec.CodeFileNotFound)
	e.contains(ctx, t, e.Dir)
}

// editRace lets several editors, in turns, add a line each. The contract says that
// another writer can come between compare and rename, so they take a lock for the
// write; what is tried is that an edit of stale bytes never lands.
func editRace(ctx context.Context, t T, e Env) {
	const editors, edits = 4, 5
	name := e.path("f")
	e.write(ctx, t, name, "")
	var writing sync.Mutex
	var wg sync.WaitGroup
	for i := range editors {
		wg.Go(func() {
			for j := 0; j < edits; {
				held := false
				_, err := files.Edit(ctx, e.FS, name, files.EditOptions{}, func(data []byte) ([]byte, error) {
					writing.Lock()
					held = true
					return fmt.Appendf(data, "%d %d\n", i, j), nil
				})
				if held {
					writing.Unlock()
				}
				switch {
				case err == nil:
					j++
				case spec.CodeOf(err) != spec.CodeExists:
					t.Errorf("edit: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	data, err := files.ReadFile(ctx, e.FS, name, 0)
	if n := bytes.Count(data, []byte("\n")); err != nil || n != editors*edits {
		t.Errorf("%d lines have been added, want %d: %v", n, editors*edits, err)
	}
}

func editLink(ctx context.Context, t T, e Env) {
	e.write(ctx, t, e.path("f"), "kept")
	e.symlink(ctx, t, "f", e.path("link"))
	_, err := files.Edit(ctx, e.FS, e.path("link"), files.EditOptions{}, func([]byte) ([]byte, error) { return nil, nil })
	wantCode(t, "an edit of a link", err, spec.CodeNotRegular)
	e.holds(ctx, t, e.path("f"), "kept")
	if info := e.stat(ctx, t, e.path("link")); info.Mode.Type() != fs.ModeSymlink {
		t.Errorf("the link has become %v", info.Mode)
	}
}

func replaceRules(ctx context.Context, t T, e Env) {
	name := e.path("f")
	tests := []struct {
		content, old, new string
		all               bool
		want              string
		count             int
		code              spec.Code
	}{
		{content: "a b c", old: "b", new: "X", want: "a X c", count: 1},
		{content: "a b c", old: "b", new: "", want: "a  c", count: 1},
		{content: "\xff\x00\xfe", old: "\x00", new: "\n", want: "\xff\n\xfe", count: 1},
		{content: "a b b", old: "b", new: "X", all: true, want: "a X X", count: 2},
		{content: "aaaa", old: "aa", new: "b", all: true, want: "bb", count: 2},
		{content: "a b b", old: "b", new: "X", code: spec.CodeInvalid},
		{content: "aaa", old: "aa", new: "b", code: spec.CodeInvalid},
		{content: "a b", old: "c", new: "X", code: spec.CodeInvalid},
		{content: "a b", old: "c", new: "X", all: true, code: spec.CodeInvalid},
		{content: "a b", old: "", new: "X", code: spec.CodeInvalid},
		{content: "a b", old: "b", new: "b", code: spec.CodeInvalid},
	}
	for _, tt := range tests {
		e.write(ctx, t, name, tt.content)
		got, err := files.Replace(ctx, e.FS, name, []byte(tt.old), []byte(tt.new), files.ReplaceOptions{All: tt.all})
		what := fmt.Sprintf("replace %q by %q in %q", tt.old, tt.new, tt.content)
		if tt.code != "" {
			wantCode(t, what, err, tt.code)
			e.holds(ctx, t, name, tt.content)
			continue
		}
		if err != nil || got.Count != tt.count || got.Before != sum(tt.content) || got.After != sum(tt.want) {
			t.Errorf("%s: %+v, %v; want %d", what, got, err, tt.count)
		}
		e.holds(ctx, t, name, tt.want)
	}
	e.write(ctx, t, name, "a b")
	_, err := files.Replace(ctx, e.FS, name, []byte("a"), []byte("c"), files.ReplaceOptions{EditOptions: files.EditOptions{SHA256: sum("a")}})
	wantCode(t, "replace in what is not expected", err, spec.CodeExists)
	e.holds(ctx, t, name, "a b")
}
