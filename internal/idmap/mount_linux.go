package idmap

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// tree is an idmapped copy of a mount, which nobody sees yet, and where it belongs.
type tree struct{ at, copy int }

// Attach gives the calling thread a mount namespace of its own, in which the files of root
// in paths are id's. Every process that the thread starts has it. The paths are absolute,
// and no symbolic link is in them. The error is ErrUnable where the kernel cannot do it.
// program, with its arguments, is one that may be run for a moment, and is killed.
//
// The goroutine is locked to a thread that ends with it, whatever Attach returns, and is
// not the first one of this program: that would be seen in the namespace by others.
func (m *Mapper) Attach(id Identity, paths, program []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(id, program); err != nil {
		return err
	}
	if err := isolate(); err != nil {
		return err
	}
	var trees []tree
	defer func() {
		for _, t := range trees {
			unix.Close(t.at)
			unix.Close(t.copy)
		}
	}()
	// All of them before any is attached: a copy of what is mapped cannot be mapped.
	for _, path := range paths {
		t, err := clone(path, int(m.users.Fd()))
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	for _, t := range trees {
		if err := unix.MoveMount(t.copy, "", t.at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
			return unable("attach", err)
		}
	}
	return nil
}

// Try returns ErrUnable where Attach cannot even begin here: where no user namespace can be
// made. program is as for Attach. It is asked of the kernel until it has worked once.
func (m *Mapper) Try(program []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users != nil {
		return nil
	}
	// The process that a namespace is made for ends with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const nobody = 65534
	return m.ready(Identity{nobody, nobody}, program)
}

// clone copies the mount of path, with those below it, and maps the copy.
func clone(path string, users int) (tree, error) {
	if !filepath.IsAbs(path) {
		return tree{}, fmt.Errorf("%s: not an absolute path", path)
	}
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

// ready makes m.users the user namespace by which the kernel is told the mapping to id.
// The caller holds m.mu, and its thread is its own.
func (m *Mapper) ready(id Identity, program []string) error {
	if m.users != nil && m.id == id {
		return nil
	}
	// A namespace is made for a process, and lives as long as what refers to it. It has
	// its process even when that has ended, until it is waited for.
	p, err := os.StartProcess(program[0], program, &os.ProcAttr{
		Dir: "/", Env: []string{},
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, UidMappings: extents(id.UID), GidMappings: extents(id.GID), Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return unable("a user namespace", err)
	}
	users, err := os.Open(filepath.Join("/proc", strconv.Itoa(p.Pid), "ns", "user"))
	_ = p.Kill()
	_, _ = p.Wait()
	if err != nil {
		return err
	}
	if m.users != nil {
		m.users.Close()
	}
	m.users, m.id = users, id
	return nil
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

// isolate gives the calling thread a mount namespace from and to which no mount spreads.
func isolate() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return unable("a mount namespace", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return unable("private mounts", err)
	}
	return nil
}

// unable says what the kernel has refused, and marks it where it is the kernel's limit.
func unable(what string, err error) error {
	for _, limit := range []error{unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.ENOSPC, unix.EUSERS} {
		if errors.Is(err, limit) {
			return fmt.Errorf("%w: %s: %w", ErrUnable, what, err)
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}
