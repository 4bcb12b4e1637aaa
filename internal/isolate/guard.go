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

// programInside is where a program is shown whose own path is not to be seen inside.
const programInside = "/run/berth-guest"

// kernelDirs are the kernel's interfaces; no root may lie there.
var kernelDirs = []string{"/proc", "/sys", "/dev"}

// Guard returns the wall round the policy's program, which is run with argv (its
// arguments, without its name) as pid 1: everything can be read that is not hidden. What
// the program is to do for the wall is added to its arguments. It refuses with
// CodeInvalidPath a root that does not exist, and with CodeInvalid one that cannot be
// writable, a hidden path that contains a writable root, and a path that leads elsewhere
// by a symbolic link which commands can replace. A wrapper that lies in a writable root is
// CodeUnsupported.
func Guard(p Policy, argv []string) (Wall, error) {
	l, err := p.resolve(false)
	if err != nil {
		return Wall{}, err
	}
	return l.build(&p, slices.Concat(base(), resolver(p.Network)), argv)
}

// build puts the layout's own mounts after those of the level.
func (l *layout) build(p *Policy, mounts, argv []string) (Wall, error) {
	own, bound := l.mounts()
	pins, err := pinned(bound)
	if err != nil {
		return Wall{}, err
	}
	args := l.namespaces(p.Network)
	if p.InfoFD != 0 {
		args = append(args, "--info-fd", strconv.Itoa(p.InfoFD))
	}
	args = append(args, mounts...)
	if l.drop != nil { // the wrapper makes it for who starts it
		args = append(args, "--perms", "1777", "--tmpfs", "/dev/shm")
	}
	args = append(args, own...)
	inside := l.program
	if l.shadowed(l.program) || l.closed(l.program) != "" {
		inside = programInside
		args = append(args, "--ro-bind", l.program, inside)
	}
	for _, dir := range l.sealable() {
		args = append(args, "--remount-ro", dir)
	}
	w := Wall{
		Path: p.Bwrap, Writable: l.writable(), Sealed: l.sealed(), Absent: l.absent, Unwatched: l.unwatched, Indexes: l.indexes, Drop: l.drop, Own: l.given(), Idmapped: l.mapped(), Detach: mountsShared(),
	}
	for _, h := range l.hidden {
		w.Hidden = append(w.Hidden, h.path)
	}
	for _, o := range l.own {
		if o.perms == private { // an empty home instead of the machine's
			w.Hidden = append(w.Hidden, o.path)
		}
	}
	w.Args = slices.Concat(args, []string{"--chdir", "/", "--", inside}, argv, []string{"--walled"}, w.identify(), pins)
	for _, path := range w.Absent {
		w.Args = append(w.Args, "--absent", path)
	}
	for _, index := range w.Indexes {
		w.Args = append(w.Args, "--git-index", index.Path+":"+index.WorkTree)
	}
	if p.Confine {
		w.Args = append(w.Args, "--confine")
	}
	return w, nil
}

// base are the mounts of every guard.
func base() []string {
	return slices.Concat([]string{"--ro-bind", "/", "/"}, kernel(), []string{"--tmpfs", "/run"})
}

// kernel are the file systems of the kernel, as every sandbox has them.
func kernel() []string {
	args := []string{"--dev", "/dev", "--proc", "/proc"}
	for _, path := range kernelSettings() {
		args = append(args, "--ro-bind", path, path)
	}
	return args
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

// namespaces are the arguments that make the wall without its mounts. A program that is
// to become another user starts as the machine's own root, who alone may: it keeps what it
// needs for that, and nothing else.
func (l *layout) namespaces(network spec.Network) []string {
	var args []string
	if l.drop == nil {
		args = []string{"--unshare-user"}
	}
	args = append(args, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
	if network != spec.NetworkOpen {
		args = append(args, "--unshare-net")
	}
	if l.drop == nil {
		args = append(args, "--disable-userns", "--cap-drop", "ALL")
	} else {
		args = append(args, "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP", "--cap-add", "CAP_CHOWN",
			"--cap-add", "CAP_DAC_OVERRIDE") // the program may lie where only that user can pass
	}
	return append(args, "--new-session", "--as-pid-1")
}

// resolver keeps name resolution working where resolv.conf is a link into /run.
func resolver(network spec.Network) []string {
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if network != spec.NetworkOpen || err != nil || !within(target, "/run") {
		return nil
	}
	return []string{"--ro-bind", target, target}
}
