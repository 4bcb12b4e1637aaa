package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

const (
	// scopeSuffix ends the name of a group that is a scope of systemd.
	scopeSuffix = ".scope"
	// scopeTime bounds how long systemd is waited for.
	scopeTime = 20 * time.Second
	// booted is there where systemd runs the machine: sd_booted(3).
	booted = "/run/systemd/system"
)

// lingerHint is for a user who has no manager.
const lingerHint = "log in as this user, which su and sudo do not do, or have root run: loginctl enable-linger USER"

// belowHint is for a user who has one that cannot move what is started here.
const belowHint = "install what gives each user a D-Bus of its own (dbus-user-session), or start below the user manager: systemd-run --user --scope -p Delegate=yes berth ..."

// runtimeDir is where the systemd manager of this user has its sockets.
func runtimeDir() string {
	if uid := os.Geteuid(); uid != 0 {
		return "/run/user/" + strconv.Itoa(uid)
	}
	return "/run"
}

// systemd is a program of systemd, which asks the manager of this user, or as root that of
// the machine.
func systemd(ctx context.Context, path string, args ...string) *exec.Cmd {
	manager := "--system"
	if os.Geteuid() != 0 {
		manager = "--user"
	}
	cmd := exec.CommandContext(ctx, path, append([]string{manager}, args...)...)
	dir := runtimeDir()
	cmd.Env = []string{"LC_ALL=C", "XDG_RUNTIME_DIR=" + dir}
	if os.Geteuid() != 0 {
		cmd.Env = append(cmd.Env, "DBUS_SESSION_BUS_ADDRESS=unix:path="+filepath.Join(dir, "bus"))
	}
	return cmd
}

// startScope starts a scope with nothing in it but a process that waits until hold is
// closed, and returns its path in the hierarchy. A scope ends with its last process, so
// that one which nobody joins is gone as soon as hold, or the program that has it, is.
func startScope(name string, properties []string) (path string, hold *os.File, err error) {
	if _, err := os.Stat(filepath.Join(runtimeDir(), "systemd", "private")); err != nil {
		return "", nil, &spec.Error{Code: spec.CodeUnsupported, Err: fmt.Errorf("uid %d has no systemd manager that runs: %w", os.Geteuid(), err), Hint: lingerHint}
	}
	run, err := exec.LookPath("systemd-run")
	if err != nil {
		return "", nil, err
	}
	waiter, err := exec.LookPath("cat")
	if err != nil {
		return "", nil, err
	}
	args := []string{"--scope", "--quiet", "--collect", "--unit=" + name, "--description=a place of Berth"}
	for _, p := range append([]string{"Delegate=yes"}, properties...) {
		args = append(args, "--property="+p)
	}
	cmd := systemd(context.Background(), run, append(args, "--", waiter)...)
	stdin, hold, err := os.Pipe()
	if err != nil {
		return "", nil, err
	}
	defer stdin.Close()
	said, stdout, err := os.Pipe()
	if err != nil {
		hold.Close()
		return "", nil, err
	}
	defer said.Close()
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what a terminal sends is not for it
	// The answer to this byte comes from within the scope.
	_, err = hold.WriteString("\n")
	if err == nil {
		err = cmd.Start()
	}
	stdout.Close()
	if err != nil {
		hold.Close()
		return "", nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what it says is what matters
		close(ended)
	}()
	_ = said.SetReadDeadline(time.Now().Add(scopeTime))
	_, err = said.Read(make([]byte, 1))
	var membership []byte
	if err == nil {
		membership, err = os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/cgroup")
	}
	path, ok := member(string(membership), "", true)
	if err == nil && ok && filepath.Base(path) == name+scopeSuffix {
		return path, hold, nil
	}
	hold.Close()
	_ = cmd.Process.Kill() // it may have ended
	<-ended
	if text := strings.TrimSpace(stderr.String()); text != "" {
		return "", nil, fmt.Errorf("systemd-run: %.300s", text)
	}
	return "", nil, fmt.Errorf("systemd made no scope: it is in %q, %w", path, err)
}

// properties are what systemd is asked for: it keeps what it has set itself.
func properties(kinds []Kind, l spec.Limits) []string {
	var out []string
	for _, k := range kinds {
		switch n := k.of(l); k {
		case Memory:
			out = append(out, fmt.Sprintf("MemoryMax=%d", n), "MemorySwapMax=0")
		case PIDs:
			out = append(out, fmt.Sprintf("TasksMax=%d", n))
		default:
			percent := strconv.FormatInt(n/10, 10)
			if n%10 != 0 {
				percent += "." + strconv.FormatInt(n%10, 10)
			}
			out = append(out, "CPUQuota="+percent+"%")
		}
	}
	return out
}

// makeScope makes the group of a batch as a scope.
func (h *Host) makeScope(g *Group, name string, b batch, l spec.Limits) (string, error) {
	path, hold, err := h.scope(name, properties(b.kinds, l))
	if err != nil {
		// One that was left behind holds the name.
		old := h.Lookup(name)
		if len(old) == 0 {
			return "", err
		}
		if err := h.removeAll(old); err != nil {
			return "", err
		}
		if path, hold, err = h.scope(name, properties(b.kinds, l)); err != nil {
			return "", err
		}
	}
	dir, seen := mount{root: b.root, point: b.mount}.dir(path)
	if !seen {
		hold.Close()
		return "", fmt.Errorf("the scope %s is out of sight", path)
	}
	mover, err := b.mayMove(dir)
	if err != nil {
		hold.Close()
		return "", errors.Join(err, h.removeAll([]string{dir}))
	}
	g.Hold, g.Mover = hold, mover
	return dir, nil
}

// mayMove returns an error unless what this process starts can be moved to the scope dir,
// and has no more there than here; else what moves it, "" if it may do so itself.
func (t hierarchy) mayMove(dir string) (mover string, err error) {
	common := t.own
	for ; !strings.HasPrefix(dir+"/", strings.TrimSuffix(common, "/")+"/"); common = filepath.Dir(common) {
		if k, most := looser(dir, common); k != "" {
			return "", &lower{k, common, most}
		}
	}
	if unix.Access(filepath.Join(common, "cgroup.procs"), unix.W_OK) == nil {
		return "", nil
	}
	mover, err = exec.LookPath("busctl")
	if err == nil {
		_, err = os.Stat(filepath.Join(runtimeDir(), "bus"))
	}
	if err != nil {
		return "", &spec.Error{Code: spec.CodeUnsupported, Err: fmt.Errorf("this program runs outside of the user manager, which cannot be asked to move what it starts: %w", err), Hint: belowHint}
	}
	return mover, nil
}

// lower says that a group has a limit that one outside of it would not have.
type lower struct {
	kind  Kind
	group string
	most  string
}

func (e *lower) Error() string {
	return fmt.Sprintf("this program runs in the group %s, which has less (%s) than it would have", e.group, e.most)
}

// hint is what helps.
func (e *lower) hint() string {
	return "ask for a " + e.kind.Cap() + " that is no more than that, or run outside of that group"
}

// looser returns the kind of limit of which v2 group a has more than b, and what b has;
// "": none.
func looser(a, b string) (Kind, string) {
	for _, k := range kinds {
		file, read := string(k)+".max", number
		if k == CPU {
			read = quotaOf
		}
		has, err := read(filepath.Join(b, file))
		if err != nil || has == unlimited {
			continue
		}
		if would, err := read(filepath.Join(a, file)); err != nil || would > has {
			return k, file + ": " + strings.Join(words(filepath.Join(b, file)), " ")
		}
	}
	return "", ""
}

// Join moves this process into the group that has the directory dir. Where its user may
// not, as from a login session into a scope of the user manager, systemd is asked to, by
// Group.Mover: the search path here may be that of a place.
func Join(dir, mover string) error {
	err := write(filepath.Join(dir, "cgroup.procs"), "0") // whoever writes
	if !errors.Is(err, fs.ErrPermission) || mover == "" {
		return err
	}
	unit := filepath.Base(dir)
	cmd := systemd(context.Background(), mover, "--timeout="+strconv.Itoa(int(scopeTime.Seconds())), "call",
		"org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager",
		"AttachProcessesToUnit", "ssau", unit, "", "1", strconv.Itoa(os.Getpid()))
	if out, aerr := cmd.CombinedOutput(); aerr != nil {
		return fmt.Errorf("%w; busctl: %.300s", err, bytes.TrimSpace(out))
	}
	membership, rerr := os.ReadFile("/proc/self/cgroup")
	if path, ok := member(string(membership), "", true); !ok || filepath.Base(path) != unit {
		return errors.Join(err, rerr, fmt.Errorf("systemd has left it in %q", path))
	}
	return nil
}
