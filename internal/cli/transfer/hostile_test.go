//go:build unix

package transfer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// liar is a place that says what it likes.
type liar struct {
	files.FS
	list map[string][]files.Info
}

func (l *liar) Stat(_ context.Context, name string, _ files.StatOptions) (files.Info, error) {
	return files.Info{Name: "d", Mode: fs.ModeDir | 0o755}, nil
}

func (l *liar) List(_ context.Context, dir string) iter.Seq2[files.Info, error] {
	return func(yield func(files.Info, error) bool) {
		for _, info := range l.list[dir] {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (l *liar) Open(_ context.Context, name string, _ files.OpenOptions) (files.File, error) {
	return &memory{Reader: bytes.NewReader([]byte("evil")), info: files.Info{Size: 4, Mode: 0o644}}, nil
}

// memory is a file with a content of its own.
type memory struct {
	io.Reader
	info files.Info
}

func (m *memory) Info() files.Info { return m.info }
func (m *memory) Close() error     { return nil }

// Nothing that a place says leads out of what the caller named, and what is no name or
// no harmless link is refused before anything is written.
func TestHostilePlace(t *testing.T) {
	file := func(name string) files.Info { return files.Info{Name: name, Mode: 0o644, Size: 4} }
	link := func(name, to string) files.Info {
		return files.Info{Name: name, Mode: fs.ModeSymlink | 0o777, Target: to}
	}
	sub := files.Info{Name: "sub", Mode: fs.ModeDir | 0o755}
	for _, test := range []struct {
		name string
		list map[string][]files.Info
	}{
		{"parent", map[string][]files.Info{"d": {file("..")}}},
		{"a path", map[string][]files.Info{"d": {file("../evil")}}},
		{"a path down", map[string][]files.Info{"d": {file("sub/evil")}}},
		{"absolute", map[string][]files.Info{"d": {file("/tmp/evil")}}},
		{"empty", map[string][]files.Info{"d": {file("")}}},
		{"dot", map[string][]files.Info{"d": {file(".")}}},
		{"NUL", map[string][]files.Info{"d": {file("a\x00b")}}},
		{"twice", map[string][]files.Info{"d": {link("x", "sub"), file("x")}}},
		{"a link and a directory of one name", map[string][]files.Info{"d": {sub, link("sub", "..")}}},
		{"absolute link", map[string][]files.Info{"d": {link("x", "/etc")}}},
		{"link up", map[string][]files.Info{"d": {link("x", "..")}}},
		{"link up and down", map[string][]files.Info{"d": {link("x", "sub/../../evil")}}},
		{"link that could pass another", map[string][]files.Info{"d": {link("x", "sub/..")}}},
		{"link from deep", map[string][]files.Info{"d": {sub}, "d/sub": {link("x", "../../evil")}}},
		{"empty link", map[string][]files.Info{"d": {link("x", "")}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := out(t, &Place{FS: &liar{list: test.list}}, "d", filepath.Join(dir, "d"), Options{})
			if err == nil {
				t.Error("it was believed")
			}
			if found := tree(t, dir); len(found) > 0 {
				t.Errorf("written: %v", found)
			}
		})
	}
	// Without end in depth and in length.
	loop := map[string][]files.Info{}
	for dir := "d"; strings.Count(dir, "/") < maxDepth+2; dir += "/sub" {
		loop[dir] = []files.Info{sub}
	}
	_, err := out(t, &Place{FS: &liar{list: loop}}, "d", t.TempDir(), Options{})
	wantCode(t, err, spec.CodeTooLarge)
}

// A directory of the target is never reached through a link, whether it leads out or not.
func TestLinkedTarget(t *testing.T) {
	p, m := newPlace(t)
	put(t, m, "d/sub/a=new")
	for _, to := range []string{"../outside", "inside"} {
		dir := t.TempDir()
		putHost(t, dir, "outside/", "d/inside/")
		if err := os.Symlink(to, filepath.Join(dir, "d", "sub")); err != nil {
			t.Fatal(err)
		}
		_, err := out(t, p, "d", dir, Options{Force: true})
		wantCode(t, err, spec.CodeNotDirectory)
	}
	// A link where a file is to go is replaced, not followed.
	dir := t.TempDir()
	putHost(t, dir, "victim=old", "d/sub/")
	if err := os.Symlink("../../victim", filepath.Join(dir, "d", "sub", "a")); err != nil {
		t.Fatal(err)
	}
	_, err := out(t, p, "d", dir, Options{})
	wantCode(t, err, spec.CodeExists)
	if _, err := out(t, p, "d", dir, Options{Force: true}); err != nil {
		t.Fatal(err)
	}
	if found := tree(t, dir); found["victim"] != "-rw-r--r-- old" || found["d/sub/a"] != "-rw-r--r-- new" {
		t.Errorf("found %v", found)
	}
}

// Whatever links stay, none of them leads out, also through one another: proven by the
// file system.
func TestStays(t *testing.T) {
	for to, want := range map[string]bool{
		"a": true, "./a": true, "..": true, "../b": true, "../../c": false, "a/..": false, "../a/../b": false, "/a": false, "": false,
		"a//b/": true, "../": true, `a\b`: false, "a\x00": false,
	} {
		if got := stays("d/l", to); got != want {
			t.Errorf("stays(d/l, %q) = %v", to, got)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	elements := []string{"..", ".", "a", "b", "l0", "l1", "l2", "l3", "l4"}
	for range 100 {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		dirs := []string{"", "a/", "a/b/", "a/b/a/", "b/"}
		for _, d := range dirs {
			if err := os.MkdirAll(filepath.Join(dir, "top", d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for range 12 {
			rel := dirs[rng.IntN(len(dirs))] + fmt.Sprint("l", rng.IntN(5))
			var parts []string
			for range 1 + rng.IntN(5) {
				parts = append(parts, elements[rng.IntN(len(elements))])
			}
			if to := strings.Join(parts, "/"); stays(rel, to) {
				_ = os.Symlink(to, filepath.Join(dir, "top", rel)) // the name may be taken
			}
		}
		err = filepath.WalkDir(filepath.Join(dir, "top"), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.Type() != fs.ModeSymlink {
				return err
			}
			if real, err := filepath.EvalSymlinks(p); err == nil && real != filepath.Join(dir, "top") && !strings.HasPrefix(real, filepath.Join(dir, "top")+"/") {
				t.Errorf("%s leads to %s", p, real)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
