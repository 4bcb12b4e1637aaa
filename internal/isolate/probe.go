package isolate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/berth-dev/berth/spec"
)

const (
	probeTimeout = 10 * time.Second
	installHint  = "install bubblewrap 0.8 or later (Debian, Ubuntu: apt-get install bubblewrap)"
)

// usual is where systems have the wrapper.
const usual = "/usr/bin/bwrap"

// Find returns the path of the wrapper: bwrap, or if that is "" the one of the system,
// else the one on PATH. A missing one is CodeUnsupported with a Hint.
func Find(bwrap string) (string, error) {
	if runtime.GOOS != "linux" {
		return "", &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("guard and jail need linux"), Hint: "use a container, or isolation none"}
	}
	if bwrap == "" {
		bwrap = "bwrap"
		if info, err := os.Stat(usual); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return usual, nil
		}
	}
	path, err := exec.LookPath(bwrap)
	if err != nil {
		return "", &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("bubblewrap (bwrap) is not installed"), Hint: installHint}
	}
	return path, nil
}

// Trial is a kind of wall to be tried.
type Trial struct {
	// Bwrap is as for Find.
	Bwrap string
	// Jail tries a jail, else it is a guard.
	Jail bool
	// Drop tries what root's program needs to become another user, else it is a wall
	// in a user namespace.
	Drop bool
}

// Probe runs the wrapper once, with such a wall as Guard or Jail builds, and returns nil
// if that works. Otherwise it returns CodeUnsupported, with the cause and, as the Hint,
// its cure. Nothing is cached.
func Probe(ctx context.Context, t Trial) error {
	path, err := Find(t.Bwrap)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	const attempts = 3
	for range attempts {
		if err = t.run(ctx, path); err == nil || !MountVanished(err.Error()) {
			break
		}
	}
	return err
}

// MountVanished reports whether what the wrapper said means that a mount of the machine
// went away while it was being taken over, as those of containers do when they end:
// another try has nothing of it. Its directory is gone with it, or is one like any other.
func MountVanished(said string) bool {
	return strings.Contains(said, "Unable to apply mount flags") &&
		(strings.Contains(said, "No such file or directory") || strings.Contains(said, "Invalid argument"))
}

// MountReplaced reports whether what the program in a wall said means that what was to be
// mounted is not what is, since it was replaced in between: see Wall.
func MountReplaced(said string) bool {
	return strings.Contains(said, "the wall is not as it was planned") && strings.Contains(said, "was replaced while it was built")
}

// arguments are those of a wall with nothing of anybody's in it, round the wrapper itself:
// the one program that is there for certain.
func (t Trial) arguments(path string) []string {
	l := &layout{}
	if t.Drop {
		l.drop = &nobody
	}
	mounts := base()
	if t.Jail {
		mounts = slices.Concat(system(etcFiles(spec.NetworkNone)), []string{"--perms", private, "--tmpfs", "/tmp"})
	}
	args := slices.Concat(l.namespaces(spec.NetworkNone), mounts, []string{"--ro-bind", path, programInside})
	if t.Jail {
		args = append(args, "--remount-ro", "/")
	}
	return append(args, "--chdir", "/", "--", programInside, "--version")
}

func (t Trial) name() string {
	if t.Jail {
		return "jail"
	}
	return "guard"
}

// run runs the wrapper once.
func (t Trial) run(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, path, t.arguments(path)...)
	cmd.Dir = "/"
	cmd.Env = []string{} // what this program's makes others load may lie where commands write
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		if exhausted(err) {
			return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("bubblewrap cannot be started: %w", err)}
		}
		return t.explain(strings.TrimSpace(errs.String()), err, os.DirFS("/"), os.Geteuid())
	}
	if !strings.HasPrefix(out.String(), "bubblewrap ") {
		return &spec.Error{Code: spec.CodeUnsupported, Err: fmt.Errorf("%s is not bubblewrap", path), Hint: installHint}
	}
	return nil
}

// exhausted reports whether a program was not started because this one, or the machine,
// has no more of something: that says nothing about the wall.
func exhausted(err error) bool {
	for _, known := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// explain finds why the wrapper failed: in what it said, then in what the system says.
func (t Trial) explain(said string, failure error, system fs.FS, euid int) error {
	cause, hint := t.diagnose(said, system, euid)
	text := said
	if text == "" {
		text = failure.Error()
	}
	if cause != "" {
		text = cause + ": " + text
	}
	return &spec.Error{Code: spec.CodeUnsupported, Err: errors.New(t.name() + " cannot be built: " + text), Hint: hint}
}

func (t Trial) diagnose(said string, system fs.FS, euid int) (cause, hint string) {
	setting := func(name string) string {
		data, _ := fs.ReadFile(system, "proc/sys/"+name)
		return strings.TrimSpace(string(data))
	}
	exists := func(name string) bool {
		_, err := fs.Stat(system, name)
		return err == nil
	}
	switch {
	case strings.Contains(said, "Unknown option"), strings.Contains(said, "nknown capability"):
		return "bubblewrap is too old", installHint
	case t.Drop: // no user namespace is needed for it
		return "this root has not all rights of one", "give it CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN), or run as an ordinary user"
	case setting("user/max_user_namespaces") == "0":
		return "user namespaces are forbidden (user.max_user_namespaces is 0)", "sysctl -w user.max_user_namespaces=15000"
	case euid != 0 && setting("kernel/unprivileged_userns_clone") == "0":
		return "user namespaces are forbidden to users (kernel.unprivileged_userns_clone is 0)", "sysctl -w kernel.unprivileged_userns_clone=1"
	case euid != 0 && setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "AppArmor forbids user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)", "give bwrap an AppArmor profile that allows userns, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	case exists(".dockerenv") || exists("run/.containerenv"):
		return "this is a container that forbids nested sandboxes", "the container is a wall itself: use isolation none in it, or start it with --security-opt seccomp=unconfined"
	}
	return "", "run bwrap by hand to see more: bwrap --unshare-user --ro-bind / / --proc /proc true"
}
