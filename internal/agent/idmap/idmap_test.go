//go:build linux

package idmap_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/idmap"
)

// The statuses with which this program ends as the verb.
const (
	exitUsage  = 2
	exitUnable = 3
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == idmap.Verb {
		err := idmap.Main(os.Args[2:], nil)
		fmt.Fprintln(os.Stderr, err)
		switch {
		case errors.Is(err, idmap.ErrUnable):
			os.Exit(exitUnable)
		case errors.Is(err, idmap.ErrUsage):
			os.Exit(exitUsage)
		case err != nil:
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

// mount runs the verb and returns what it printed and its exit status.
func mount(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{idmap.Verb}, args...)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// asNobody is a program that runs script as the user to whom root's files are shown.
func asNobody(script string) []string {
	return []string{"--", "/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/bin/sh", "-c", script}
}

const nobody = "65534:65534"

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

func mounts(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestOwner defends: what belongs to root on disk is the other user's inside and stays
// root's, what is made is root's on disk, the files of others stay theirs, and those of
// the user's real uid are nobody's; nothing else of root opens, and no mount is left.
func TestOwner(t *testing.T) {
	needRoot(t)
	dir, before := tree(t), mounts(t)
	script := `cd ` + dir + ` && cat root && echo changed >root && echo x >made && mkdir sub/below && chmod 700 made
		for f in other nobody /etc/shadow; do (echo x >>$f) 2>/dev/null && echo wrote $f; done
		(chown 0 made) 2>/dev/null && echo chowned
		cat /etc/shadow 2>/dev/null && echo read
		rm -f nobody 2>/dev/null; cat nobody other; exit 7`
	out, code := mount(t, append([]string{"--map", nobody, "--path", dir}, asNobody(script)...)...)
	if out != "rootnobodyother" || code != 7 {
		t.Errorf("inside: %q, status %d", out, code)
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
	dir := tree(t)
	for _, paths := range [][]string{{dir, filepath.Join(dir, "sub")}, {filepath.Join(dir, "sub"), dir}} {
		args := []string{"--map", nobody}
		for _, path := range paths {
			args = append(args, "--path", path)
		}
		if out, code := mount(t, append(args, asNobody("touch "+dir+"/made "+dir+"/sub/made")...)...); code != 0 {
			t.Errorf("%q: %s", paths, out)
		}
	}
	// The mount below lives in a namespace of its own, with the verb.
	cmd := exec.Command("/bin/sh", "-c", `mount -t tmpfs -o mode=700 none "$1/sub" && exec "$0" mount --map 65534:65534 --path "$1" -- /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups /bin/touch "$1/sub/x"`, self(t), dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a tmpfs below: %v: %s", err, out)
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAnswers defends: what this machine cannot do, what is wrong with a path and what
// makes no sense are told apart, and the program does not run in any of them.
func TestAnswers(t *testing.T) {
	needRoot(t)
	dir := tree(t)
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	program := asNobody("echo ran")
	for _, tc := range []struct {
		name string
		args []string
		want int
	}{
		{"file system", append([]string{"--map", nobody, "--path", "/proc"}, program...), exitUnable},
		{"the second path", append([]string{"--map", nobody, "--path", dir, "--path", "/proc"}, program...), exitUnable},
		{"missing", append([]string{"--map", nobody, "--path", dir + "/missing"}, program...), 1},
		{"a link", append([]string{"--map", nobody, "--path", link}, program...), 1},
		{"through a link", append([]string{"--map", nobody, "--path", link + "/ssl"}, program...), 1},
		{"no program", []string{"--map", nobody, "--path", dir}, exitUsage},
		{"no path", append([]string{"--map", nobody}, program...), exitUsage},
		{"no map", append([]string{"--path", dir}, program...), exitUsage},
		{"root", append([]string{"--map", "0:0", "--path", dir}, program...), exitUsage},
		{"relative", append([]string{"--map", nobody, "--path", "."}, program...), exitUsage},
		{"probe with a program", append([]string{"--probe", "--map", nobody, "--path", dir}, program...), exitUsage},
		{"probe", []string{"--probe", "--map", nobody, "--path", dir}, 0},
		{"probe of what cannot be", []string{"--probe", "--map", nobody, "--path", "/proc"}, exitUnable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if out, code := mount(t, tc.args...); code != tc.want || strings.Contains(out, "ran") {
				t.Errorf("status %d, want %d: %s", code, tc.want, out)
			}
		})
	}
	exe, err := os.ReadFile(self(t))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "exe"), exe, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "exe"), idmap.Verb, "--map", nobody, "--path", dir, "--", "/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1001, Gid: 1001}}
	if out, err := cmd.CombinedOutput(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exitUnable {
		t.Errorf("an ordinary user: %v: %s", err, out)
	}
}

// TestBecomes defends: the program runs in the same process, under the name that the verb
// was given, with the descriptors that the verb was given and no other.
func TestBecomes(t *testing.T) {
	needRoot(t)
	dir := tree(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	say := func(verb ...string) (string, int) {
		cmd := exec.Command(self(t), verb...)
		cmd.Args[0] = "a name"
		if len(verb) == 0 {
			cmd.Path = "/bin/sh"
		}
		cmd.Args = append(cmd.Args, "-c", "ls -m /proc/$$/fd; tr '\\0' ' ' </proc/$$/cmdline; echo $$")
		cmd.ExtraFiles = []*os.File{in, out}
		said, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(said), cmd.Process.Pid
	}
	want, pid := say() // a test may have inherited descriptors of its own
	got, verbPID := say(idmap.Verb, "--map", nobody, "--path", dir, "--", "/bin/sh")
	if want = strings.ReplaceAll(want, fmt.Sprint(pid), fmt.Sprint(verbPID)); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
