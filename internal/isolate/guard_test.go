package isolate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/isolate"
	"github.com/berth-dev/berth/spec"
)

// tree makes files (a name ending in "/" is a directory, "a -> b" a link) and returns
// their root, free of links.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(target, path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, nil, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// at puts root before each of the paths.
func at(root string, paths ...string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, filepath.Join(root, p))
	}
	return out
}

const closed = "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net --disable-userns --cap-drop ALL --new-session --as-pid-1"

const mounts = "--ro-bind / / --dev /dev --proc /proc --tmpfs /run"

// guardCases are policies over a tree of files, and the arguments that they become.
var guardCases = []struct {
	name   string
	tree   []string
	policy func(root string) isolate.Policy
	want   string
}{
	{
		name: "closed network, one root",
		tree: []string{"w/", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Program: r + "/bin/guest", Network: spec.NetworkNone, InfoFD: 4}
		},
		want: closed + " --info-fd 4 " + mounts + " --bind $T/w $T/w --chdir / -- $T/bin/guest serve",
	},
	{
		name: "the default network is closed",
		tree: []string{"w/", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --bind $T/w $T/w --chdir / -- $T/bin/guest serve",
	},
	{
		name: "roots are resolved, and one within another is left out",
		tree: []string{"w/sub/", "other/", "link -> other", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w/sub", WritableRoots: at(r, "link", "w", "other"), OptionalRoots: at(r, "missing", "w/sub"), Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --bind $T/other $T/other --bind $T/w $T/w --chdir / -- $T/bin/guest serve",
	},
	{
		name: "hidden paths come after the roots: directories, files, through links; missing ones leave no trace",
		tree: []string{"w/.env", "home/.ssh/id", "home/.netrc", "home/.aws -> ../real", "real/credentials", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Hidden: at(r, "home/.ssh/id", "home/.ssh", "home/.netrc", "home/.aws", "home/.gnupg", "w/.env", "w/none"), Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --bind $T/w $T/w" +
			" --tmpfs $T/home/.ssh --remount-ro $T/home/.ssh --ro-bind /dev/null $T/home/.netrc --tmpfs $T/real --remount-ro $T/real --ro-bind /dev/null $T/w/.env" +
			" --chdir / -- $T/bin/guest serve",
	},
	{
		name: "a workdir in the state directory is all that is seen of it",
		tree: []string{"state/sb_1/workspace/", "state/sb_2/record.json", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/state/sb_1/workspace", State: r + "/state", Hidden: at(r, "state/sb_2"), Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --tmpfs $T/state --bind $T/state/sb_1/workspace $T/state/sb_1/workspace --remount-ro $T/state --chdir / -- $T/bin/guest serve",
	},
	{
		name: "in a writable home, guest and state directory stay where they are",
		tree: []string{"home/.cache/berth/guest", "home/.local/state/berth/sb_1/", "home/.cache/other/"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/home", State: r + "/home/.local/state/berth", Program: r + "/home/.cache/berth/guest", Protected: at(r, "home/.cache/berth")}
		},
		want: closed + " " + mounts + " --bind $T/home $T/home" +
			" --bind $T/home/.cache $T/home/.cache --bind $T/home/.cache/berth $T/home/.cache/berth --bind $T/home/.local $T/home/.local --bind $T/home/.local/state $T/home/.local/state" +
			" --ro-bind $T/home/.cache/berth $T/home/.cache/berth --ro-bind $T/home/.cache/berth/guest $T/home/.cache/berth/guest" +
			" --tmpfs $T/home/.local/state/berth --remount-ro $T/home/.local/state/berth --chdir / -- $T/home/.cache/berth/guest serve",
	},
	{
		name: "a guest in a hidden directory is shown elsewhere",
		tree: []string{"w/", "secret/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Hidden: at(r, "secret"), Program: r + "/secret/guest"}
		},
		want: closed + " " + mounts + " --bind $T/w $T/w --tmpfs $T/secret --remount-ro $T/secret --ro-bind $T/secret/guest /run/berth-guest --chdir / -- /run/berth-guest serve",
	},
}

// TestGuardArguments defends the wall itself: every argument, and their order, which is
// their meaning.
func TestGuardArguments(t *testing.T) {
	for _, tt := range guardCases {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, tt.tree...)
			policy := tt.policy(root)
			policy.Bwrap = "/usr/bin/bwrap"
			path, args, err := isolate.Guard(policy, []string{"serve"})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(strings.Join(args, " "), root, "$T")
			if path != "/usr/bin/bwrap" || got != tt.want {
				t.Errorf("path %s\n%s", path, cmp.Diff(strings.Split(tt.want, " "), strings.Split(got, " ")))
			}
		})
	}
}

// TestGuardOpenNetwork defends that an open network differs in nothing but the network
// and the way to resolve names.
func TestGuardOpenNetwork(t *testing.T) {
	root := tree(t, "w/", "guest")
	_, args, err := isolate.Guard(isolate.Policy{Workdir: root + "/w", Program: root + "/guest", Network: spec.NetworkOpen}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(closed, "--unshare-net ", "", 1) + " " + mounts
	if got := strings.Join(args, " "); !strings.HasPrefix(got, want) || strings.Contains(got, "--unshare-net") {
		t.Errorf("got %s\nwant it to begin with %s", got, want)
	}
}

// TestGuardRefuses defends that what would leave no wall, or a broken one, is refused
// before anything starts.
func TestGuardRefuses(t *testing.T) {
	tests := []struct {
		name   string
		policy func(root string) isolate.Policy
		want   spec.Code
	}{
		{"root directory", func(string) isolate.Policy { return isolate.Policy{Workdir: "/"} }, spec.CodeInvalid},
		{"/proc", func(string) isolate.Policy { return isolate.Policy{Workdir: "/proc"} }, spec.CodeInvalid},
		{"below /sys", func(string) isolate.Policy { return isolate.Policy{Workdir: "/sys/kernel"} }, spec.CodeInvalid},
		{"below /dev", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", WritableRoots: []string{"/dev"}}
		}, spec.CodeInvalid},
		{"/run", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", WritableRoots: []string{"/run"}}
		}, spec.CodeInvalid},
		{"through a link", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", WritableRoots: at(r, "slash")}
		}, spec.CodeInvalid},
		{"missing root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", WritableRoots: at(r, "missing")}
		}, spec.CodeInvalidPath},
		{"a file as a root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", WritableRoots: at(r, "guest")}
		}, spec.CodeInvalidPath},
		{"relative root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", WritableRoots: []string{"w"}}
		}, spec.CodeInvalidPath},
		{"missing workdir", func(r string) isolate.Policy { return isolate.Policy{Workdir: r + "/none"} }, spec.CodeInvalidPath},
		{"hidden path is the workdir", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Hidden: at(r, "w")}
		}, spec.CodeInvalid},
		{"hidden path contains a root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", WritableRoots: at(r, "a/b"), Hidden: at(r, "a")}
		}, spec.CodeInvalid},
		{"relative hidden path", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Hidden: []string{"x"}}
		}, spec.CodeInvalidPath},
		{"the state directory as a root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/a", State: r + "/a"}
		}, spec.CodeInvalid},
		{"missing guest", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Program: r + "/none"}
		}, spec.CodeUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, "w/", "a/b/", "guest", "slash -> /")
			policy := tt.policy(root)
			if policy.Program == "" {
				policy.Program = root + "/guest"
			}
			if _, args, err := isolate.Guard(policy, nil); spec.CodeOf(err) != tt.want {
				t.Errorf("got %q, %v; want %s", args, err, tt.want)
			}
		})
	}
}

// TestGitCommonDir defends that a linked worktree's repository is found, and that a
// work tree cannot name a directory of its choice.
func TestGitCommonDir(t *testing.T) {
	root := tree(t, "repo/.git/worktrees/w/", "work/", "plain/.git/HEAD", "forged/", "victim/", "evil/")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("work/.git", "gitdir: "+root+"/repo/.git/worktrees/w\n")
	write("repo/.git/worktrees/w/commondir", "../..\n")
	write("repo/.git/worktrees/w/gitdir", root+"/work/.git\n")
	write("forged/.git", "gitdir: "+root+"/evil\n")
	write("evil/commondir", root+"/victim\n")
	write("evil/gitdir", root+"/forged/.git\n")
	for dir, want := range map[string]string{"work": root + "/repo/.git", "plain": "", "forged": "", "repo": "", "none": ""} {
		if got := isolate.GitCommonDir(filepath.Join(root, dir)); got != want {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
}
