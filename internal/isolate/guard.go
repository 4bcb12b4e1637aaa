package isolate

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/spec"
)

// Policy is what a guard is to enforce. All paths are absolute.
type Policy struct {
	// Bwrap is the wrapper's path.
	Bwrap string
	// Workdir is writable; it must exist.
	Workdir string
	// WritableRoots are writable beside it; each must be a directory.
	WritableRoots []string
	// OptionalRoots are writable if they exist: the temporary directories.
	OptionalRoots []string
	// Hidden are files and directories that nothing inside can read. Those that
	// do not exist are passed over. None may contain a writable root.
	Hidden []string
	// Own are directories in whose stead the sandbox gets an empty one of its own,
	// if they exist: where programs put sockets by which they are commanded.
	Own []string
	// State is hidden too, but for a workdir inside it. Nothing inside can put
	// another directory in its place.
	State string
	// Program is the executable to be run. It stays readable wherever it lies,
	// and nothing inside can write to it or put another one in its place.
	Program string
	// Protected are files and directories that get the same care where they lie
	// in a writable root.
	Protected []string
	// Network is NetworkNone or NetworkOpen.
	Network spec.Network
	// InfoFD is the descriptor on which the wrapper says which process it made.
	// 0: it does not say.
	InfoFD int
}

// programInside is where a program is shown whose own path is not to be seen inside.
const programInside = "/run/berth-guest"

// kernelDirs are the kernel's interfaces; no root may lie there.
var kernelDirs = []string{"/proc", "/sys", "/dev"}

// Wall is a sandbox to be built: the wrapper's command line, and what that enforces.
type Wall struct {
	Path string
	Args []string
	// Writable and Hidden are the paths in force, free of links: the roots that
	// exist, and what exists of what is hidden.
	Writable, Hidden []string
	// Sealed are the mount points on which it stands. Nothing inside can remove
	// one, but the kernel does when somebody outside replaces what lies there.
	Sealed []string
	// Detach says that mounts are shared on this machine: the wrapper is to be
	// started in a mount namespace in which none is, or a mount that is made later
	// appears inside and can be written there.
	Detach bool
}

// Guard returns the wall round the policy's program, which is run with argv (its
// arguments, without its name) as pid 1. It refuses with CodeInvalidPath a root that
// does not exist, and with CodeInvalid one that cannot be writable, a hidden path that
// contains a writable root, and a path that leads elsewhere by a symbolic link which
// commands can replace. A wrapper that lies in a writable root is CodeUnsupported.
//
// The order is the meaning: a mount covers those before it, and a bind shows the
// machine's own directory again, without what had been mounted in it.
func Guard(p Policy, argv []string) (Wall, error) {
	l, err := p.resolve()
	if err != nil {
		return Wall{}, err
	}
	args := namespaces(p.Network)
	if p.InfoFD != 0 {
		args = append(args, "--info-fd", strconv.Itoa(p.InfoFD))
	}
	args = append(args, base()...)
	args = append(args, resolver(p.Network)...)
	pins, inState := l.pins()
	for _, dir := range slices.Concat(l.roots, pins) {
		args = append(args, "--bind", dir, dir)
	}
	for _, path := range l.protected {
		args = append(args, "--ro-bind", path, path)
	}
	args = append(args, l.hideState(inState)...)
	for _, h := range l.hidden {
		args = append(args, h.args()...)
	}
	inside := l.program
	if l.shadowed(l.program) {
		inside = programInside
		args = append(args, "--ro-bind", l.program, inside)
	}
	args = append(args, "--chdir", "/", "--", inside)
	w := Wall{
		Path: p.Bwrap, Args: append(args, argv...), Writable: slices.Concat(l.roots, l.revealed), Sealed: l.sealed(), Detach: mountsShared(),
	}
	for _, h := range l.hidden {
		w.Hidden = append(w.Hidden, h.path)
	}
	return w, nil
}

// base are the mounts of every guard.
func base() []string {
	args := []string{"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"}
	for _, path := range kernelSettings() {
		args = append(args, "--ro-bind", path, path)
	}
	return append(args, "--tmpfs", "/run")
}

// kernelSettings are the parts of /proc in which the kernel is set, not a process, and
// which the wrapper does not close itself: their files belong to root, and a root
// without any capability is still their owner.
func kernelSettings() []string {
	out := []string{"/proc/sys"}
	for _, path := range []string{"/proc/acpi", "/proc/driver", "/proc/dynamic_debug", "/proc/fs", "/proc/mtrr", "/proc/scsi"} {
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			var names []fs.DirEntry
			if names, err = os.ReadDir(path); len(names) == 0 {
				continue
			}
		}
		if err == nil {
			out = append(out, path)
		}
	}
	return out
}

// mountsShared reports whether a mount that is made here, or where this mount namespace
// gets its mounts from, can appear in another one.
func mountsShared() bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return err != nil || bytes.Contains(mounts, []byte(" shared:")) || bytes.Contains(mounts, []byte(" master:"))
}

// namespaces are the arguments that make the wall without its mounts.
func namespaces(network spec.Network) []string {
	args := []string{"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"}
	if network != spec.NetworkOpen {
		args = append(args, "--unshare-net")
	}
	return append(args, "--disable-userns", "--cap-drop", "ALL", "--new-session", "--as-pid-1")
}

// resolver keeps name resolution working where resolv.conf is a link into /run.
func resolver(network spec.Network) []string {
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if network != spec.NetworkOpen || err != nil || !within(target, "/run") {
		return nil
	}
	return []string{"--ro-bind", target, target}
}
