//go:build linux

package process_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// TestSubmodules defends: a command cannot change the configuration or the hooks of a
// submodule, which git outside obeys, however deep its path, nested in another and in a
// linked work tree too; what it makes to take their place is reported; and it can still
// commit in a submodule.
func TestSubmodules(t *testing.T) {
	needBwrap(t)
	base := far(t)
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always", "-C", dir}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	at := func(path ...string) string { return filepath.Join(append([]string{base}, path...)...) }
	for _, name := range []string{"inner", "middle", "super"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
		git(at(name), "init", "-q", "-b", "main")
		git(at(name), "commit", "-q", "--allow-empty", "-m", "first")
	}
	git(at("middle"), "submodule", "--quiet", "add", at("inner"), "deep/inner")
	git(at("middle"), "commit", "-q", "-m", "second")
	git(at("super"), "submodule", "--quiet", "add", at("middle"), "third_party/middle")
	git(at("super"), "submodule", "--quiet", "update", "--init", "--recursive")
	git(at("super"), "commit", "-q", "-m", "second")
	git(at("super"), "worktree", "add", "-q", at("linked"))
	git(at("linked"), "submodule", "--quiet", "update", "--init", "--recursive")

	d := open(t, options(t))
	for _, tt := range []struct {
		name, workdir, modules string
		commits                bool
	}{
		{"itself", at("super"), at("super", ".git", "modules"), true},
		{"its work tree, from it", at("super"), at("super", ".git", "worktrees", "linked", "modules"), false},
		{"a linked work tree", at("linked"), at("super", ".git", "worktrees", "linked", "modules"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := provision(t, d, spec.Spec{Key: "k", Workdir: tt.workdir, Isolation: spec.IsolationGuard, Env: map[string]string{"M": tt.modules}})
			for _, module := range []string{"third_party/middle", "third_party/middle/modules/deep/inner"} {
				dir := filepath.Join(tt.modules, module)
				if _, err := os.Stat(filepath.Join(dir, "config")); err != nil {
					t.Fatal(err)
				}
				for _, script := range []string{"echo x >>config", "echo x >hooks/post-checkout", "mv config other", "mv hooks other", "mv ../" + filepath.Base(dir) + " ../other"} {
					refused(t, s, `cd "$M/`+module+`" && `+script)
				}
				for _, name := range []string{"commondir", "config.worktree"} {
					path := filepath.Join(dir, name)
					if out, exit := sh(t, s, `echo x >"$M/`+module+`/`+name+`"`); !slices.Contains(exit.HostExecutable, path) {
						t.Errorf("%s is obeyed outside, and was not told of: %+v %s", path, exit, out)
					}
					if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
						t.Fatal(err)
					}
				}
			}
			if tt.commits {
				must(t, s, "cd third_party/middle && git -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m third")
			}
			if err := d.Reap(within(t), "k", driver.ReapOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}
