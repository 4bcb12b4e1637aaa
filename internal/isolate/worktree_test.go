package isolate_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/isolate"
)

// worktree makes a repository at repo/.git with a linked worktree at work, after which
// edit may spoil them.
func worktree(t *testing.T, edit func(root string)) string {
	t.Helper()
	root := tree(t, "repo/.git/worktrees/w/", "repo/.git/HEAD", "repo/.git/config", "repo/.git/objects/", "repo/.git/refs/", "repo/.git/hooks/", "work/", "home/", "tmp/")
	put(t, root+"/work/.git", "gitdir: "+root+"/repo/.git/worktrees/w\n")
	put(t, root+"/repo/.git/worktrees/w/commondir", "../..\n")
	put(t, root+"/repo/.git/worktrees/w/gitdir", root+"/work/.git\n")
	if edit != nil {
		edit(root)
	}
	return root
}

// put replaces a file.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// forge makes, below root/u, what a command can make: a directory that says it belongs to
// the repository at common.
func forge(t *testing.T, root, common string) {
	dir := root + "/u/worktrees/evil"
	put(t, dir+"/commondir", common)
	put(t, dir+"/gitdir", root+"/work/.git")
	put(t, root+"/work/.git", "gitdir: "+dir)
}

// TestWorktree defends that a linked worktree's repository is found, that what can make a
// program run outside is read-only in it, and that a work tree cannot name a directory of
// its choice.
func TestWorktree(t *testing.T) {
	got := isolate.Worktree(worktree(t, func(r string) { put(t, r+"/repo/.git/worktrees/other/commondir", "../..\n") })+"/work", nil, nil)
	for _, want := range []string{"worktrees/other", "commondir", "config", "hooks", "config.worktree", "modules", "worktrees/w/commondir", "worktrees/w/config.worktree", "worktrees/w/gitdir"} {
		found := false
		for _, path := range got.Protected {
			found = found || path == filepath.Join(got.Dir, want)
		}
		if !found {
			t.Errorf("%s is not protected in %q", want, got.Dir)
		}
	}
	if !strings.HasSuffix(got.Dir, "/repo/.git") {
		t.Errorf("the repository is at %q", got.Dir)
	}
	for name, edit := range map[string]func(root string){
		"an ancestor":              func(r string) { forge(t, r, r+"/u") },
		"an ancestor further up":   func(r string) { forge(t, r, r) },
		"a directory elsewhere":    func(r string) { forge(t, r, r+"/home") },
		"another repository":       func(r string) { forge(t, r, r+"/repo/.git") },
		"one level too deep":       func(r string) { put(t, r+"/repo/.git/worktrees/w/commondir", "../../..") },
		"no objects":               func(r string) { os.RemoveAll(r + "/repo/.git/objects") },
		"objects are a link":       func(r string) { link(t, r+"/home", r+"/repo/.git/objects") },
		"refs are a link":          func(r string) { link(t, r+"/home", r+"/repo/.git/refs") },
		"no HEAD":                  func(r string) { os.RemoveAll(r + "/repo/.git/HEAD") },
		"hooks are a link":         func(r string) { link(t, r+"/home", r+"/repo/.git/hooks") },
		"it does not point back":   func(r string) { put(t, r+"/repo/.git/worktrees/w/gitdir", r+"/home/.git") },
		"no such directory":        func(r string) { put(t, r+"/work/.git", "gitdir: "+r+"/none") },
		"an ordinary repository":   func(r string) { os.Remove(r + "/work/.git"); put(t, r+"/work/.git/HEAD", "") },
		"a link":                   func(r string) { link(t, r+"/repo/.git/worktrees/w/gitdir", r+"/work/.git") },
		"a long file":              func(r string) { put(t, r+"/work/.git", "gitdir: "+strings.Repeat("/", 8<<10)) },
		"an endless file":          func(r string) { link(t, "/dev/zero", r+"/work/.git") },
		"an endless back-pointer":  func(r string) { link(t, "/dev/zero", r+"/repo/.git/worktrees/w/gitdir") },
		"an endless common file":   func(r string) { link(t, "/dev/zero", r+"/repo/.git/worktrees/w/commondir") },
		"a pipe":                   func(r string) { pipe(t, r+"/work/.git") },
		"a pipe as back-pointer":   func(r string) { pipe(t, r+"/repo/.git/worktrees/w/gitdir") },
		"a pipe as common pointer": func(r string) { pipe(t, r+"/repo/.git/worktrees/w/commondir") },
	} {
		t.Run(name, func(t *testing.T) {
			root := worktree(t, edit)
			done := make(chan isolate.Repository, 1)
			go func() { done <- isolate.Worktree(root+"/work", nil, nil) }()
			select {
			case got := <-done:
				if got.Dir != "" {
					t.Errorf("got %q", got.Dir)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it waits")
			}
		})
	}
}

func pipe(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestWorktreeBounds defends that a repository is not made writable where a command can
// have made it, or where it holds the home directory.
func TestWorktreeBounds(t *testing.T) {
	root := worktree(t, nil)
	for name, tt := range map[string]struct {
		homes, writable []string
		want            bool
	}{
		"neither":                     {at(root, "home"), at(root, "work", "tmp", "none"), true},
		"in a writable root":          {nil, at(root, "repo"), false},
		"its own part is writable":    {nil, at(root, "repo/.git/worktrees"), false},
		"the home directory is in it": {at(root, "repo/.git/refs"), nil, false},
		"it is the home directory":    {at(root, "repo/.git"), nil, false},
	} {
		if got := isolate.Worktree(root+"/work", tt.homes, tt.writable); (got.Dir != "") != tt.want {
			t.Errorf("%s: got %q", name, got.Dir)
		}
	}
}

// TestWorktreeOwner defends that a repository of somebody else is not made writable.
func TestWorktreeOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	for name, want := range map[string]bool{"repo/.git": false, "repo/.git/worktrees/w": false, "work": true} {
		root := worktree(t, nil)
		if err := os.Chown(filepath.Join(root, name), 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if got := isolate.Worktree(root+"/work", nil, nil); (got.Dir != "") != want {
			t.Errorf("%s of another user: got %q", name, got.Dir)
		}
	}
}
