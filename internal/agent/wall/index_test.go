//go:build linux

package wall

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/wire"
)

const oid = "1111111111111111111111111111111111111111"

// git runs git in a work tree, as on a machine where nobody has configured it.
func git(dir, stdin string, args ...string) error {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %q: %w\n%s", args, err, out)
	}
	return nil
}

// crafted is an index with these names, which git would not have made.
func crafted(names ...string) []byte {
	b := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x02"), uint32(len(names)))
	for _, name := range names {
		at := len(b)
		b = append(b, make([]byte, 26)...)
		b = append(append(b, 0x81, 0xa4), make([]byte, 32)...)
		b = append(b, 0, byte(len(name)))
		b = append(b, name...)
		b = append(b, make([]byte, 8-(len(b)-at)%8)...)
	}
	return append(b, make([]byte, 20)...)
}

// replace puts a file in the place of another one, as git does.
func replace(path string, text []byte) error {
	return errors.Join(os.WriteFile(path+".lock", text, 0o600), os.Rename(path+".lock", path))
}

// repository is a work tree with a file and a known submodule in its index, and the argument
// that has the index watched.
func repository(t *testing.T) (dir, index string, args []string) {
	t.Helper()
	dir = t.TempDir()
	index = filepath.Join(dir, ".git", "index")
	must(t, git(dir, "", "init", "-q"), touch(dir, "file"), git(dir, "", "add", "file"),
		os.MkdirAll(filepath.Join(dir, "known", ".git"), 0o700),
		git(dir, "", "update-index", "--add", "--cacheinfo", "160000,"+oid+",known"))
	return dir, index, []string{"--git-index", index + ":" + dir}
}

// TestIndex defends: an index that leads git outside astray, or that cannot be read whole, is
// told once for each time that it is made, and a submodule that a command has made of a
// directory is told once; what git does for a person is not, nor are the submodules that
// there were. Nothing waits for what is no file.
func TestIndex(t *testing.T) {
	dir, index, args := repository(t)
	w := parsed(t, args...)
	link := func(path string) error {
		return git(dir, "", "update-index", "--add", "--cacheinfo", "160000,"+oid+","+path)
	}
	const itself = ".git/index"
	for _, step := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"nothing", func() error { return nil }, nil},
		{"git add", func() error { return errors.Join(touch(dir, "new"), git(dir, "", "add", "new")) }, nil},
		{"another version", func() error { return git(dir, "", "update-index", "--index-version", "4") }, nil},
		{"a name in .git", func() error { return replace(index, crafted(".git/config")) }, []string{itself}},
		{"the same again", func() error { return replace(index, crafted(".git/config")) }, []string{itself}},
		{"written over", func() error { return os.WriteFile(index, crafted("../victim..."), 0o600) }, []string{itself}},
		{"removed", func() error { return os.Remove(index) }, nil},
		{"made again", func() error { return replace(index, crafted("../victim")) }, []string{itself}},
		{"mended", func() error { return errors.Join(os.Remove(index), git(dir, "", "add", "new")) }, nil},
		{"rubbish", func() error { return replace(index, []byte("DIRC")) }, []string{itself}},
		{"a pipe", func() error { return errors.Join(os.Remove(index), unix.Mkfifo(index, 0o600)) }, []string{itself}},
		{"a link", func() error { return errors.Join(os.Remove(index), os.Symlink("/etc/passwd", index)) }, []string{itself}},
		{"a directory", func() error { return errors.Join(os.Remove(index), os.Mkdir(index, 0o700)) }, []string{itself}},
		{"no way there", func() error {
			return errors.Join(os.Rename(dir+"/.git", dir+"/git"), os.Symlink(".git", dir+"/.git"))
		}, []string{itself}},
		{"the way again", func() error {
			return errors.Join(os.Remove(dir+"/.git"), os.Rename(dir+"/git", dir+"/.git"), os.Remove(index), git(dir, "", "add", "file"))
		}, nil},
		{"a shared one", func() error { return git(dir, "", "update-index", "--split-index") }, []string{itself}},
		{"no more", func() error { return git(dir, "", "update-index", "--no-split-index") }, nil},
		{"a submodule without a repository", func() error { return errors.Join(link("sub/a"), link("known")) }, nil},
		{"a repository", func() error { return os.MkdirAll(dir+"/sub/a/.git", 0o700) }, []string{"sub/a/.git"}},
		{"a repository without a submodule", func() error {
			return errors.Join(os.Mkdir(dir+"/b", 0o700), os.Symlink("nowhere", dir+"/b/.git"))
		}, nil},
		{"a submodule", func() error { return link("b") }, []string{"b/.git"}},
		{"made again, too", func() error {
			return errors.Join(git(dir, "", "rm", "-qf", "--cached", "b"), link("b"), touch(dir, "more"), git(dir, "", "add", "more"))
		}, nil},
	} {
		must(t, step.do())
		if diff := cmp.Diff(step.want, told(w, dir)); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
		if again := told(w, dir); again != nil {
			t.Errorf("%s: told again: %q", step.name, again)
		}
	}
}

// TestIndexAtStart defends: what a person has, such as a shared index, is not told of, also
// when it changes; an index that leads astray is, whoever has made it, and so is another
// reason for which one cannot be read.
func TestIndexAtStart(t *testing.T) {
	dir, index, args := repository(t)
	must(t, git(dir, "", "update-index", "--split-index"))
	w := parsed(t, args...)
	must(t, touch(dir, "a"), git(dir, "", "add", "a"))
	if got := told(w, dir); got != nil {
		t.Errorf("a shared index is told: %q", got)
	}
	must(t, replace(index, []byte("DIRC")))
	if got := told(w, dir); len(got) != 1 {
		t.Errorf("of rubbish in its place is told: %q", got)
	}
	must(t, replace(index, crafted(".git/config")))
	w = parsed(t, args...)
	for i, want := range [][]string{{".git/index"}, nil} {
		if diff := cmp.Diff(want, told(w, dir)); diff != "" {
			t.Errorf("%d: of one that was astray at the start: %s", i, diff)
		}
	}
}

// TestIndexSettled defends: an index that has not changed is not read again and again, and
// what then changes it is told, also a write that leaves no trace in its times, at the
// latest when the place ends.
func TestIndexSettled(t *testing.T) {
	dir, index, args := repository(t)
	good, bad := crafted("file/config"), crafted("file/../x.y")
	must(t, replace(index, good))
	w := parsed(t, args...)
	settle := func() time.Time {
		t.Helper()
		time.Sleep(settling + settling/10)
		if got := told(w, dir); got != nil {
			t.Fatalf("told: %q", got)
		}
		read := w.made.indexes[0].read
		if got := told(w, dir); got != nil || w.made.indexes[0].read != read {
			t.Fatalf("told: %q; it is read again", got)
		}
		return read
	}
	settle()
	must(t, os.WriteFile(index, bad, 0o600))
	if got := told(w, dir); len(got) != 1 {
		t.Errorf("told: %q", got)
	}
	must(t, replace(index, good))
	for _, look := range []func() []string{
		func() []string { // much later
			w.made.indexes[0].read = time.Now().Add(-unmapped)
			return told(w, dir)
		},
		func() []string {
			var out []string
			for _, path := range w.Unsaid() {
				out = append(out, strings.TrimPrefix(string(path), dir+"/"))
			}
			return out
		},
	} {
		f, err := os.OpenFile(index, os.O_RDWR, 0)
		must(t, err)
		mapped, err := unix.Mmap(int(f.Fd()), 0, len(good), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		must(t, err, f.Close())
		copy(mapped, good)
		settle()
		copy(mapped, bad)
		if diff := cmp.Diff([]string{".git/index"}, look()); diff != "" {
			t.Error(diff)
		}
		must(t, unix.Munmap(mapped), replace(index, good))
	}
}

// TestIndexBounds defends: however many submodules commands make, few are told at a time and
// none is lost; of more than can be kept in mind, the index is told.
func TestIndexBounds(t *testing.T) {
	dir, _, args := repository(t)
	w := parsed(t, args...)
	paths := map[string]bool{}
	made := 0
	for round := 0; made < maxLinks; round++ {
		var lines strings.Builder
		for i := range 1000 {
			name := fmt.Sprintf("r%d/s%d", round, i)
			must(t, os.MkdirAll(filepath.Join(dir, name, ".git"), 0o700))
			fmt.Fprintf(&lines, "160000 %s\t%s\n", oid, name)
			made++
		}
		must(t, git(dir, "", "read-tree", "--empty"), git(dir, lines.String(), "update-index", "--index-info"))
		for {
			some := told(w, dir)
			if len(some) > maxTold {
				t.Fatalf("%d at a time", len(some))
			}
			if len(some) == 0 {
				break
			}
			for _, path := range some {
				if paths[path] {
					t.Fatalf("%s is told again", path)
				}
				paths[path] = true
			}
		}
	}
	// One was known at the start.
	if len(paths) != maxLinks || !paths[".git/index"] {
		t.Errorf("of %d submodules %d paths are told; of the index: %t", made, len(paths), paths[".git/index"])
	}
}

// TestIndexFlag defends: where an index ends and its work tree begins may be open, and then
// no index is left out.
func TestIndexFlag(t *testing.T) {
	for text, want := range map[string][][2]string{
		"/w/.git/index:/w":         {{"/w/.git/index", "/w"}},
		"/w/.git/index:/":          {{"/w/.git/index", "/"}},
		"/a:/b/.git/index:/a:/b/c": {{"/a", "/b/.git/index:/a:/b/c"}, {"/a:/b/.git/index", "/a:/b/c"}, {"/a:/b/.git/index:/a", "/b/c"}},
		"/w/.git/index":            nil,
		"index:/w":                 nil,
		":/w":                      nil,
		"":                         nil,
	} {
		if diff := cmp.Diff(want, splitIndex(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	dir, _, _ := repository(t)
	odd := filepath.Join(dir, "odd:", "sub")
	must(t, os.MkdirAll(odd, 0o700), os.Rename(filepath.Join(dir, ".git"), filepath.Join(odd, ".git")))
	index := filepath.Join(odd, ".git", "index")
	w := parsed(t, "--git-index", index+":"+odd)
	must(t, replace(index, crafted("../x")))
	if got := told(w, odd); !slices.Equal(got, []string{".git/index"}) {
		t.Errorf("told: %q", got)
	}
}

// BenchmarkIndex is what every command pays for an index of 100,000 entries: if it has not
// changed, and if it has.
func BenchmarkIndex(b *testing.B) {
	dir := b.TempDir()
	var lines strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&lines, "100644 %s\tsome/dir%d/and/another/file%d.go\n", oid, i%100, i)
	}
	if err := errors.Join(git(dir, "", "init", "-q"), git(dir, lines.String(), "update-index", "--index-info")); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(dir, ".git", "index")
	for name, changes := range map[string]bool{"unchanged": false, "changed": true} {
		b.Run(name, func(b *testing.B) {
			w := &Wall{}
			w.made.addIndexes([][2]string{{path, dir}})
			time.Sleep(settling + settling/10)
			w.Tell(&wire.Exit{}, nil)
			for b.Loop() {
				if changes {
					_ = os.Chtimes(path, time.Now(), time.Now())
				}
				w.Tell(&wire.Exit{}, nil)
			}
		})
	}
}
