//go:build linux

package idmap

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/drop"
)

// tree is an idmapped copy of a mount, which nobody sees yet, and where it belongs.
type tree struct{ at, copy int }

// mapped makes the trees of paths and hands them to use. They end with it, but for what
// it has attached.
func mapped(id drop.Identity, self, paths []string, use func([]tree) error) error {
	users, err := namespace(id, self)
	if err != nil {
		return err
	}
	defer users.Close()
	var trees []tree
	defer func() {
		for _, t := range trees {
			unix.Close(t.at)
			unix.Close(t.copy)
		}
	}()
	// All of them before any is attached: a copy of what is mapped cannot be mapped.
	for _, path := range paths {
		t, err := clone(path, int(users.Fd()))
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	return use(trees)
}

// clone copies the mount of path, with those below it, and maps the copy.
func clone(path string, users int) (tree, error) {
	// Somebody may have put a link where there was none: it would lead root elsewhere.
	at, err := ignoringEINTR(func() (int, error) {
		return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	})
	if err != nil {
		return tree{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	t := tree{at: at, copy: -1}
	const whole = unix.AT_EMPTY_PATH | unix.AT_RECURSIVE
	t.copy, err = unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|whole)
	if err == nil {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users)}
		if err = unix.MountSetattr(t.copy, "", whole, &attr); err != nil { // for a mount below it, perhaps
			err = unix.MountSetattr(t.copy, "", unix.AT_EMPTY_PATH, &attr)
		}
	}
	if err != nil {
		unix.Close(t.at)
		unix.Close(t.copy)
		return tree{}, unable(path, err)
	}
	return t, nil
}

// attach puts each tree over what it is a copy of.
func attach(trees []tree) error {
	for _, t := range trees {
		if err := unix.MoveMount(t.copy, "", t.at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
			return unable("attach", err)
		}
	}
	return nil
}

// namespace makes the user namespace by which the kernel is told the mapping. It lives
// as long as what refers to it: the process that it is made for is gone on return.
func namespace(id drop.Identity, self []string) (*os.File, error) {
	in, out, err := os.Pipe() // the end of this process ends the other one too
	if err != nil {
		return nil, err
	}
	defer in.Close()
	defer out.Close()
	p, err := os.StartProcess("/proc/self/exe", slices.Concat(os.Args[:1], self, []string{Verb, "--hold"}), &os.ProcAttr{
		Files: []*os.File{in},
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, UidMappings: extents(id.UID), GidMappings: extents(id.GID), Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return nil, unable("a user namespace", err)
	}
	defer func() {
		_ = p.Kill()
		_, _ = p.Wait()
	}()
	return os.Open(filepath.Join("/proc", strconv.Itoa(p.Pid), "ns", "user"))
}

// extents map 0 to id and every other id to itself, as far as an int reaches everywhere.
func extents(id int) []syscall.SysProcIDMap {
	maps := []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
	if id > 1 {
		maps = append(maps, syscall.SysProcIDMap{ContainerID: 1, HostID: 1, Size: id - 1})
	}
	return append(maps, syscall.SysProcIDMap{ContainerID: id + 1, HostID: id + 1, Size: math.MaxInt32 - id})
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}
