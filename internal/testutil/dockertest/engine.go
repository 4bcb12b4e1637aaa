//go:build linux

package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

const (
	dirPrefix    = "berth-dockerd-"
	newDirPrefix = "berth-new-dockerd-"
	// startLimit bounds a cold start on a busy machine; 2 s is usual.
	startLimit = 90 * time.Second
	// stopLimit bounds a clean stop; containers have been removed before.
	stopLimit = 20 * time.Second
)

// Engine is a Docker engine for the tests of one process. The zero value is ready:
// nothing starts before Host, Client or Image is called. Safe for concurrent use.
type Engine struct {
	mu     sync.Mutex
	host   string
	err    error
	daemon *daemon // nil where the engine is not ours
	api    *client.Client
	images map[string]bool
}

// Host returns the address of a running engine, starting it if need be. Where
// there can be none it fails or, if BERTH_TEST_SKIP_DOCKER is set, skips the test.
func (e *Engine) Host(t testing.TB) string {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if os.Getenv("BERTH_TEST_SKIP_DOCKER") == "1" {
		t.Skip("BERTH_TEST_SKIP_DOCKER is set")
	}
	if e.host == "" && e.err == nil {
		e.err = e.start()
	}
	if e.err != nil {
		t.Fatalf("docker engine for tests: %v", e.err)
	}
	return e.host
}

// Client returns an API client of the engine, for looking at what a test left.
func (e *Engine) Client(t testing.TB) *client.Client {
	t.Helper()
	e.Host(t)
	return e.api
}

// Close ends the engine if it is ours, with everything in it. It is idempotent.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.daemon == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	removeContainers(ctx, e.api)
	err := e.daemon.stop()
	e.daemon, e.host, e.err = nil, "", errors.New("the engine is closed")
	return err
}

func (e *Engine) start() error {
	host := os.Getenv("BERTH_TEST_DOCKER_HOST")
	if host == "" {
		if err := prerequisites(); err != nil {
			return err
		}
		d, err := startDaemon()
		if err != nil {
			return err
		}
		e.daemon, host = d, d.host()
	}
	api, err := client.New(client.WithHost(host))
	if err != nil {
		return err
	}
	e.api = api
	if err := e.waitReady(); err != nil {
		if e.daemon != nil {
			err = errors.Join(err, e.daemon.stop())
			e.daemon = nil
		}
		return err
	}
	e.host, e.images = host, map[string]bool{}
	return nil
}

func (e *Engine) waitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		_, err := e.api.Ping(ctx, client.PingOptions{})
		if err == nil {
			return nil
		}
		var exited <-chan struct{}
		if e.daemon != nil {
			exited = e.daemon.exited
		}
		select {
		case <-exited:
			return fmt.Errorf("dockerd ended at its start:\n%s", e.daemon.logTail())
		case <-ctx.Done():
			return fmt.Errorf("the engine did not answer in %v: %w", startLimit, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// removeContainers makes the daemon's stop quick: it need not ask anything to end.
func removeContainers(ctx context.Context, api *client.Client) {
	list, err := api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return
	}
	for _, c := range list.Items {
		_, _ = api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	}
}

func prerequisites() error {
	var missing []string
	for program, pkg := range map[string]string{"dockerd": "docker.io", "runc": "runc", "containerd": "containerd"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	if _, err := os.Stat(busyboxPath); err != nil {
		missing = append(missing, "busybox-static")
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing Debian packages: apt-get install -y --no-install-recommends %s (or set BERTH_TEST_DOCKER_HOST, or BERTH_TEST_SKIP_DOCKER=1)", strings.Join(missing, " "))
	}
	if os.Geteuid() != 0 {
		return errors.New("a private dockerd needs root (or set BERTH_TEST_DOCKER_HOST, or BERTH_TEST_SKIP_DOCKER=1)")
	}
	return nil
}

// daemon is a dockerd that this process started.
type daemon struct {
	dir    string
	lock   *os.File // held while this process lives: a sweeper leaves dir alone
	bridge string
	pid    int
	exited chan struct{} // closed once dockerd is waited for
}

func startDaemon() (_ *daemon, err error) {
	sweep()
	// Locked under a name that no sweeper looks at, then renamed.
	fresh, err := os.MkdirTemp("", newDirPrefix)
	if err != nil {
		return nil, err
	}
	suffix := strings.TrimPrefix(filepath.Base(fresh), newDirPrefix)
	dir := filepath.Join(os.TempDir(), dirPrefix+suffix)
	d := &daemon{dir: fresh, exited: make(chan struct{})}
	defer func() {
		if err != nil {
			_ = d.cleanUp()
		}
	}()
	if d.lock, err = lockDir(fresh); err != nil {
		return nil, err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return nil, err
	}
	d.dir = dir
	// Fifteen bytes are the most that an interface name may have.
	bridge := "bth" + suffix[max(0, len(suffix)-12):]
	if err := addBridge(bridge); err != nil {
		return nil, fmt.Errorf("bridge %s: %w", bridge, err)
	}
	d.bridge = bridge
	if err := os.WriteFile(filepath.Join(dir, "bridge"), []byte(bridge), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command("dockerd",
		"--host", d.host(), "--pidfile", filepath.Join(dir, "pid"),
		"--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
		"--config-file", filepath.Join(dir, "daemon.json"),
		"--bridge", bridge, "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
		"--userland-proxy=false", "--shutdown-timeout", "2",
		"--containerd-namespace", filepath.Base(dir), "--containerd-plugins-namespace", filepath.Base(dir)+"-plugins")
	cmd.Stdout, cmd.Stderr = log, log
	if err := os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{}\n"), 0o600); err != nil {
		return nil, err
	}
	// Its own process group: an interrupt at the terminal is for the tests,
	// which then close the engine. Killed tests cannot: the kernel tells it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := d.run(cmd); err != nil {
		return nil, err
	}
	return d, nil
}

// run starts cmd from a thread that lives as long as the child: Pdeathsig fires
// when the thread ends that forked, not only when the process does.
func (d *daemon) run(cmd *exec.Cmd) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		if err == nil {
			d.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(d.exited)
		}
	}()
	return <-started
}

func (d *daemon) host() string { return "unix://" + filepath.Join(d.dir, "docker.sock") }

func (d *daemon) logTail() string {
	const most = 2000
	text, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	return string(text[max(0, len(text)-most):])
}

// stop ends dockerd and with it containerd, and removes the directory.
func (d *daemon) stop() error {
	_ = unix.Kill(d.pid, unix.SIGTERM)
	select {
	case <-d.exited:
	case <-time.After(stopLimit):
		_ = unix.Kill(d.pid, unix.SIGKILL)
		<-d.exited
	}
	return d.cleanUp()
}

func (d *daemon) cleanUp() error {
	err := removeDir(d.dir, d.bridge)
	if d.lock != nil {
		d.lock.Close()
	}
	return err
}

// sweep removes what test processes left that were killed before they could: the
// directories that nobody holds the lock of.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range dirs {
		lock, err := lockDir(dir)
		if err != nil {
			continue
		}
		bridge, _ := os.ReadFile(filepath.Join(dir, "bridge"))
		_ = removeDir(dir, string(bridge))
		lock.Close()
	}
}

func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// removeDir ends what is left of the engine in dir - dockerd, containerd, the shims,
// the containers -, unmounts what is mounted there, and removes it.
func removeDir(dir, bridge string) error {
	deadline := time.Now().Add(stopLimit)
	for endProcesses(dir) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	lines := strings.Split(string(mounts), "\n")
	for i := len(lines) - 1; i >= 0; i-- { // the last mounted first
		if f := strings.Fields(lines[i]); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			_ = unix.Unmount(f[4], unix.MNT_DETACH)
		}
	}
	if bridge != "" {
		_ = removeBridge(bridge)
	}
	return os.RemoveAll(dir)
}

// endProcesses kills the engine's processes, and returns how many there were: those
// whose command line holds dir, which is unique to one engine, and those in the
// cgroups of its containers, which outlive a shim. A pidfd keeps a reused pid safe.
func endProcesses(dir string) int {
	marks := []string{dir + "/"}
	containers, _ := filepath.Glob(filepath.Join(dir, "data/containers/*"))
	for _, c := range containers {
		marks = append(marks, filepath.Base(c))
	}
	found := 0
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		cgroup, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cgroup"))
		if bytes.Contains(cmdline, []byte(marks[0])) || containsAny(cgroup, marks[1:]) {
			found++
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		unix.Close(fd)
	}
	return found
}

func containsAny(text []byte, marks []string) bool {
	return slices.ContainsFunc(marks, func(m string) bool { return bytes.Contains(text, []byte(m)) })
}
