//go:build unix

package gitindex_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/gitindex"
)

const oid1, oid2 = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"

// git runs git in dir, as on a machine where nobody has configured it.
func git(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		cmd.Env = append(cmd.Env, "GIT_"+who+"_NAME=a", "GIT_"+who+"_EMAIL=a@localhost")
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) gitindex.Index {
	t.Helper()
	got, err := gitindex.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// links are lines for update-index of gitlinks with many kinds of names, in no order.
func links(oid string) string {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "160000 %s\t%s\n", oid, strings.Repeat(fmt.Sprintf("%d/sub ä%d/", i*7919%200, i), i%5+1)+"x")
	}
	for _, length := range []int{1, 2, 3, 4, 5, 6, 7, 8, 255, 4094, 4095, 4096} {
		fmt.Fprintf(&b, "160000 %s\t%s\n", oid, "z"+strings.Repeat("y", length-1))
	}
	for _, name := range []string{"...", ".gitx", "a/..b", "b../c", ".gi", "x.git", "git", "c/.github/d", "c/. "} {
		fmt.Fprintf(&b, "160000 %s\t%s\n", oid, name)
	}
	return b.String()
}

// TestReadGit defends: the index that git itself makes is read whole, in every version and
// with every extension, whatever hashes it has: all its names are known, none is found
// astray, and the gitlinks are those that git lists.
func TestReadGit(t *testing.T) {
	files := func(t *testing.T, dir string) {
		for i := range 300 {
			write(t, filepath.Join(dir, fmt.Sprintf("d%d/e%d/f%d", i%3, i%7, i)), []byte("x"))
		}
		git(t, dir, "", "add", "-A")
	}
	many := func(t *testing.T, dir string) {
		blob := strings.TrimSpace(git(t, dir, "x", "hash-object", "-w", "--stdin"))
		link := pad(t, dir, oid1)
		var b strings.Builder
		for i := range 30_000 {
			mode, oid := "100644", blob
			if i%300 == 0 {
				mode, oid = "160000", link
			}
			fmt.Fprintf(&b, "%s %s\tdir%d/and/another/file%d\n", mode, oid, i%100, i)
		}
		git(t, dir, b.String(), "update-index", "--index-info")
	}
	for name, do := range map[string]func(t *testing.T, dir string){
		"files":         files,
		"nothing":       func(t *testing.T, dir string) { git(t, dir, "", "read-tree", "--empty") },
		"committed":     func(t *testing.T, dir string) { files(t, dir); git(t, dir, "", "commit", "-qm", "x") },
		"intent to add": func(t *testing.T, dir string) { write(t, dir+"/n", nil); git(t, dir, "", "add", "-N", "n") },
		"skip worktree": func(t *testing.T, dir string) {
			files(t, dir)
			git(t, dir, "", "update-index", "--skip-worktree", "d0/e0/f0")
		},
		"a gitlink": func(t *testing.T, dir string) { files(t, dir) },
		"version 4": func(t *testing.T, dir string) { files(t, dir); git(t, dir, "", "update-index", "--index-version", "4") },
		"untracked": func(t *testing.T, dir string) {
			files(t, dir)
			git(t, dir, "", "update-index", "--untracked-cache")
			write(t, dir+"/new/x", nil)
			git(t, dir, "", "status")
		},
		"fsmonitor": func(t *testing.T, dir string) {
			files(t, dir)
			git(t, dir, "", "-c", "core.fsmonitor=/bin/true", "update-index", "--fsmonitor")
		},
		"many":      many,
		"many, v4":  func(t *testing.T, dir string) { git(t, dir, "", "config", "index.version", "4"); many(t, dir) },
		"in blocks": func(t *testing.T, dir string) { git(t, dir, "", "config", "index.threads", "4"); many(t, dir) },
		"in blocks, v4": func(t *testing.T, dir string) {
			git(t, dir, "", "config", "index.threads", "4")
			git(t, dir, "", "config", "index.version", "4")
			many(t, dir)
		},
		"a conflict": func(t *testing.T, dir string) {
			git(t, dir, "100644 "+conflict(t, dir)+" 1\tf\n100644 "+conflict(t, dir)+" 2\tf\n", "update-index", "--index-info")
		},
		"names": func(t *testing.T, dir string) { git(t, dir, links(pad(t, dir, oid1)), "update-index", "--index-info") },
		"names, v4": func(t *testing.T, dir string) {
			git(t, dir, links(pad(t, dir, oid1)), "update-index", "--index-version", "4", "--index-info")
		},
		"sparse": func(t *testing.T, dir string) {
			files(t, dir)
			git(t, dir, "", "commit", "-qm", "x")
			git(t, dir, "", "sparse-checkout", "set", "--cone", "--sparse-index", "d1")
		},
		"sparse, v4": func(t *testing.T, dir string) {
			files(t, dir)
			git(t, dir, "", "commit", "-qm", "x")
			git(t, dir, "", "sparse-checkout", "set", "--cone", "--sparse-index", "d1")
			git(t, dir, "", "update-index", "--index-version", "4")
		},
		"not split more": func(t *testing.T, dir string) {
			files(t, dir)
			git(t, dir, "", "update-index", "--split-index")
			git(t, dir, "", "update-index", "--no-split-index")
		},
	} {
		for _, format := range []string{"sha1", "sha256"} {
			if format == "sha256" && strings.Contains(name, "many") {
				continue // its size is what matters
			}
			t.Run(name+", "+format, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				git(t, dir, "", "init", "-q", "--object-format="+format)
				do(t, dir)
				if name != "nothing" && !strings.HasPrefix(name, "sparse") {
					git(t, dir, "", "update-index", "--add", "--cacheinfo", "160000,"+pad(t, dir, oid2)+",sub/module")
				}
				var want gitindex.Index
				for line := range strings.SplitSeq(git(t, dir, "", "ls-files", "-s", "-z"), "\x00") {
					if about, name, _ := strings.Cut(line, "\t"); strings.HasPrefix(about, "160000") {
						want.Links = append(want.Links, name)
					}
				}
				if diff := cmp.Diff(want, read(t, dir+"/.git/index")); diff != "" {
					t.Error(diff)
				}
				// Where no configuration says which hashes it has.
				data, err := os.ReadFile(dir + "/.git/index")
				if err != nil {
					t.Fatal(err)
				}
				alone := filepath.Join(t.TempDir(), "index")
				write(t, alone, data)
				if diff := cmp.Diff(want, read(t, alone)); diff != "" {
					t.Errorf("alone: %s", diff)
				}
			})
		}
	}
}

// pad is an object's name in the format of the repository at dir.
func pad(t *testing.T, dir, oid string) string {
	if strings.TrimSpace(git(t, dir, "", "rev-parse", "--show-object-format")) == "sha256" {
		oid += oid[:24]
	}
	return oid
}

func conflict(t *testing.T, dir string) string {
	return strings.TrimSpace(git(t, dir, "x", "hash-object", "-w", "--stdin"))
}

// TestReadSplit defends: an index whose names are in another file is never taken for read.
func TestReadSplit(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "", "init", "-q")
	for _, name := range []string{"a", "b", "c"} {
		write(t, filepath.Join(dir, name), nil)
	}
	git(t, dir, "", "add", "-A")
	git(t, dir, "", "update-index", "--split-index")
	write(t, dir+"/b", []byte("changed"))
	git(t, dir, "", "add", "b")
	if diff := cmp.Diff(gitindex.Index{Unread: "refers to a shared index"}, read(t, dir+"/.git/index")); diff != "" {
		t.Error(diff)
	}
}

// TestReadWorktree defends: the index of a linked worktree reads with the hashes that its
// repository has, whatever a configuration beside it says, which git does not read.
func TestReadWorktree(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "", "init", "-q", "--object-format=sha256", "main")
	main := dir + "/main"
	git(t, main, "", "commit", "-q", "--allow-empty", "-m", "x")
	git(t, main, "", "worktree", "add", "-q", "../other")
	write(t, dir+"/other/f", nil)
	git(t, dir+"/other", "", "add", "f")
	write(t, main+"/.git/worktrees/other/config", []byte("[core]\n"))
	if diff := cmp.Diff(gitindex.Index{}, read(t, main+"/.git/worktrees/other/index")); diff != "" {
		t.Error(diff)
	}
}

// TestReadNoFile defends: what is no regular file, or none at all, is an error, which comes
// at once.
func TestReadNoFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", make([]byte, 100))
	if err := errors.Join(os.Symlink("file", dir+"/link"), os.Mkdir(dir+"/dir", 0o700), syscall.Mkfifo(dir+"/pipe", 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "dir", "pipe", "none"} {
		if got, err := gitindex.Read(filepath.Join(dir, name)); err == nil || errors.Is(err, fs.ErrNotExist) != (name == "none") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	big, err := os.Create(dir + "/big")
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	for size, want := range map[int64]string{64 << 20: "malformed", 64<<20 + 1: "too large"} {
		if err := big.Truncate(size); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(gitindex.Index{Unread: want}, read(t, big.Name())); diff != "" {
			t.Error(diff)
		}
	}
}

// BenchmarkRead reads 100,000 entries.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	git(b, dir, "", "init", "-q")
	var lines strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&lines, "100644 %s\tsome/dir%d/and/another/file%d.go\n", oid1, i%100, i)
	}
	git(b, dir, lines.String(), "update-index", "--index-info")
	for b.Loop() {
		if got := read(b, dir+"/.git/index"); got.Unread != "" {
			b.Fatal(got)
		}
	}
}
