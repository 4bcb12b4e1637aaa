//go:build linux

package dockertest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kind is what differs between the engines.
type kind struct {
	// name is its daemon's, in the names of directories; its socket is name + ".sock".
	name string
	// The variables that skip the tests, and that name an engine to use instead.
	skip, host string
	programs   map[string]string // what has to be there, and its Debian package
	// command is the daemon, which keeps everything that outlives it in dir.
	command func(dir string) (*exec.Cmd, error)
	// tidy gives back what is not in dir, when no process is left.
	tidy func(dir string)
	// containers matches directories in dir that are named as containers are.
	containers string
}

// daemon is an engine that this process started.
type daemon struct {
	*kind
	dir    string
	lock   *os.File // held while this process lives: a sweeper leaves dir alone
	cmd    *exec.Cmd
	pid    int
	exited chan struct{} // closed once it is waited for
}

func startDaemon(k *kind, args []string) (_ *daemon, err error) {
	k.sweep()
	// Locked under a name that no sweeper looks at, then renamed.
	fresh, err := os.MkdirTemp("", "berth-new-"+k.name+"-")
	if err != nil {
		return nil, err
	}
	dir := strings.Replace(fresh, "berth-new-", "berth-", 1)
	d := &daemon{kind: k, dir: fresh, exited: make(chan struct{})}
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
	cmd, err := k.command(dir)
	if err != nil {
		return nil, err
	}
	cmd.Args = append(cmd.Args, args...)
	if err := d.run(cmd); err != nil {
		return nil, err
	}
	return d, nil
}

// run starts cmd from a thread that lives as long as the child: Pdeathsig fires
// when the thread ends that forked, not only when the process does.
func (d *daemon) run(cmd *exec.Cmd) error {
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	d.cmd = cmd
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

func (d *daemon) host() string { return "unix://" + filepath.Join(d.dir, d.name+".sock") }

func (d *daemon) logTail() string {
	const most = 2000
	text, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	return string(text[max(0, len(text)-most):])
}

// stop ends the engine with all that it started, and removes the directory.
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
	err := d.removeDir(d.dir)
	if d.lock != nil {
		d.lock.Close()
	}
	return err
}

// sweep removes what test processes left that were killed before they could: the
// directories that nobody holds the lock of.
func (k *kind) sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), "berth-"+k.name+"-*"))
	for _, dir := range dirs {
		lock, err := lockDir(dir)
		if err != nil {
			continue
		}
		_ = k.removeDir(dir)
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

// removeDir ends what is left of the engine in dir - the daemon, its shims, the
// containers -, unmounts what is mounted there, and removes it.
func (k *kind) removeDir(dir string) error {
	deadline := time.Now().Add(stopLimit)
	for k.endProcesses(dir) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	lines := strings.Split(string(mounts), "\n")
	for i := len(lines) - 1; i >= 0; i-- { // the last mounted first
		if f := strings.Fields(lines[i]); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			_ = unix.Unmount(f[4], unix.MNT_DETACH)
		}
	}
	k.tidy(dir)
	return os.RemoveAll(dir)
}

// endProcesses kills the engine's processes, and returns how many there were: those
// whose command line holds dir, which is unique to one engine, and those in the
// cgroups of its containers, which outlive a shim. A pidfd keeps a reused pid safe.
func (k *kind) endProcesses(dir string) int {
	marks := []string{dir + "/"}
	containers, _ := filepath.Glob(filepath.Join(dir, k.containers))
	for _, c := range containers {
		id := filepath.Base(c)
		marks = append(marks, id)
		// One that is paused takes no signal before it goes on, where groups are of version 1.
		states, _ := filepath.Glob("/sys/fs/cgroup/freezer/*/*" + id + "/freezer.state")
		for _, state := range states {
			_ = os.WriteFile(state, []byte("THAWED"), 0)
		}
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
