package isolate_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// write writes a file that is there.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
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

// mounts are those of every guard. What there is in /proc depends on the machine.
const mounts = "--ro-bind / / --dev /dev --proc /proc --ro-bind /proc/sys /proc/sys --tmpfs /run"

// kernelMount is one of the other parts of /proc that are read-only.
var kernelMount = regexp.MustCompile(`--ro-bind /proc/(acpi|driver|dynamic_debug|fs|mtrr|scsi) /proc/\S+ `)

// absent is a name or an index that is watched.
var absent = regexp.MustCompile(` --(absent|git-index) \S+`)

// mounted is what lies at a path that is mounted.
var mounted = regexp.MustCompile(` --mounted \S+`)

// ordinary is a user who is not root.
const ordinary = 1000

// arguments are those of a wall, with $T for root, and without what depends on the machine
// and on which names there are that programs obey.
func arguments(w isolate.Wall, root string) string {
	text := strings.ReplaceAll(strings.Join(w.Args, " "), root, "$T")
	text = mounted.ReplaceAllString(text, "")
	return absent.ReplaceAllString(kernelMount.ReplaceAllString(text, ""), "")
}

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
		want: closed + " --info-fd 4 " + mounts + " --bind $T/w $T/w --chdir / -- $T/bin/guest serve --walled",
	},
	{
		name: "the default network is closed",
		tree: []string{"w/", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --bind $T/w $T/w --chdir / -- $T/bin/guest serve --walled",
	},
	{
		name: "roots are resolved, and one within another cannot be moved away",
		tree: []string{"w/sub/", "other/", "link -> other", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w/sub", WritableRoots: at(r, "link", "w", "other"), OptionalRoots: at(r, "missing", "w/sub"), Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --bind $T/other $T/other --bind $T/w $T/w --bind $T/w/sub $T/w/sub --chdir / -- $T/bin/guest serve --walled",
	},
	{
		name: "hidden directories and files, through links; missing ones leave no trace",
		tree: []string{"w/.env", "home/.ssh/id", "home/.netrc", "home/.aws -> ../real", "real/credentials", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Hidden: at(r, "home/.ssh/id", "home/.ssh", "home/.netrc", "home/.aws", "home/.gnupg", "w/.env", "w/none"), Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --ro-bind /dev/null $T/home/.netrc --tmpfs $T/home/.ssh --remount-ro $T/home/.ssh --tmpfs $T/real --remount-ro $T/real" +
			" --bind $T/w $T/w --ro-bind /dev/null $T/w/.env --chdir / -- $T/bin/guest serve --walled",
	},
	{
		name: "a workdir in the state directory is all that is seen of it",
		tree: []string{"state/sb_1/workspace/", "state/sb_2/record.json", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/state/sb_1/workspace", State: r + "/state", Hidden: at(r, "state/sb_2"), Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --tmpfs $T/state --bind $T/state/sb_1/workspace $T/state/sb_1/workspace --remount-ro $T/state --chdir / -- $T/bin/guest serve --walled",
	},
	{
		name: "in a writable home, guest and state directory stay where they are",
		tree: []string{"home/.cache/berth/guest", "home/.local/state/berth/sb_1/", "home/.cache/other/"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/home", State: r + "/home/.local/state/berth", Program: r + "/home/.cache/berth/guest", Protected: at(r, "home/.cache/berth")}
		},
		want: closed + " " + mounts + " --bind $T/home $T/home" +
			" --bind $T/home/.cache $T/home/.cache --ro-bind $T/home/.cache/berth $T/home/.cache/berth --ro-bind $T/home/.cache/berth/guest $T/home/.cache/berth/guest" +
			" --bind $T/home/.local $T/home/.local --bind $T/home/.local/state $T/home/.local/state" +
			" --tmpfs $T/home/.local/state/berth --remount-ro $T/home/.local/state/berth --chdir / -- $T/home/.cache/berth/guest serve --walled",
	},
	{
		name: "the way to what is hidden in a writable root cannot be moved away",
		tree: []string{"w/.config/gcloud/c", "w/conf/deep/.env", "w/.netrc", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Hidden: at(r, "w/.config/gcloud", "w/conf/deep/.env", "w/.netrc"), Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --bind $T/w $T/w --bind $T/w/.config $T/w/.config --tmpfs $T/w/.config/gcloud --remount-ro $T/w/.config/gcloud" +
			" --ro-bind /dev/null $T/w/.netrc --bind $T/w/conf $T/w/conf --bind $T/w/conf/deep $T/w/conf/deep --ro-bind /dev/null $T/w/conf/deep/.env --chdir / -- $T/bin/guest serve --walled",
	},
	{
		name: "the way to what is hidden in a workdir of our own cannot be moved away either",
		tree: []string{"state/ws/conf/.env", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/state/ws", State: r + "/state", Hidden: at(r, "state/ws/conf/.env"), Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --tmpfs $T/state --bind $T/state/ws $T/state/ws --bind $T/state/ws/conf $T/state/ws/conf" +
			" --ro-bind /dev/null $T/state/ws/conf/.env --remount-ro $T/state --chdir / -- $T/bin/guest serve --walled",
	},
	{
		name: "a directory of sockets is the sandbox's own",
		tree: []string{"w/", "tmp/tmux-0/default", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Temporary: at(r, "tmp"), Own: at(r, "tmp/tmux-0", "tmp/none"), Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --bind $T/tmp $T/tmp --perms 0700 --tmpfs $T/tmp/tmux-0 --bind $T/w $T/w --chdir / -- $T/bin/guest serve --walled",
	},
	{
		name: "a guest in a hidden directory is shown elsewhere",
		tree: []string{"w/", "secret/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Hidden: at(r, "secret"), Program: r + "/secret/guest"}
		},
		want: closed + " " + mounts + " --tmpfs $T/secret --remount-ro $T/secret --bind $T/w $T/w --ro-bind $T/secret/guest /run/berth-guest --chdir / -- /run/berth-guest serve --walled",
	},
	{
		name: "homes of others are empty, but for what is writable in them; the user's own stays",
		tree: []string{"homes/me/file", "homes/other/w/", "homes/other/secret", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{
				Workdir: r + "/homes/other/w", Homes: at(r, "homes/me"), OtherHomes: at(r, "homes/me", "homes/other", "homes/none"), Program: r + "/bin/guest",
			}
		},
		want: closed + " " + mounts + " --tmpfs $T/homes/other --bind $T/homes/other/w $T/homes/other/w --remount-ro $T/homes/other --chdir / -- $T/bin/guest serve --walled",
	},
	{
		name: "many homes are emptied by their directory, and the user's own shown in it",
		tree: append(manyHomes(), "homes/me/file", "homes/me/w/", "bin/guest"),
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/homes/me/w", Homes: at(r, "homes/me"), OtherHomes: at(r, manyHomes()...), Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --tmpfs $T/homes --ro-bind $T/homes/me $T/homes/me --bind $T/homes/me/w $T/homes/me/w --remount-ro $T/homes --chdir / -- $T/bin/guest serve --walled",
	},
	{
		name: "what programs outside obey is read-only, and the way to it cannot be moved away",
		tree: []string{"w/.git/config", "w/.git/hooks/", "w/.git/modules/m/HEAD", "w/.git/modules/m/hooks/", "w/.envrc", "w/.vscode/tasks.json", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --bind $T/w $T/w --ro-bind $T/w/.envrc $T/w/.envrc --bind $T/w/.git $T/w/.git --ro-bind $T/w/.git/config $T/w/.git/config" +
			" --ro-bind $T/w/.git/hooks $T/w/.git/hooks --bind $T/w/.git/modules $T/w/.git/modules --bind $T/w/.git/modules/m $T/w/.git/modules/m" +
			" --ro-bind $T/w/.git/modules/m/hooks $T/w/.git/modules/m/hooks --ro-bind $T/w/.vscode $T/w/.vscode --chdir / -- $T/bin/guest serve --walled",
	},
	{
		name: "what is asked for by name in a root is writable all the same",
		tree: []string{"w/.git/config", "w/.git/hooks/", "w/.vscode/tasks.json", "bin/guest"},
		policy: func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", WritableRoots: at(r, "w/.git", "w/.vscode"), Program: r + "/bin/guest"}
		},
		want: closed + " " + mounts + " --bind $T/w $T/w --bind $T/w/.git $T/w/.git --bind $T/w/.vscode $T/w/.vscode --chdir / -- $T/bin/guest serve --walled",
	},
}

// manyHomes are more than are emptied one by one.
func manyHomes() []string {
	var out []string
	for i := range 20 {
		out = append(out, "homes/u"+strconv.Itoa(i)+"/")
	}
	return out
}

// TestGuardArguments defends the wall itself: every argument, and their order, which is
// their meaning.
func TestGuardArguments(t *testing.T) {
	for _, tt := range guardCases {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, tt.tree...)
			policy := tt.policy(root)
			policy.Bwrap, policy.EUID = "/usr/bin/bwrap", ordinary
			wall, err := isolate.Guard(policy, []string{"serve"})
			if err != nil {
				t.Fatal(err)
			}
			got := arguments(wall, root)
			if wall.Path != "/usr/bin/bwrap" || got != tt.want {
				t.Errorf("path %s\n%s", wall.Path, cmp.Diff(strings.Split(tt.want, " "), strings.Split(got, " ")))
			}
		})
	}
}

// TestGuardOpenNetwork defends that an open network differs in nothing but the network
// and the way to resolve names.
func TestGuardOpenNetwork(t *testing.T) {
	root := tree(t, "w/", "guest")
	wall, err := isolate.Guard(isolate.Policy{EUID: ordinary, Workdir: root + "/w", Program: root + "/guest", Network: spec.NetworkOpen}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(closed, "--unshare-net ", "", 1) + " " + mounts
	if got := kernelMount.ReplaceAllString(strings.Join(wall.Args, " "), ""); !strings.HasPrefix(got, want) || strings.Contains(got, "--unshare-net") {
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
		{"a root by a link that leads out of another root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", WritableRoots: at(r, "w/out")}
		}, spec.CodeInvalid},
		{"a root by a link in a temporary directory", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", WritableRoots: at(r, "tmp/out"), Temporary: at(r, "tmp")}
		}, spec.CodeInvalid},
		{"a hidden path by a link in a root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Hidden: at(r, "w/.ssh")}
		}, spec.CodeInvalid},
		{"a hidden path below a link in a root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Hidden: at(r, "w/.ssh/id")}
		}, spec.CodeInvalid},
		{"a hidden path that contains a nested root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", WritableRoots: at(r, "w/a/b"), Hidden: at(r, "w/a")}
		}, spec.CodeInvalid},
		{"a protected path by a link in a root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Protected: at(r, "w/.ssh")}
		}, spec.CodeInvalid},
		{"the state directory by a link in a root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", State: r + "/w/.ssh"}
		}, spec.CodeInvalid},
		{"a guest by a link in a root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Program: r + "/w/guest"}
		}, spec.CodeInvalid},
		{"a wrapper in a root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Bwrap: r + "/w/bwrap"}
		}, spec.CodeUnsupported},
		{"a wrapper in a temporary directory", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Temporary: at(r, "tmp"), Bwrap: r + "/tmp/bwrap"}
		}, spec.CodeUnsupported},
		{"a wrapper by a link in a root", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Bwrap: r + "/w/bwrap-link"}
		}, spec.CodeUnsupported},
		{"missing guest", func(r string) isolate.Policy {
			return isolate.Policy{Workdir: r + "/w", Program: r + "/none"}
		}, spec.CodeUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, "w/a/b/", "a/b/", "guest", "slash -> /", "w/out -> ../a", "tmp/out -> ../a", "w/.ssh -> ../dot", "dot/id",
				"w/guest -> ../guest", "w/bwrap", "tmp/bwrap", "w/bwrap-link -> ../guest")
			policy := tt.policy(root)
			policy.EUID = ordinary
			if policy.Program == "" {
				policy.Program = root + "/guest"
			}
			if wall, err := isolate.Guard(policy, nil); spec.CodeOf(err) != tt.want {
				t.Errorf("got %q, %v; want %s", wall.Args, err, tt.want)
			}
		})
	}
}

// TestMissingRootHint defends that a root which does not exist comes with its cure.
func TestMissingRootHint(t *testing.T) {
	root := tree(t, "w/", "guest")
	_, err := isolate.Guard(isolate.Policy{EUID: ordinary, Workdir: root + "/w", WritableRoots: at(root, "cache"), Program: root + "/guest"}, nil)
	if want := "mkdir -p " + root + "/cache"; !strings.Contains(spec.HintOf(err), want) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("%v (hint %q); want the hint %q", err, spec.HintOf(err), want)
	}
}

// TestWallSaysWhatIsInForce defends that a wall names the roots that exist and what
// exists of what it hides, free of links.
func TestWallSaysWhatIsInForce(t *testing.T) {
	root := tree(t, "w/", "guest", "tmp/", "keys/id", "link -> keys", "token")
	wall, err := isolate.Guard(isolate.Policy{
		EUID:    ordinary,
		Workdir: root + "/w", OptionalRoots: at(root, "tmp", "none"), Hidden: at(root, "link", "token", "absent"), Program: root + "/guest",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(at(root, "w", "tmp"), wall.Writable); diff != "" {
		t.Errorf("writable (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(at(root, "keys", "token"), wall.Hidden); diff != "" {
		t.Errorf("hidden (-want +got):\n%s", diff)
	}
}

// TestCredentials defends that what lies in the base directory of configurations is
// hidden there and at its usual place, and nothing is named twice.
func TestCredentials(t *testing.T) {
	got := isolate.Credentials("/h", "/x/conf")
	for _, want := range []string{"/h/.ssh", "/h/.config/gh", "/x/conf/gh", "/h/.bash_history", "/h/.claude/.credentials.json"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not hidden", want)
		}
	}
	if same := isolate.Credentials("/h", "/h/.config"); len(same) != len(isolate.Credentials("/h", "")) || !slices.IsSorted(same) {
		t.Errorf("the usual place changes the list: %q", same)
	}
}

// TestHiddenByLink defends: a link to what is hidden may lie in a writable root where
// what it leads to is hidden by a name of its own.
func TestHiddenByLink(t *testing.T) {
	root := tree(t, "w/.ssh -> dot/ssh", "w/dot/ssh/id", "w/.aws -> /nonexistent", "guest")
	wall, err := isolate.Guard(isolate.Policy{EUID: ordinary, Workdir: root + "/w", Hidden: at(root, "w/.ssh", "w/.aws", "w/dot/ssh"), Program: root + "/guest"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(at(root, "w/dot/ssh"), wall.Hidden); diff != "" {
		t.Error(diff)
	}
	_, err = isolate.Guard(isolate.Policy{EUID: ordinary, Workdir: root + "/w", Hidden: at(root, "w/.ssh"), Program: root + "/guest"}, nil)
	if want := "--hide " + root + "/w/dot/ssh"; !strings.Contains(spec.HintOf(err), want) {
		t.Errorf("%v: hint %q, want %q", err, spec.HintOf(err), want)
	}
}

// TestOptionalRootByLink defends: a temporary directory whose name a command can have
// turned elsewhere is not writable.
func TestOptionalRootByLink(t *testing.T) {
	root := tree(t, "w/", "tmp/mine -> ../victim", "victim/", "guest")
	wall, err := isolate.Guard(isolate.Policy{EUID: ordinary, Workdir: root + "/w", OptionalRoots: at(root, "tmp", "tmp/mine"), Program: root + "/guest"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(at(root, "w", "tmp"), wall.Writable); diff != "" {
		t.Error(diff)
	}
}

// TestResolveWorkdir defends: a workdir is not believed where a command can have put a link
// that leads out, and else is followed to its end.
func TestResolveWorkdir(t *testing.T) {
	root := tree(t, "tmp/out -> ../victim", "tmp/in -> real", "tmp/real/deep/", "victim/deep/", "link -> victim")
	roots := at(root, "tmp", "none")
	for name, want := range map[string]string{
		"tmp/out": "", "tmp/out/deep": "", "tmp/in": "tmp/real", "tmp/in/deep": "tmp/real/deep", "link": "victim", "victim": "victim", "none": "none",
	} {
		got, err := isolate.ResolveWorkdir(filepath.Join(root, name), roots)
		if want == "" && spec.CodeOf(err) != spec.CodeInvalid || want != "" && (err != nil || got != filepath.Join(root, want)) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestSwapped defends: a workdir that was resolved is not followed again, in a jail too, and
// nothing that is writable in a jail is reached by a link which a command of a guard can
// have put into a directory for temporary files.
func TestSwapped(t *testing.T) {
	root := tree(t, "tmp/b -> x", "tmp/x/proj -> ../../victim", "victim/", "w/", "link -> w", "guest")
	for name, p := range map[string]isolate.Policy{
		"the workdir":              {Workdir: root + "/tmp/b/proj"},
		"a workdir elsewhere":      {Workdir: root + "/link"},
		"a writable root":          {Workdir: root + "/w", WritableRoots: at(root, "tmp/b/proj")},
		"the program":              {Workdir: root + "/w", Program: root + "/tmp/x/proj/guest"},
		"the directory for places": {Workdir: root + "/w", State: root + "/tmp/b/proj"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, root+"/victim/guest", "")
			p.EUID, p.Temporary = ordinary, at(root, "tmp")
			if p.Program == "" {
				p.Program = root + "/guest"
			}
			for level, wall := range map[string]func(isolate.Policy, []string) (isolate.Wall, error){"guard": isolate.Guard, "jail": isolate.Jail} {
				if w, err := wall(p, nil); spec.CodeOf(err) != spec.CodeInvalid {
					t.Errorf("%s: %v, %q", level, err, w.Writable)
				}
			}
		})
	}
}

// TestMounted defends: the program is told which file or directory is to lie at each path
// that is mounted, as the kernel numbers them.
func TestMounted(t *testing.T) {
	root := tree(t, "w/.git/hooks/", "w/.envrc", "w/sub/", "guest")
	wall, err := isolate.Guard(isolate.Policy{EUID: ordinary, Workdir: root + "/w", WritableRoots: at(root, "w/sub"), Program: root + "/guest"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for i, arg := range wall.Args {
		if arg == "--mounted" {
			told[wall.Args[i+1]] = true
		}
	}
	for _, path := range at(root, "w", "w/.git", "w/.git/hooks", "w/.envrc", "w/sub") {
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}
		if !told[fmt.Sprintf("%d:%d:%s", st.Dev, st.Ino, path)] {
			t.Errorf("the program is not told of %s: %v", path, told)
		}
	}
}

// TestSealed defends that a wall names every mount point that it stands on.
func TestSealed(t *testing.T) {
	root := tree(t, "w/bin/guest", "w/keys/id", "w/token", "w/state/")
	wall, err := isolate.Guard(isolate.Policy{
		EUID:    ordinary,
		Workdir: root + "/w", State: root + "/w/state", Hidden: at(root, "w/keys", "w/token"), Program: root + "/w/bin/guest",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(at(root, "w/bin/guest", "w/keys", "w/token", "w/state"), wall.Sealed); diff != "" {
		t.Error(diff)
	}
}

// TestSockets defends that a socket which the environment names is found, in each of the
// spellings in use, and nothing else.
func TestSockets(t *testing.T) {
	root := tree(t, "file", "link -> s/a", "s/")
	for _, name := range []string{"a", "b", "c", "d"} {
		l, err := net.Listen("unix", filepath.Join(root, "s", name))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	got := isolate.Sockets([]string{
		"SSH_AUTH_SOCK=" + root + "/link", "DOCKER_HOST=unix://" + root + "/s/b", "DBUS_SESSION_BUS_ADDRESS=unix:path=" + root + "/s/c,guid=1",
		"TMUX=" + root + "/s/d,123,0", "HOME=" + root, "FILE=" + root + "/file", "NONE=" + root + "/s/none", "TCP=tcp://127.0.0.1:1", "EMPTY=", "BAD",
	})
	if diff := cmp.Diff(at(root, "s/a", "s/b", "s/c", "s/d"), got); diff != "" {
		t.Error(diff)
	}
}
