package isolate_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/isolate"
	"github.com/berth-dev/berth/internal/testutil/swapper"
)

// TestWorktreeAgainstASwapper defends: who swaps the file that names a repository for a
// link - to another such file, to a pipe, to an endless device - makes nothing writable
// and keeps nobody waiting.
func TestWorktreeAgainstASwapper(t *testing.T) {
	for name, target := range map[string]func(root string) string{
		"a file outside": func(root string) string { return root + "/outside" },
		"a pipe": func(root string) string {
			if err := unix.Mkfifo(root+"/pipe", 0o644); err != nil {
				t.Fatal(err)
			}
			return root + "/pipe"
		},
		"a device": func(string) string { return "/dev/zero" },
	} {
		t.Run(name, func(t *testing.T) {
			root := worktree(t, nil)
			whole, err := os.ReadFile(root + "/work/.git")
			if err != nil {
				t.Fatal(err)
			}
			put(t, root+"/outside", string(whole))
			put(t, root+"/work/.git", "no worktree")
			link(t, target(root), root+"/work/evil")
			s := swapper.Swap(root+"/work/.git", root+"/work/evil")
			defer s.Stop()
			began := time.Now()
			for range swapper.Attempts() * 10 {
				if repo := isolate.Worktree(root+"/work", []string{root + "/home"}, []string{root + "/tmp"}); repo.Dir != "" {
					t.Fatalf("%+v", repo)
				}
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}
