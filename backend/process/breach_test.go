//go:build linux

package process_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// sharedArg makes the test binary a program on a machine whose mounts are shared.
const sharedArg = "berth-shared-reexec"

// withHome sets the home directory of a driver's user.
func withHome(o process.Options, home string) process.Options {
	o.BaseEnv = append(slices.DeleteFunc(testEnv(), func(e string) bool { return strings.HasPrefix(e, "HOME=") }), "HOME="+home)
	return o
}

// reap ends the place under key.
func reap(t *testing.T, d driver.Driver, key spec.Key) {
	t.Helper()
	if err := d.Reap(within(t), key, reapOptions); err != nil {
		t.Fatal(err)
	}
}

// TestGuardKernelSettings defends: nothing in /proc can be written but what belongs to the
// processes inside, and the monitors of pressure, whose lines are the writer's own; by root
// neither.
func TestGuardKernelSettings(t *testing.T) {
	needBwrap(t)
	s := provision(t, open(t, options(t)), spec.Spec{})
	const value = "/proc/sys/vm/overcommit_memory" // to which only what is there already is written
	refused(t, s, "v=$(cat "+value+") && echo $v >"+value)
	refused(t, s, "umount /proc/sys")
	found := must(t, s, `find /proc -path '/proc/[0-9]*' -prune -o -path /proc/pressure -prune -o ! -type l -writable -print 2>/dev/null; echo end`)
	if found != "end" {
		t.Errorf("writable: %s", found)
	}
	must(t, s, "echo 0 >/proc/self/oom_score_adj") // what a process may say of itself it may
}

// TestGuardForgedWorktree defends: what a sandbox writes into its workdir does not make
// anything else writable in the next one, nor does the host wait for it or swallow it.
func TestGuardForgedWorktree(t *testing.T) {
	needBwrap(t)
	for name, script := range map[string]string{
		"an ancestor": `mkdir evil && echo "gitdir: $PWD/evil" >.git && echo "$UP" >evil/commondir && echo "$PWD/.git" >evil/gitdir`,
		"a repository of its own": `mkdir -p evil/worktrees/w evil/objects evil/refs && touch evil/HEAD && ln -s "$UP" evil/logs &&
			echo "gitdir: $PWD/evil/worktrees/w" >.git && echo ../.. >evil/worktrees/w/commondir && echo "$PWD/.git" >evil/worktrees/w/gitdir`,
		"a pipe":         `mkfifo .git`,
		"an endless one": `ln -s /dev/zero .git`,
	} {
		t.Run(name, func(t *testing.T) {
			base := far(t)
			work, o := filepath.Join(base, "worktrees", "w"), options(t)
			write(t, "x", work, "x")
			for _, do := range []string{script, `! echo x >"$UP/outside"`} {
				s := provision(t, open(t, o), spec.Spec{Workdir: work, Env: map[string]string{"UP": base}})
				must(t, s, do)
			}
		})
	}
}

// TestGuardMoves defends: what hides a path, or makes it writable, in one sandbox does so
// in the next, whatever the first one did.
func TestGuardMoves(t *testing.T) {
	needBwrap(t)
	base := far(t)
	home, victim := filepath.Join(base, "home"), filepath.Join(base, "victim")
	write(t, "secret", home, ".config", "gcloud", "c")
	write(t, "secret", home, "conf", "deep", ".env")
	write(t, "x", home, "out", "x")
	write(t, "x", victim, "x")
	d := open(t, withHome(options(t), home))
	want := spec.Spec{
		Workdir: home, WritableRoots: []string{filepath.Join(home, "out")}, HiddenPaths: []string{filepath.Join(home, "conf", "deep", ".env")},
		Env: map[string]string{"VICTIM": victim},
	}
	s := provision(t, d, want)
	for _, script := range []string{
		"mv .config .c2", "mv conf c2", "mv conf/deep conf/d2", "rm -rf .config 2>/dev/null; test ! -e .config",
		`mv out o2`, `rm -rf out; ln -s "$VICTIM" out && test -L out`,
	} {
		refused(t, s, script)
	}
	next := provision(t, d, want)
	if got := must(t, next, `grep -rl secret . 2>/dev/null; echo end`); got != "end" {
		t.Errorf("found in the next one: %s", got)
	}
	refused(t, next, `echo x >"$VICTIM/new"`)

	// A link that is there already is refused, not believed.
	if err := os.Symlink(victim, filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("conf/deep", filepath.Join(home, "keys")); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]spec.Spec{
		"root":    {Workdir: home, WritableRoots: []string{filepath.Join(home, "link")}},
		"workdir": {WritableRoots: []string{home}, Workdir: filepath.Join(home, "link")},
		"hidden":  {Workdir: home, HiddenPaths: []string{filepath.Join(home, "keys")}},
	} {
		if _, err := d.Provision(within(t), &s, driver.ProvisionOptions{}); spec.CodeOf(err) != spec.CodeInvalid || spec.HintOf(err) == "" {
			t.Errorf("%s: %v (hint %q), want invalid and a hint", name, err, spec.HintOf(err))
		}
	}
}

// TestGuardObeys defends: where the home directory is writable, what a later run of ours
// believes is not: the configuration, and the guest binaries in the cache.
func TestGuardObeys(t *testing.T) {
	needBwrap(t)
	for _, there := range []bool{false, true} {
		home := far(t)
		t.Setenv("HOME", home)
		t.Setenv("XDG_CONFIG_HOME", "")
		t.Setenv("XDG_CACHE_HOME", "")
		if there {
			write(t, "", home, ".config", "berth", "config.toml")
			write(t, "", home, ".cache", "berth", "guest", "x", "record.json")
		}
		s := provision(t, open(t, withHome(options(t), home)), spec.Spec{Workdir: home})
		for _, script := range []string{
			"mkdir -p .config/berth && echo x >.config/berth/config.toml", "mv .config/berth .config/b2", "mv .config c2", "rm -rf .config/berth 2>/dev/null; test ! -e .config/berth",
			"mkdir -p .cache/berth/guest/y", "mv .cache/berth .cache/b2", "mv .cache c2", "mkdir -p .cache/berth && echo x >.cache/berth/x",
		} {
			refused(t, s, script)
		}
		must(t, s, "echo x >.config/other && echo x >.cache/other")
	}
	project := far(t)
	home := filepath.Join(project, "home")
	t.Setenv("HOME", home)
	write(t, "x", project, "work", "x")
	provision(t, open(t, withHome(options(t), home)), spec.Spec{Workdir: filepath.Join(project, "work")})
	if _, err := os.Lstat(home); err == nil {
		t.Error("something was made in a home directory that no command can write")
	}
}

// TestGuardPlantedWrapper defends: the host does not run a bubblewrap that a sandbox can
// have written, however it would find it.
func TestGuardPlantedWrapper(t *testing.T) {
	needBwrap(t)
	work := far(t)
	planted := write(t, "#!/bin/sh\ntouch "+work+"/ran\nexec /usr/bin/bwrap \"$@\"\n", work, "bin", "bwrap")
	if err := os.Chmod(planted, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(planted)+":"+os.Getenv("PATH"))
	o := options(t)
	provision(t, open(t, o), spec.Spec{Workdir: work})
	o.Bwrap = planted
	_, err := open(t, o).Provision(within(t), &spec.Spec{Workdir: work}, driver.ProvisionOptions{})
	wantCode(t, err, spec.CodeUnsupported)
	if _, err := os.Lstat(filepath.Join(work, "ran")); err == nil {
		t.Error("it ran")
	}
}

// TestGuardHole defends: when a program outside replaces what is hidden or protected - and
// the kernel takes the mount away that covered it - the place is not used any more, by
// nobody and in no way; a new one hides what is there.
func TestGuardHole(t *testing.T) {
	needUser(t)
	needBwrap(t)
	for name, tt := range map[string]struct {
		replace func(t *testing.T, home string)
		want    spec.Code
	}{
		"a file is renamed over": {func(t *testing.T, home string) {
			move(t, write(t, "secret", home, "new"), filepath.Join(home, ".netrc"))
		}, spec.CodeUnsupported},
		"a directory is moved away and made again": {func(t *testing.T, home string) {
			move(t, filepath.Join(home, ".aws"), filepath.Join(home, ".aws.old"))
			write(t, "secret", home, ".aws", "credentials")
		}, spec.CodeUnsupported},
		"its parent is moved away and made again": {func(t *testing.T, home string) {
			move(t, filepath.Join(home, ".config"), filepath.Join(home, ".c.old"))
			write(t, "secret", home, ".config", "gcloud", "c")
		}, spec.CodeUnsupported},
		"a file is removed": {func(t *testing.T, home string) {
			if err := os.Remove(filepath.Join(home, ".netrc")); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"a file is written": {func(t *testing.T, home string) { write(t, "secret", home, ".netrc") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			base := far(t)
			home := filepath.Join(base, "home")
			for _, path := range []string{".netrc", ".aws/credentials", ".config/gcloud/c"} {
				write(t, "secret", home, path)
			}
			write(t, "x", base, "work dir", "x") // the kernel escapes the blank
			d := open(t, withHome(options(t), home))
			want := spec.Spec{Key: "k", Workdir: filepath.Join(base, "work dir"), HiddenPaths: []string{write(t, "secret", base, "work dir", "a b")}}
			first := provision(t, d, want)
			tt.replace(t, home)
			_, err := d.Attach(within(t), "k", driver.AttachOptions{})
			if spec.CodeOf(err) != tt.want || tt.want != "" && spec.HintOf(err) == "" {
				t.Errorf("attach: %v (hint %q), want %q", err, spec.HintOf(err), tt.want)
			}
			if _, err = d.Provision(within(t), &want, driver.ProvisionOptions{}); spec.CodeOf(err) != tt.want {
				t.Errorf("provision: %v, want %q", err, tt.want)
			}
			if err := first.Close(within(t)); err != nil {
				t.Error(err)
			}
			reap(t, d, "k")
			if got := must(t, provision(t, d, want), `grep -rl secret "`+home+`"/.[a-b]* "`+home+`"/.config "`+home+`"/.netrc 2>/dev/null | grep -v old; echo end`); got != "end" {
				t.Errorf("a new one shows %s", got)
			}
		})
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestGuardSockets defends: a socket that the environment names is out of reach, also in a
// directory that is writable, and programs have directories for theirs all the same.
func TestGuardSockets(t *testing.T) {
	needBwrap(t)
	dir, err := os.MkdirTemp("/tmp", "berth-agent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	sock := filepath.Join(dir, "agent.1")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("SSH_AUTH_SOCK", sock)
	s := provision(t, open(t, options(t)), spec.Spec{Env: map[string]string{"SOCK": sock, "DIR": dir}})
	for _, script := range []string{`test -S "$SOCK"`, `mv "$DIR" "$DIR.2"`, `rm -f "$SOCK"`} {
		refused(t, s, script)
	}
}

// shared provisions a place on a machine whose mounts are shared, mounts a file system, and
// says what a command of the place sees of it.
func shared(args []string) int {
	state, work, mnt := args[0], args[1], args[2]
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		fmt.Println(err)
		return 1
	}
	d, err := process.New(process.Options{Owner: "test", StateDir: state, BaseEnv: testEnv()})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx := context.Background()
	s, err := d.Provision(ctx, &spec.Spec{Workdir: work, Env: map[string]string{"MNT": mnt}}, driver.ProvisionOptions{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.Close(ctx)
	if err := unix.Mount("none", mnt, "tmpfs", 0, "mode=777"); err != nil {
		fmt.Println(err)
		return 1
	}
	p, err := s.Start(ctx, &spec.Command{Args: spec.Shell(`echo x >"$MNT/f" && echo written; grep -c " $MNT " /proc/self/mountinfo`), MergeOutput: true}, driver.Stdio{Stdout: os.Stdout})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if _, err = p.Wait(ctx); err != nil {
		fmt.Println(err)
	}
	return 0
}

// TestGuardLaterMounts defends: what is mounted on this machine after the start of a place
// does not appear in it, also where mounts are shared.
func TestGuardLaterMounts(t *testing.T) {
	needBwrap(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	base := far(t)
	write(t, "x", base, "work", "x")
	if err := os.Mkdir(filepath.Join(base, "mnt"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(mustExecutable(t), sharedArg, filepath.Join(base, "state"), filepath.Join(base, "work"), filepath.Join(base, "mnt"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // in which this machine's are safe
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "\n0") || strings.Contains(string(out), "written") {
		t.Errorf("%v: %s", err, out)
	}
	eventually(t, "the place is gone", func() error {
		if names, _ := filepath.Glob(filepath.Join(base, "state", "process", "sb_*", "sock")); len(names) > 0 {
			d := open(t, process.Options{Owner: "test", StateDir: filepath.Join(base, "state")})
			owned, err := d.Owned(within(t))
			for _, o := range owned {
				if err := d.Reap(within(t), o.Key, reapOptions); err != nil {
					return err
				}
			}
			return err
		}
		return nil
	})
}
