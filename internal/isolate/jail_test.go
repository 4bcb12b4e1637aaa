package isolate_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/isolate"
	"github.com/berth-dev/berth/spec"
)

// jailed are the arguments of a jail that follow those for the system.
func jailed(t *testing.T, wall isolate.Wall, root string) (system, own string) {
	t.Helper()
	system, own, ok := strings.Cut(arguments(wall, root), " --proc /proc --ro-bind /proc/sys /proc/sys ")
	if !ok {
		t.Fatalf("no /proc in %q", wall.Args)
	}
	return system, own
}

// TestJailArguments defends the jail itself: every argument after those that show the
// system.
func TestJailArguments(t *testing.T) {
	const made = "--ro-bind $T/etc/group /etc/group --ro-bind $T/etc/nsswitch.conf /etc/nsswitch.conf --ro-bind $T/etc/passwd /etc/passwd --ro-bind $T/etc/hosts /etc/hosts "
	tests := []struct {
		name   string
		tree   []string
		policy func(root string) isolate.Policy
		want   string
	}{
		{
			name: "the workdir is at its path, what is temporary and the home directory are the jail's own",
			tree: []string{"tmp/w/", "bin/guest"},
			policy: func(r string) isolate.Policy {
				return isolate.Policy{EUID: ordinary, Workdir: r + "/tmp/w", Temporary: at(r, "tmp", "none"), Homes: at(r, "home", "home"), OtherHomes: at(r, "other")}
			},
			want: made + "--perms 0700 --tmpfs $T/home --perms 1777 --tmpfs $T/none --perms 1777 --tmpfs $T/tmp --bind $T/tmp/w $T/tmp/w" +
				" --ro-bind $T/bin/guest /run/berth-guest --remount-ro / --chdir / -- /run/berth-guest serve --walled",
		},
		{
			name: "what is asked for to be writable in the home directory is in it, what is hidden in it is hidden, all else is hidden anyway",
			tree: []string{"home/w/.env", "home/.ssh/id", "cache/", "bin/guest"},
			policy: func(r string) isolate.Policy {
				return isolate.Policy{
					EUID: ordinary, Workdir: r + "/home/w", WritableRoots: at(r, "cache"), Homes: at(r, "home"), Hidden: at(r, "home/.ssh", "home/w/.env", "bin"),
				}
			},
			want: made + "--bind $T/cache $T/cache --perms 0700 --tmpfs $T/home --bind $T/home/w $T/home/w --ro-bind /dev/null $T/home/w/.env" +
				" --ro-bind $T/bin/guest /run/berth-guest --remount-ro / --chdir / -- /run/berth-guest serve --walled",
		},
		{
			name: "a guest and what programs obey are protected in a writable root",
			tree: []string{"w/bin/guest", "w/.git/hooks/", "w/.git/config"},
			policy: func(r string) isolate.Policy {
				return isolate.Policy{EUID: ordinary, Workdir: r + "/w", Program: r + "/w/bin/guest"}
			},
			want: made + "--bind $T/w $T/w --bind $T/w/.git $T/w/.git --ro-bind $T/w/.git/config $T/w/.git/config --ro-bind $T/w/.git/hooks $T/w/.git/hooks" +
				" --bind $T/w/bin $T/w/bin --ro-bind $T/w/bin/guest $T/w/bin/guest --remount-ro / --chdir / -- $T/w/bin/guest serve --walled",
		},
		{
			name: "root's is nobody's, who can pass all that was made on the way",
			tree: []string{"far/w/", "bin/guest", "state/p/state/", "memory/"},
			policy: func(r string) isolate.Policy {
				return isolate.Policy{
					Attr: rootOwns(r, nil), Workdir: r + "/far/w", Homes: at(r, "home"), State: r + "/state", OptionalRoots: at(r, "state/p/state"),
				}
			},
			want: made + "--perms 1777 --tmpfs /dev/shm WAYS --dir $T/far --bind $T/far/w $T/far/w --perms 0700 --tmpfs $T/home --tmpfs $T/state --dir $T/state/p" +
				" --bind $T/state/p/state $T/state/p/state --ro-bind $T/bin/guest /run/berth-guest --remount-ro / --remount-ro $T/state" +
				" --chdir / -- /run/berth-guest serve --walled --drop 65534:65534 --own $T/home",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, tt.tree...)
			policy := tt.policy(root)
			policy.Etc = root + "/etc"
			if policy.Program == "" {
				policy.Program = root + "/bin/guest"
			}
			wall, err := isolate.Jail(policy, []string{"serve"})
			if err != nil {
				t.Fatal(err)
			}
			ways := "" // above the tree of this test
			for dir := root; dir != "/"; dir = filepath.Dir(dir) {
				ways = " --dir " + strings.Replace(dir, root, "$T", 1) + ways
			}
			want := strings.Replace(tt.want, " WAYS", ways, 1)
			system, got := jailed(t, wall, root)
			if diff := cmp.Diff(strings.Split(want, " "), strings.Split(got, " ")); diff != "" {
				t.Error(diff)
			}
			for _, never := range []string{"/", "/etc", "/etc/shadow", "/etc/ssl", "/etc/ssl/private", "/sys", "/home", "/root", "/opt", "/run", "/etc/resolv.conf"} {
				if strings.Contains(system, "bind "+never+" ") {
					t.Errorf("%q exists in it: %s", never, system)
				}
			}
		})
	}
}

// TestJailShowsTheSystem defends that the directories of this system are there as they are,
// links as links, and, where the network is open, how to resolve names.
func TestJailShowsTheSystem(t *testing.T) {
	root := tree(t, "w/", "guest")
	wall, err := isolate.Jail(isolate.Policy{EUID: ordinary, Workdir: root + "/w", Program: root + "/guest", Etc: root, Network: spec.NetworkOpen}, nil)
	if err != nil {
		t.Fatal(err)
	}
	system, _ := jailed(t, wall, root)
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		want := "--ro-bind " + dir + " " + dir
		if target, err := os.Readlink(dir); err == nil {
			want = "--symlink " + target + " " + dir
		}
		if _, err := os.Lstat(dir); (err == nil) != strings.Contains(system, want) {
			t.Errorf("%s: %v; want %q in %s", dir, err, want, system)
		}
	}
	for _, path := range []string{"/etc/resolv.conf", "/etc/hosts"} {
		if _, err := os.Stat(path); err == nil && !strings.Contains(system, "--ro-bind "+path+" "+path) {
			t.Errorf("%s is missing in %s", path, system)
		}
	}
}

// TestJailSaysWhatIsWritable defends that what a jail has of its own counts as writable.
func TestJailSaysWhatIsWritable(t *testing.T) {
	root := tree(t, "w/", "guest", "tmp/", "home/")
	wall, err := isolate.Jail(isolate.Policy{EUID: ordinary, Workdir: root + "/w", Program: root + "/guest", Etc: root, Temporary: at(root, "tmp"), Homes: at(root, "home")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(at(root, "w", "tmp", "home"), wall.Writable); diff != "" {
		t.Error(diff)
	}
}

// TestMakeEtc defends that a jail knows its user, root and nobody, and no name of this
// machine; a name that would forge an entry is not taken.
func TestMakeEtc(t *testing.T) {
	for name, tt := range map[string]struct {
		user          isolate.User
		passwd, group string
	}{
		"a user": {
			isolate.User{Identity: alice, Name: "alice", Home: "/home/alice", Shell: "/bin/bash"},
			"alice:x:1001:1002::/home/alice:/bin/bash\nroot:x:0:0:root:/nonexistent:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n",
			"alice:x:1002:\nroot:x:0:\nnogroup:x:65534:\n",
		},
		"nobody": {
			isolate.User{Identity: other, Name: "root", Home: "/root"},
			"nobody:x:65534:65534::/root:/bin/sh\nroot:x:0:0:root:/nonexistent:/bin/sh\n", "root:x:0:\nnogroup:x:65534:\n",
		},
		"root": {
			isolate.User{Name: "root", Home: "/root"},
			"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n", "root:x:0:\nnogroup:x:65534:\n",
		},
		"a forger": {
			isolate.User{Identity: alice, Name: "a:x:0:0", Home: "/h\nroot2:x:0:0::/:/bin/sh"},
			"user:x:1001:1002::/nonexistent:/bin/sh\nroot:x:0:0:root:/nonexistent:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n",
			"user:x:1002:\nroot:x:0:\nnogroup:x:65534:\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "etc")
			for range 2 { // a place that is started again has it already
				if err := isolate.MakeEtc(dir, tt.user); err != nil {
					t.Fatal(err)
				}
			}
			for file, want := range map[string]string{"passwd": tt.passwd, "group": tt.group} {
				if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
					t.Errorf("%s: %v\n%s", file, err, cmp.Diff(want, string(got)))
				}
			}
		})
	}
}

// TestPeople defends whose homes are emptied: people's, wherever they lie, and not the
// directories of the system's accounts.
func TestPeople(t *testing.T) {
	got := isolate.People([]byte("root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/usr/sbin:/bin/sh\npostgres:x:101:104::/var/lib/postgresql:/bin/sh\n" +
		"nobody:x:65534:65534::/nonexistent:/bin/sh\nann:x:1000:1000::/data/ann/:/bin/sh\nbad:x:y:1::/b:/bin/sh\n\nshort:x:1001\nrel:x:1002:1::rel:/bin/sh\n"))
	if want := []string{"/data/ann", "/home", "/root"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
