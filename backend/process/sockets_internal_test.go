//go:build linux

package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/isolate"
)

// TestMakeFor defends: the directory of the terminal multiplexer's sockets is made where it is
// missing, for its user alone; no link is followed, and what is there stays as it is.
func TestMakeFor(t *testing.T) {
	me := isolate.Identity{UID: os.Geteuid(), GID: os.Getegid()}
	users := []isolate.Identity{me}
	if me.UID == 0 {
		users = append(users, isolate.Identity{UID: 1001, GID: 1002})
	}
	for _, id := range users {
		root := t.TempDir()
		for _, dir := range []string{"there", "victim"} {
			if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for name, target := range map[string]string{"link": "victim", "dangling": "none"} {
			if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
				t.Fatal(err)
			}
		}
		for name, want := range map[string]string{
			"new": "drwx------", "there": "drwxr-xr-x", "file": "-rw-r--r--", "link": "Lrwxrwxrwx", "dangling": "Lrwxrwxrwx", "above/new": "",
		} {
			path, of := filepath.Join(root, name), me
			if name == "new" {
				of = id
			}
			if made := makeFor(path, id); made != (want != "") {
				t.Errorf("%s: made %t", name, made)
			}
			info, err := os.Lstat(path)
			if want == "" {
				if err == nil || !os.IsNotExist(err) {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if err != nil || info.Mode().String() != want {
				t.Errorf("%s: %v, %v; want %s", name, info.Mode(), err, want)
			}
			if owner := isolate.OwnerOf(path); !strings.HasPrefix(want, "L") && owner != of {
				t.Errorf("%s belongs to %v, want %v", name, owner, of)
			}
		}
		if owner := isolate.OwnerOf(filepath.Join(root, "victim")); owner != me {
			t.Errorf("what a link leads to belongs to %v", owner)
		}
	}
}
