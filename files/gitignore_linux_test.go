package files_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs"
)

// git runs git in dir, without anything of the user's.
func git(t testing.TB, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "core.quotepath=false", "-c", "core.excludesFile="}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, stderr.Bytes())
	}
	return out
}

// untracked is what git lists in dir, relative to it.
func untracked(t testing.TB, dir string) []string {
	t.Helper()
	out := strings.TrimSuffix(string(git(t, dir, "ls-files", "-o", "--exclude-standard", "-z")), "\x00")
	if out == "" {
		return nil
	}
	list := strings.Split(out, "\x00")
	slices.Sort(list)
	return list
}

// globbed is what Glob finds in dir with Gitignore.
func globbed(t testing.TB, fsys files.FS, dir string) []string {
	t.Helper()
	var list []string
	for m, err := range files.Glob(t.Context(), fsys, files.GlobOptions{Dir: dir, Gitignore: true, Types: files.GlobFiles | files.GlobLinks}) {
		if err != nil {
			t.Fatalf("glob %q: %v", dir, err)
		}
		list = append(list, m.Path)
	}
	slices.Sort(list)
	return list
}

func write(t testing.TB, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func repository(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("there is no git to compare with: ./test installs it")
	}
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	return dir
}

// Gitignore leaves out what git would ignore, by its own rules: git is asked, in the
// top and in every directory.
func TestGitignoreRules(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string // .gitignore files and others
	}{
		{"anchored and not", map[string]string{".gitignore": "/a\nb\nc/d\n", "a": "", "x/a": "", "b": "", "x/b": "", "c/d": "", "x/c/d": ""}},
		{"directories only", map[string]string{".gitignore": "a/\n", "a/f": "", "x/a": "", "x/y/a/f": ""}},
		{"negation", map[string]string{".gitignore": "*.log\n!keep.log\n", "a.log": "", "keep.log": "", "x/keep.log": ""}},
		{"nothing comes back below an ignored directory", map[string]string{".gitignore": "a/\n!a/f\n", "a/f": "", "a/.gitignore": "!*\n"}},
		{"contents ignored, one back", map[string]string{".gitignore": "a/*\n!a/f\n", "a/f": "", "a/g": ""}},
		{"nested, the deepest decides", map[string]string{".gitignore": "*.o\n", "x/.gitignore": "!a.o\n", "x/y/.gitignore": "a.o\n", "a.o": "", "x/a.o": "", "x/b.o": "", "x/y/a.o": ""}},
		{"nested, anchored where it stands", map[string]string{"x/.gitignore": "/a\nb/c\n", "a": "", "x/a": "", "x/y/a": "", "x/b/c": "", "b/c": ""}},
		{"double stars", map[string]string{".gitignore": "**/a\nb/**\nc/**/d\n!b/x\n", "a": "", "x/y/a": "", "b/x": "", "b/y/z": "", "c/d": "", "c/x/d": "", "c/x/y/d": "", "cd": ""}},
		{"stars behind other bytes", map[string]string{".gitignore": "foo**/bar\n/x**y\n", "foo/bar": "", "foo/x/bar": "", "fooz/bar": "", "fooz/x/bar": "", "xay": "", "x/a/y": ""}},
		{"spaces at the end", map[string]string{".gitignore": "a  \nb\\ \nc\\  \nd \\ \n", "a": "", "a  ": "", "b ": "", "b": "", "c ": "", "c": "", "d ": "", "d  ": ""}},
		{"escapes", map[string]string{".gitignore": "\\#a\n\\!b\n\\*\nc\\\nd\\e\n", "#a": "", "!b": "", "*": "", "x": "", "c": "", "c\\": "", "de": "", "d\\e": ""}},
		{"comments and blank lines", map[string]string{".gitignore": "# a\n\n   \na\n #b\n", "a": "", "# a": "", " #b": "", "b": ""}},
		{"carriage returns", map[string]string{".gitignore": "a\r\nb/\r\n!c\r\n\r\nd", "a": "", "a\r": "", "b/f": "", "d": "", "\r": ""}},
		{"the last line has no end", map[string]string{".gitignore": "a\r", "a": "", "a\r": ""}},
		{"a byte order mark", map[string]string{".gitignore": "\xef\xbb\xbfa\n", "a": ""}},
		{"case", map[string]string{".gitignore": "A\n*.TXT\n", "a": "", "A": "", "x.txt": "", "x.TXT": ""}},
		{"bytes that are not UTF-8", map[string]string{".gitignore": "\xff\n?\n[\xfe]x\n", "\xff": "", "\xfe": "", "é": "", "\xfex": ""}},
		{"classes", map[string]string{".gitignore": "[ab]1\n[!ab]2\n[^ab]3\n[a-c]4\n[]x]5\n[[:digit:]]6\n[[:no:]]7\n[a\nx[/]y\n", "a1": "", "c1": "", "a2": "", "c2": "", "c3": "", "b4": "", "]5": "", "x5": "", "16": "", "a6": "", "n7": "", "[a": "", "a": "", "x/y": ""}},
		{"a link is no directory", map[string]string{".gitignore": "l/\nm\n", "l": "->d", "m": "->d", "d/f": ""}},
		{"a link to patterns is not read", map[string]string{"pat": "a\n", "x/.gitignore": "->../pat", "x/a": ""}},
		{"a directory of patterns is not read", map[string]string{".gitignore/a": "", "b": ""}},
		{"info/exclude comes last", map[string]string{".git/info/exclude": "*.x\n/top\n", ".gitignore": "!b.x\n", "a.x": "", "b.x": "", "s/a.x": "", "top": "", "s/top": ""}},
		{"slashes only", map[string]string{".gitignore": "/\n//\n///a\n", "a": "", "b/a": ""}},
		{"a NUL", map[string]string{".gitignore": "a\x00b\nc\n", "a": "", "b": "", "c": ""}},
		{"negated directory", map[string]string{".gitignore": "*\n!*/\n!*.go\n", "a.go": "", "b": "", "x/a.go": "", "x/y/b": "", "x/y/c.go": ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := repository(t)
			for name, content := range tt.files {
				if target, ok := strings.CutPrefix(content, "->"); ok {
					if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
					continue
				}
				write(t, dir+"/"+name, content)
			}
			compareWithGit(t, dir)
		})
	}
}

// compareWithGit asks git and Glob about dir and each directory in it.
func compareWithGit(t *testing.T, dir string) (same bool) {
	t.Helper()
	same = true
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == ".git" {
			return filepath.SkipDir
		}
		rel, _ := filepath.Rel(dir, p)
		// Relative to a workdir as well as absolute.
		for _, got := range [][]string{globbed(t, localfs.New(dir), rel), globbed(t, localfs.New("/"), p)} {
			if diff := cmp.Diff(untracked(t, p), got); diff != "" {
				same = false
				t.Errorf("in %q git (-) and Glob (+) differ:\n%s", rel, diff)
				return nil
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return same
}

// The same on random trees with random patterns.
func TestGitignoreRandom(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	dir := repository(t)
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 3))
		names := []string{"a", "b", "ab", "a.b", ".a", "\xff", "a b", "é", "[a]", "a*", "#a", "!b", "a ", "\n"}
		pieces := []string{"a", "b", ".", "*", "**", "/", "/", "?", "[ab]", "[^a]", "[!b]", "\\", " ", "é", "\xff", "!", "#", "[[:alpha:]]", "[a-", "]", "**/", "/**", "a*", "\r", "/*/"}
		pick := func(from []string, n int) string {
			var b strings.Builder
			for range 1 + rng.IntN(n) {
				b.WriteString(from[rng.IntN(len(from))])
			}
			return b.String()
		}
		root := fmt.Sprintf("%s/%d", dir, seed)
		var dirs []string
		for range 12 {
			d := root
			for range rng.IntN(4) {
				d += "/" + names[rng.IntN(len(names))] + "d"
			}
			dirs = append(dirs, d)
			write(t, d+"/"+names[rng.IntN(len(names))], "")
			write(t, d+"/"+names[rng.IntN(len(names))], "")
		}
		for _, d := range dirs[:4] {
			var lines strings.Builder
			for range 1 + rng.IntN(6) {
				if rng.IntN(4) == 0 {
					lines.WriteByte('!')
				}
				lines.WriteString(pick(pieces, 5))
				lines.WriteByte('\n')
			}
			write(t, d+"/.gitignore", lines.String())
		}
		if !compareOnce(t, root) {
			for _, d := range dirs[:4] {
				data, _ := os.ReadFile(d + "/.gitignore")
				t.Logf("seed %d: %q: %q", seed, strings.TrimPrefix(d, root), data)
			}
			return
		}
	}
}

func compareOnce(t *testing.T, dir string) bool {
	t.Helper()
	diff := cmp.Diff(untracked(t, dir), globbed(t, localfs.New(dir), ""))
	if diff != "" {
		t.Errorf("git (-) and Glob (+) differ:\n%s", diff)
	}
	return diff == ""
}

// The exclude file of a linked work tree is that of the repository.
func TestGitignoreLinkedWorkTree(t *testing.T) {
	dir := repository(t)
	write(t, dir+"/f", "")
	git(t, dir, "add", "f")
	git(t, dir, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m")
	git(t, dir, "worktree", "add", "-q", "linked")
	write(t, dir+"/.git/info/exclude", "*.x\n")
	write(t, dir+"/.gitignore", "*.y\n") // which is not the linked tree's
	write(t, dir+"/linked/sub/a.x", "")
	write(t, dir+"/linked/sub/a.y", "")
	got := globbed(t, localfs.New(dir), "linked")
	if want := []string{"f", "sub/a.y"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if want := untracked(t, dir+"/linked"); !slices.Equal(want, []string{"sub/a.y"}) {
		t.Errorf("git itself lists %q", want)
	}
}
