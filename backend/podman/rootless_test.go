//go:build linux

package podman_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/podman"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
)

// usersGuest is set, to a guest binary, in the process of the ordinary user in which the tests
// of rootless Podman run.
const usersGuest = "BERTH_TEST_USERS_GUEST"

// usersID is that user. Nobody has it on the machine.
const usersID = 17041

// usersScript is pid 1 of namespaces in which the user has an account, ids of its own and a
// service; $0 is its directory, what follows is run as the user. The end of pid 1 is that of
// all of them, and the account is on no disk of the machine. What opens a network for the user
// needs a device that is often root's alone.
const usersScript = `mount -t proc proc /proc && mount -t tmpfs tmpfs /run && /bin/busybox ip link set lo up || exit
[ ! -e /usr/bin/dpkg-query ] || mount --bind /bin/true /usr/bin/dpkg-query || exit
for file in passwd group subuid subgid; do mount --bind "$0/$file" "/etc/$file" || exit; done
mknod -m 666 "$0/tun" c 10 200 && mount --bind "$0/tun" /dev/net/tun || exit
mkdir -p "/run/user/%[1]d" && chown %[1]d:%[1]d "/run/user/%[1]d" || exit
cd "$0/home" || exit
user() { setpriv --reuid %[1]d --regid %[1]d --clear-groups env "$@"; }
user podman --storage-driver overlay --root "$0/home/root" --runroot "$0/home/runroot" system service --time=0 "unix://$0/home/podman.sock" >"$0/log" 2>&1 &
user "$@"`

// Podman of an ordinary user keeps every promise that it declares there, which are fewer: the
// tests run in a process of that user, whose service it is.
func TestRootless(t *testing.T) {
	if testing.Short() {
		t.Skip("a quick run leaves the second service to the full one")
	}
	if os.Getenv("BERTH_TEST_SKIP_PODMAN") == "1" {
		t.Skip("BERTH_TEST_SKIP_PODMAN is set")
	}
	if os.Getenv(usersGuest) != "" {
		t.Skip("this is the run of the user")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	for program, pkg := range map[string]string{"podman": "podman", "newuidmap": "uidmap", "slirp4netns": "slirp4netns", "runc": "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing: apt-get install %s", program, pkg)
		}
	}
	dir := usersDir(t)
	home := filepath.Join(dir, "home")
	program := filepath.Join(dir, "program")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf(usersScript, usersID), dir,
		program, "-test.run", "^TestOfUser", "-test.timeout", "15m", "-test.v")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + home, "USER=u", "TMPDIR=" + filepath.Join(home, "tmp"), fmt.Sprint("XDG_RUNTIME_DIR=/run/user/", usersID),
		"CONTAINERS_CONF=" + filepath.Join(dir, "containers.conf"), "BERTH_TEST_PODMAN_HOST=unix://" + filepath.Join(home, "podman.sock"),
		usersGuest + "=" + filepath.Join(dir, "guest"), "BERTH_TEST_SOAK=" + os.Getenv("BERTH_TEST_SOAK"), "GORACE=" + os.Getenv("GORACE"),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
	}
	runtime.LockOSThread() // the kernel's word of our death is that of this thread
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if err != nil || testing.Verbose() {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Logf("%s\nthe service: %s", out, log)
	}
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"TestOfUserConform", "TestOfUserStrict", "TestOfUserPublishes"} {
		if !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Errorf("%s has not passed", name)
		}
	}
}

// usersDir makes the directory of the user: what it owns is in home.
func usersDir(t *testing.T) string {
	t.Helper()
	// What a process of tests has left that was killed: nobody holds its lock any more.
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "berth-rootless-*"))
	for _, dir := range left {
		if lock, err := lockDir(dir); err == nil {
			_ = os.RemoveAll(dir)
			lock.Close()
		}
	}
	// Directories above one for tests are closed to others.
	dir, err := os.MkdirTemp("", "berth-rootless-")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer lock.Close()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	err = os.Chmod(dir, 0o755)
	for from, to := range map[string]string{"/proc/self/exe": "program", guestBinary(t): "guest"} {
		data, readErr := os.ReadFile(from)
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, to), data, 0o755))
	}
	accounts, readErr := os.ReadFile("/etc/passwd")
	err = errors.Join(err, readErr)
	groups, readErr := os.ReadFile("/etc/group")
	err = errors.Join(err, readErr)
	home := filepath.Join(dir, "home")
	for name, text := range map[string]string{
		"passwd": fmt.Sprintf("%su:x:%d:%[2]d::%s:/bin/sh\n", accounts, usersID, home),
		"group":  fmt.Sprintf("%su:x:%d:\n", groups, usersID),
		"subuid": "u:200000:65536\n", "subgid": "u:200000:65536\n",
		"containers.conf": usersConfig,
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for _, own := range []string{home, filepath.Join(home, "tmp")} {
		err = errors.Join(err, os.Mkdir(own, 0o700), os.Chown(own, usersID, usersID))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// usersConfig is for machines on which there is no more than control groups of both versions
// side by side, and limits that cannot be raised.
const usersConfig = `[containers]
default_ulimits = ["nofile=16384:16384", "nproc=32768:32768"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
`

// usersEngine is the service of the user in whose process this is.
func usersEngine(t *testing.T) (*dockertest.Engine, podman.Options) {
	t.Helper()
	bin := os.Getenv(usersGuest)
	if bin == "" {
		t.Skip("TestRootless runs it")
	}
	engine := dockertest.Podman()
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	return engine, podman.Options{
		Owner: "t-user", Host: engine.Host(t), Guest: guest.BinaryOptions{Path: bin}, StateDir: t.TempDir(),
		Limits:      &spec.Limits{}, // nothing is limited without root here
		OrphanAfter: 5 * time.Second, ResumeWindow: 5 * time.Second,
	}
}

// The contract holds as far as it is declared, in what may differ where the engine is not
// root's; in the soak all of it.
func TestOfUserConform(t *testing.T) {
	engine, o := usersEngine(t)
	soak := os.Getenv("BERTH_TEST_SOAK") != ""
	only := dockertest.OfTheImage
	if soak {
		only = nil
	}
	drivertest.Run(t, drivertest.Options{
		Open: func() (driver.Driver, error) { return podman.New(o) },
		Spec: spec.Spec{Image: engine.Image(t, dockertest.Image{Kind: dockertest.Busybox})},

		OrphanAfter: o.OrphanAfter, ResumeWindow: o.ResumeWindow,
		Only: only, Brief: true,
	})
}

// A place of an ordinary user has a network that is open, and a port of it is reached on the
// machine.
func TestOfUserPublishes(t *testing.T) {
	engine, o := usersEngine(t)
	d, err := podman.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sb, err := berth.Provision(ctx, d, spec.Spec{
		Image: engine.Image(t, dockertest.Image{Kind: dockertest.Busybox}), Network: spec.NetworkOpen, Ports: []spec.PublishedPort{{Container: 8080}},
	})
	if err != nil {
		t.Fatalf("%v (hint: %s)", err, spec.HintOf(err))
	}
	defer func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Errorf("destroy: %v", err)
		}
	}()
	if _, err := sb.Exec(ctx, berth.Shell("nc -ll -p 8080 -e echo 'from inside' >/dev/null 2>&1 &"), berth.ExecOptions{}); err != nil {
		t.Fatal(err)
	}
	addr, err := sb.MappedPort(ctx, 8080)
	if err != nil {
		t.Fatal(err)
	}
	for text := ""; text != "from inside\n"; time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("the published port %s says %q", addr, text)
		}
		conn, err := net.DialTimeout("tcp", addr.String(), time.Second)
		if err != nil {
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		said, _ := io.ReadAll(conn)
		text = string(said)
		conn.Close()
	}
}
