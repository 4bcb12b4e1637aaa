package idmap_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/idmap"
)

// argAttach makes this a program that asks for a mapping and says what it is told.
const argAttach = "attach"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == argAttach {
		_, err := over(&idmap.Mapper{}, []string{os.Args[2]}, "/bin/true")
		if !errors.Is(err, idmap.ErrUnable) {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root makes idmapped mounts")
	}
}

var nobody = idmap.Identity{UID: 65534, GID: 65534}

// onOwnThread calls fn on a thread that ends with it, and is not the first one.
func onOwnThread(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // another goroutine gets another thread
			onOwnThread(fn)
			runtime.UnlockOSThread()
			return
		}
		fn()
	}()
	<-done
}

// run runs a program that is id where the files of root in paths are id's. The thread is
// one for Attach.
func run(m *idmap.Mapper, id idmap.Identity, paths []string, argv ...string) (string, error) {
	if err := m.Attach(id, paths, []string{"/bin/true"}); err != nil {
		return "", err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id.UID), Gid: uint32(id.GID)}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// over runs a program as nobody.
func over(m *idmap.Mapper, paths []string, argv ...string) (out string, err error) {
	onOwnThread(func() { out, err = run(m, nobody, paths, argv...) })
	return out, err
}

// tree is a directory of root with a file of root, one of another user and one of nobody.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, above := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(above, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, uid := range map[string]int{"root": 0, "other": 1001, "nobody": 65534} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(name), 0o644), os.Chown(path, uid, uid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Join(dir, "root"), 0o600), os.Mkdir(filepath.Join(dir, "sub"), 0o700)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// mounts is what the first thread sees mounted, and every other one does.
func mounts(t *testing.T) string {
	t.Helper()
	first, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil || string(own) != string(first) {
		t.Fatalf("threads see different mounts, %v", err)
	}
	return string(first)
}

// TestOwner defends: what belongs to root on disk is the other user's inside and stays
// root's, what is made is root's on disk, the files of others stay theirs, and those of
// the user's real uid are nobody's; nothing else of root opens, and this program sees no
// mount of it, then or later.
func TestOwner(t *testing.T) {
	needRoot(t)
	dir, before := tree(t), mounts(t)
	script := `cd ` + dir + ` && cat root && echo changed >root && echo x >made && mkdir sub/below && chmod 700 made
		for f in other nobody /etc/shadow; do (echo x >>$f) 2>/dev/null && echo wrote $f; done
		(chown 0 made) 2>/dev/null && echo chowned
		cat /etc/shadow 2>/dev/null && echo read
		rm -f nobody 2>/dev/null; cat nobody other; exit 7`
	out, err := over(&idmap.Mapper{}, []string{dir}, "/bin/sh", "-c", script)
	var exit *exec.ExitError
	if out != "rootnobodyother" || !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("inside: %q, %v", out, err)
	}
	for name, want := range map[string]uint32{"root": 0, "made": 0, "sub/below": 0, "other": 1001, "nobody": 65534} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, name), &st); err != nil || st.Uid != want || st.Gid != want {
			t.Errorf("%s on disk: %d:%d, %v; want %d", name, st.Uid, st.Gid, err, want)
		}
	}
	if after := mounts(t); after != before {
		t.Errorf("the mounts of this machine were\n%s\nand are\n%s", before, after)
	}
}

// TestNested defends: a path within another one may be named too, and a mount below a
// path is mapped with it.
func TestNested(t *testing.T) {
	needRoot(t)
	dir, m := tree(t), &idmap.Mapper{}
	sub := filepath.Join(dir, "sub")
	for _, paths := range [][]string{{dir, sub}, {sub, dir}} {
		if out, err := over(m, paths, "/bin/touch", dir+"/made", sub+"/made"); err != nil {
			t.Errorf("%q: %v: %s", paths, err, out)
		}
	}
	onOwnThread(func() { // the mount below is nobody else's either
		err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", sub, "tmpfs", 0, "mode=700"))
		if err != nil {
			t.Error(err)
			return
		}
		if out, err := run(m, nobody, []string{dir}, "/bin/touch", sub+"/x"); err != nil {
			t.Errorf("a tmpfs below: %v: %s", err, out)
		}
	})
}

// TestAnswers defends: what this machine cannot do and what is wrong with a path are told
// apart, and nothing is left mounted by either.
func TestAnswers(t *testing.T) {
	needRoot(t)
	dir, before := tree(t), mounts(t)
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		paths  []string
		unable bool
	}{
		{"file system", []string{"/proc"}, true},
		{"the second path", []string{dir, "/proc"}, true},
		{"missing", []string{dir + "/missing"}, false},
		{"a link", []string{link}, false},
		{"through a link", []string{link + "/ssl"}, false},
		{"relative", []string{"."}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := over(&idmap.Mapper{}, tc.paths, "/bin/echo", "ran")
			if err == nil || out != "" || errors.Is(err, idmap.ErrUnable) != tc.unable {
				t.Errorf("%v: %q", err, out)
			}
		})
	}
	if after := mounts(t); after != before {
		t.Errorf("the mounts of this machine were\n%s\nand are\n%s", before, after)
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "exe"), exe, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "exe"), argAttach, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1001, Gid: 1001}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("an ordinary user is not refused: %v: %s", err, out)
	}
}

// TestManyIdentities defends: one Mapper serves several identities at the same time, each
// with its own mapping.
func TestManyIdentities(t *testing.T) {
	needRoot(t)
	dir, m := tree(t), &idmap.Mapper{}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			id := idmap.Identity{UID: 64000 + i%3, GID: 64000 + i%3}
			onOwnThread(func() {
				out, err := run(m, id, []string{dir}, "/bin/sh", "-c", `cat "$0/root" && stat -c %u "$0/root"`, dir)
				if err != nil || out != fmt.Sprintf("root%d\n", id.UID) {
					t.Errorf("%v: %v: %s", id, err, out)
				}
			})
		})
	}
	all.Wait()
}
