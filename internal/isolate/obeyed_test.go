package isolate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/isolate"
)

// TestAbsent defends what is watched for: names that programs outside would obey and that
// do not exist, in the roots that were asked for and in a home directory within one; a
// repository that does not exist as a whole; and the program is told of each.
func TestAbsent(t *testing.T) {
	root := tree(t, "w/.git/config", "w/.git/modules/a/b/HEAD", "w/.git/modules/a/b/config", "w/.git/worktrees/t/commondir", "w/.envrc", "new/", "home/.bashrc", "tmp/", "guest")
	wall, err := isolate.Guard(isolate.Policy{
		EUID: ordinary, Workdir: root + "/w", WritableRoots: at(root, "new", "home"), Homes: at(root, "home"), Temporary: at(root, "tmp"), Program: root + "/guest",
		Protected: at(root, "w/.berth"),
	}, []string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"w/.git/hooks": true, "w/.git/commondir": true, "w/.git/modules/a/b/commondir": true, "w/.git/modules/a/b/hooks": true, "w/.git/modules/a/b/config": false, "w/.git/worktrees/t/config.worktree": true,
		"w/.vscode": true, "w/.claude": true, "w/.berth": true, "w/.git": false, "w/.git/config": false, "w/.envrc": false,
		"new/.git": true, "new/.git/hooks": false, "new/.mcp.json": true, "home/.zshrc": true, "home/.ssh": true, "home/.bashrc": false, "w/.zshrc": false, "tmp/.git": false,
	} {
		if got := slices.Contains(wall.Absent, root+"/"+path); got != want {
			t.Errorf("%s: watched for %t, want %t", path, got, want)
		}
	}
	said := strings.Join(wall.Args, " ")
	for _, path := range wall.Absent {
		if !strings.Contains(said, " --absent "+path) {
			t.Errorf("the program is not told of %s", path)
		}
	}
}

// TestObeyed defends what is read-only of the things that programs outside obey, wherever a
// repository keeps them, and that many of a kind are covered by one mount.
func TestObeyed(t *testing.T) {
	const hooks = "[core]\n\tbare = false\n\tHooksPath = tools/hooks\n[other]\nhookspath = nowhere\n"
	many := []string{"w/.git/config"}
	for _, name := range strings.Split("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "") {
		many = append(many, "w/.git/modules/"+name+"/HEAD", "w/.git/modules/"+name+"/hooks/")
	}
	for _, tt := range []struct {
		name   string
		tree   []string
		config string
		want   []string
	}{
		{"a linked worktree's way to its repository", []string{"w/.git"}, "", []string{"w/.git"}},
		{"where the configuration says the hooks are", []string{"w/.git/config", "w/tools/hooks/pre-commit", "w/nowhere/"}, hooks, []string{"w/.git/config", "w/tools/hooks"}},
		{"not what lies outside", []string{"w/.git/config", "hooks/x"}, "[core]\nhooksPath = ../hooks\n", []string{"w/.git/config"}},
		{"what a link leads to", []string{"w/.vscode -> settings", "w/settings/x", "w/.idea -> ../out", "out/x"}, "", []string{"w/settings"}},
		{"submodules", []string{"w/.git/config", "w/.git/modules/m/hooks/", "w/.git/modules/m/HEAD", "w/.git/modules/m/config", "w/.git/worktrees/t/commondir"}, "", []string{
			"w/.git/config", "w/.git/modules/m/config", "w/.git/modules/m/hooks", "w/.git/worktrees/t/commondir",
		}},
		{"submodules at any depth, in others, and in work trees", []string{
			"w/.git/config", "w/.git/modules/third_party/foo/HEAD", "w/.git/modules/third_party/foo/config", "w/.git/modules/third_party/foo/modules/in/deep/HEAD",
			"w/.git/modules/third_party/foo/modules/in/deep/hooks/", "w/.git/worktrees/t/modules/m/HEAD", "w/.git/worktrees/t/modules/m/config", "w/.git/modules/none/at/all/",
		}, "", []string{
			"w/.git/config", "w/.git/modules/third_party/foo/config", "w/.git/modules/third_party/foo/modules/in/deep/hooks", "w/.git/worktrees/t/modules/m/config",
		}},
		{"a submodule of which a command has made something else", []string{
			"w/.git/config", "w/.git/modules/a/config", "w/.git/modules/a/b/HEAD", "w/.git/modules/a/b/config", "w/.git/modules/a/objects/c/config",
		}, "", []string{"w/.git/config", "w/.git/modules/a/b/config", "w/.git/modules/a/config"}},
		{"a link among the submodules", []string{"w/.git/config", "w/.git/modules/a -> ../../elsewhere", "w/elsewhere/HEAD"}, "", []string{"w/.git/config", "w/.git/modules"}},
		{"submodules too deep", []string{"w/.git/config", "w/.git/modules/" + strings.Repeat("d/", 20) + "HEAD"}, "", []string{"w/.git/config", "w/.git/modules"}},
		{"many submodules", many, "", []string{"w/.git/config", "w/.git/modules"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, append(tt.tree, "guest")...)
			if tt.config != "" {
				write(t, root+"/w/.git/config", tt.config)
			}
			wall, err := isolate.Guard(isolate.Policy{EUID: ordinary, Workdir: root + "/w", Program: root + "/guest"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, arg := range wall.Args {
				if arg == "--ro-bind" && strings.HasPrefix(wall.Args[i+1], root) {
					got = append(got, wall.Args[i+1])
				}
			}
			if diff := cmp.Diff(at(root, tt.want...), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
