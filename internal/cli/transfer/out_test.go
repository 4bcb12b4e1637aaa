//go:build unix

package transfer

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/spec"
)

func symlinks(t *testing.T, m *memfs.FS, links map[string]string) {
	t.Helper()
	for name, to := range links {
		if err := m.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
}

// A link that leads nowhere, whatever the reason, leads not out either.
func TestHarmlessLinks(t *testing.T) {
	links := map[string]string{
		"itself": "itself", "below-a-file": "f/zzz", "nowhere": "nothing", "a-long-name": strings.Repeat("x", 300),
		"sub/up": "../f", "sub/around": "../sub/around",
	}
	merged := map[string]string{}
	for name, to := range links {
		merged[name] = to
	}
	links["ring"], links["gnir"] = "gnir", "ring"
	for i := range 20 {
		links[fmt.Sprint("chain", i)] = fmt.Sprint("chain", i+1)
	}
	for name, links := range map[string]map[string]string{"new": links, "merged": merged} {
		t.Run(name, func(t *testing.T) {
			p, m := newPlace(t)
			put(t, m, "d/f=1", "d/sub/g=2")
			below := map[string]string{}
			for name, to := range links {
				below["d/"+name] = to
			}
			symlinks(t, m, below)
			dir := t.TempDir()
			if name == "merged" {
				putHost(t, dir, "d/sub/")
			}
			if _, err := out(t, p, "d", dir, Options{}); err != nil {
				t.Fatal(err)
			}
			found := tree(t, dir)
			for name, to := range links {
				if got := found["d/"+name]; got != "-> "+to {
					t.Errorf("%s is %.80q, want a link to %.80q", name, got, to)
				}
			}
		})
	}
}

// A link that would lead out by one of this machine is found before anything is
// written, and left out if asked.
func TestLinkOverLink(t *testing.T) {
	p, m := newPlace(t)
	put(t, m, "d/f=1", "d/new/g=2")
	symlinks(t, m, map[string]string{"d/a": "out/secret", "d/new/b": "../out/secret", "d/c": "f"})
	dir := t.TempDir()
	putHost(t, dir, "outside/secret=s", "top/d/")
	if err := os.Symlink("../../outside", filepath.Join(dir, "top/d/out")); err != nil {
		t.Fatal(err)
	}
	_, err := out(t, p, "d", filepath.Join(dir, "top"), Options{})
	wantCode(t, err, spec.CodeUnsupported)
	if found := tree(t, filepath.Join(dir, "top")); len(found) != 2 {
		t.Errorf("written: %v", found)
	}
	skipped := 0
	sum, err := out(t, p, "d", filepath.Join(dir, "top"), Options{Skip: func(string, string) { skipped++ }})
	if err != nil || skipped != 2 || sum.Skipped != 2 || sum.Links != 1 {
		t.Errorf("%+v, %d skipped, %v", sum, skipped, err)
	}
	if found := tree(t, dir); found["top/d/c"] != "-> f" || found["top/d/a"] != "" || found["top/d/new/b"] != "" {
		t.Errorf("found %v", found)
	}
}

// A copy that fails leaves its directories with their own modes.
func TestModesOfWhatFailed(t *testing.T) {
	_, m := newPlace(t)
	put(t, m, "d/sub/f=1234")
	p := &Place{FS: &broken{FS: m, name: "d/sub/f"}}
	dir := t.TempDir()
	if _, err := out(t, p, "d", dir, Options{}); err == nil {
		t.Fatal("it came to an end")
	}
	for name, text := range tree(t, dir) {
		if text != "drwxr-xr-x" {
			t.Errorf("%s is %s, want drwxr-xr-x", name, text)
		}
	}
}

// What a place says of modes goes no further than this machine's mask.
func TestUmask(t *testing.T) {
	p, m := newPlace(t)
	put(t, m, "d/f=1", "d/sub/g=2", "single=3", "d/secret=4")
	for name, mode := range map[string]fs.FileMode{"d": 0o777, "d/sub": 0o775, "d/f": 0o777, "d/sub/g": 0o666, "single": 0o666, "d/secret": 0o400} {
		if err := files.Chmod(t.Context(), m, name, mode); err != nil {
			t.Fatal(err)
		}
	}
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	dir := t.TempDir()
	for _, name := range []string{"d", "single"} {
		if _, err := out(t, p, name, dir, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	found := tree(t, dir)
	for name, want := range map[string]string{"d": "drwxr-x---", "d/sub": "drwxr-x---", "d/f": "-rwxr-x--- 1", "d/sub/g": "-rw-r----- 2", "single": "-rw-r----- 3", "d/secret": "-r-------- 4"} {
		if found[name] != want {
			t.Errorf("%s is %s, want %s", name, found[name], want)
		}
	}
	if len(found) != 6 {
		t.Errorf("found %v", found)
	}
}

// All that a place has us remember counts, where links lead to and every directory that
// is listed at once.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("sorting so many names takes seconds")
	}
	to := strings.Repeat("x/", 2000) // one string: the test has not the memory that it is about
	links := make([]files.Info, maxNameBytes/len(to)+2)
	for i := range links {
		links[i] = files.Info{Name: fmt.Sprint(i), Mode: fs.ModeSymlink | 0o777, Target: to}
	}
	_, err := out(t, &Place{FS: &liar{list: map[string][]files.Info{"d": links}}}, "d", t.TempDir(), Options{})
	wantCode(t, err, spec.CodeTooLarge)

	many := make([]files.Info, MaxEntries*2/3)
	for i := range many {
		many[i] = files.Info{Name: "z", Mode: 0o644}
	}
	many[0] = files.Info{Name: "a", Mode: fs.ModeDir | 0o755}
	_, err = out(t, &Place{FS: &liar{list: map[string][]files.Info{"d": many, "d/a": many}}}, "d", t.TempDir(), Options{})
	wantCode(t, err, spec.CodeTooLarge)
}
