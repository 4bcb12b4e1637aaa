package isolate_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/isolate"
)

// asRoot is how a wall begins whose program becomes another user.
const asRoot = "--unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --unshare-net --cap-drop ALL" +
	" --cap-add CAP_SETUID --cap-add CAP_SETGID --cap-add CAP_SETPCAP --cap-add CAP_CHOWN --cap-add CAP_DAC_OVERRIDE --new-session --as-pid-1 " + mounts + " --perms 1777 --tmpfs /dev/shm"

// rootOwns says that everything belongs to root and can be passed by all, but for what
// differs below root.
func rootOwns(root string, other map[string]attr) func(string) (isolate.Identity, fs.FileMode, error) {
	return func(path string) (isolate.Identity, fs.FileMode, error) {
		if a, ok := other[strings.TrimPrefix(path, root+"/")]; ok && path != root {
			return a.owner, a.mode, nil
		}
		return isolate.Identity{}, 0o755, nil
	}
}

type attr struct {
	owner isolate.Identity
	mode  fs.FileMode
}

var (
	alice = isolate.Identity{UID: 1001, GID: 1002}
	other = isolate.Identity{UID: 65534, GID: 65534}
)

// TestWhoRunsIt defends who the program of a wall becomes, what it can then write and
// reach, and what it is told: for every combination of who asks and whose the workdir is.
func TestWhoRunsIt(t *testing.T) {
	tests := []struct {
		name   string
		tree   []string
		attrs  map[string]attr
		policy func(root string) isolate.Policy
		want   string // without what a program that becomes nobody else is told
		drop   *isolate.Identity
		mapped []string
	}{
		{
			name: "an ordinary user stays who it is",
			tree: []string{"w/", "bin/guest", "home/", "tmp/"},
			policy: func(r string) isolate.Policy {
				return isolate.Policy{EUID: 1001, Owner: alice, Workdir: r + "/w", Homes: at(r, "home"), Temporary: at(r, "tmp")}
			},
			want: closed + " " + mounts + " --bind $T/tmp $T/tmp --bind $T/w $T/w --chdir / -- $T/bin/guest serve --walled",
		},
		{
			name:  "root on a user's workdir becomes that user, and only what is the place's own is mapped",
			tree:  []string{"w/", "bin/guest", "home/.ssh/id", "tmp/", "state/p/state/"},
			attrs: map[string]attr{"w": {alice, 0o700}, "tmp": {isolate.Identity{}, 0o777 | fs.ModeSticky}, "state": {isolate.Identity{}, 0o700}},
			policy: func(r string) isolate.Policy {
				return isolate.Policy{
					Owner: alice, Workdir: r + "/w", Homes: at(r, "home"), Temporary: at(r, "tmp"), State: r + "/state", OptionalRoots: at(r, "state/p/state"),
					Hidden: at(r, "home/.ssh"),
				}
			},
			want: asRoot + " --perms 0700 --tmpfs $T/home --tmpfs $T/state --dir $T/state/p --bind $T/state/p/state $T/state/p/state --bind $T/tmp $T/tmp --bind $T/w $T/w" +
				" --remount-ro $T/state --chdir / -- $T/bin/guest serve --walled --drop 1001:1002 --own $T/home",
			drop: &alice, mapped: []string{"state/p/state"},
		},
		{
			name:  "root on root's workdir becomes nobody, to whom it belongs",
			tree:  []string{"w/", "w/cache/", "bin/guest", "home/", "tmp/"},
			attrs: map[string]attr{"w": {isolate.Identity{}, 0o700}, "tmp": {isolate.Identity{}, 0o777 | fs.ModeSticky}},
			policy: func(r string) isolate.Policy {
				return isolate.Policy{Workdir: r + "/w", WritableRoots: at(r, "w/cache"), Homes: at(r, "home"), Temporary: at(r, "tmp")}
			},
			want: asRoot + " --perms 0700 --tmpfs $T/home --bind $T/tmp $T/tmp --bind $T/w $T/w --bind $T/w/cache $T/w/cache" +
				" --chdir / -- $T/bin/guest serve --walled --drop 65534:65534 --own $T/home",
			drop: &other, mapped: []string{"w"},
		},
		{
			name: "in a closed home, workdir and guest can be reached, and nothing else is there",
			tree: []string{"home/work/", "home/.cache/guest", "home/.ssh/id"},
			attrs: map[string]attr{
				"home": {isolate.Identity{}, 0o700},
			},
			policy: func(r string) isolate.Policy {
				return isolate.Policy{Workdir: r + "/home/work", Homes: at(r, "home"), Program: r + "/home/.cache/guest"}
			},
			want: asRoot + " --perms 0700 --tmpfs $T/home --bind $T/home/work $T/home/work --ro-bind $T/home/.cache/guest /run/berth-guest" +
				" --chdir / -- /run/berth-guest serve --walled --drop 65534:65534 --own $T/home",
			drop: &other, mapped: []string{"home/work"},
		},
		{
			name:  "a directory that nobody else can pass is empty, but for the workdir in it",
			tree:  []string{"tmp/closed/in/w/", "tmp/closed/secret", "bin/guest"},
			attrs: map[string]attr{"tmp/closed": {isolate.Identity{}, 0o700}, "tmp": {isolate.Identity{}, 0o777 | fs.ModeSticky}},
			policy: func(r string) isolate.Policy {
				return isolate.Policy{Workdir: r + "/tmp/closed/in/w", Temporary: at(r, "tmp")}
			},
			want: asRoot + " --bind $T/tmp $T/tmp --tmpfs $T/tmp/closed --dir $T/tmp/closed/in --bind $T/tmp/closed/in/w $T/tmp/closed/in/w --remount-ro $T/tmp/closed" +
				" --chdir / -- $T/bin/guest serve --walled --drop 65534:65534",
			drop: &other, mapped: []string{"tmp/closed/in/w"},
		},
		{
			name:  "a guest that only root can run is mapped too, and shown where it can be reached",
			tree:  []string{"w/", "closed/guest"},
			attrs: map[string]attr{"w": {alice, 0o755}, "closed": {isolate.Identity{}, 0o700}, "closed/guest": {isolate.Identity{}, 0o700}},
			policy: func(r string) isolate.Policy {
				return isolate.Policy{Owner: isolate.Identity{UID: 1001}, Workdir: r + "/w", Program: r + "/closed/guest"}
			},
			want: asRoot + " --bind $T/w $T/w --ro-bind $T/closed/guest /run/berth-guest --chdir / -- /run/berth-guest serve --walled --drop 1001:65534",
			drop: &isolate.Identity{UID: 1001, GID: 65534}, mapped: []string{"closed/guest"},
		},
		{
			name: "root stays root where it must, with what it had to hide",
			tree: []string{"w/", "bin/guest", "home/.ssh/id"},
			policy: func(r string) isolate.Policy {
				return isolate.Policy{KeepRoot: true, Workdir: r + "/w", Homes: at(r, "home"), Hidden: at(r, "home/.ssh")}
			},
			want: closed + " " + mounts + " --tmpfs $T/home/.ssh --remount-ro $T/home/.ssh --bind $T/w $T/w --chdir / -- $T/bin/guest serve --walled",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, tt.tree...)
			policy := tt.policy(root)
			policy.Attr = rootOwns(root, tt.attrs)
			if policy.Program == "" {
				policy.Program = root + "/bin/guest"
			}
			wall, err := isolate.Guard(policy, []string{"serve"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(tt.want, " "), strings.Split(arguments(wall, root), " ")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.drop, wall.Drop); diff != "" {
				t.Errorf("becomes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(at(root, tt.mapped...), wall.Idmapped); diff != "" {
				t.Errorf("idmapped (-want +got):\n%s", diff)
			}
		})
	}
}
