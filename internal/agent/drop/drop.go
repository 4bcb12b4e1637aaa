//go:build linux

package drop

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Identity is the user that root becomes.
type Identity struct{ UID, GID int }

// Parse reads "UID:GID". It takes numbers only, and neither root nor "none".
func Parse(text string) (*Identity, error) {
	uid, gid, ok := strings.Cut(text, ":")
	u, okUID := parseID(uid)
	g, okGID := parseID(gid)
	if !ok || !okUID || !okGID {
		return nil, fmt.Errorf("%q is not UID:GID, both above 0", text)
	}
	return &Identity{u, g}, nil
}

func parseID(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return int(n), err == nil && n > 0 && n < math.MaxInt32
}

// String is the inverse of Parse.
func (id Identity) String() string { return fmt.Sprintf("%d:%d", id.UID, id.GID) }

// Take returns once every thread of this process is id and nothing more, as the kernel
// says itself. A process of root gives the directories own to id first. It comes before
// proc.TakeSignals: the runtime reaches its threads by a signal. Where it cannot
// reach all of them, as in a program with C in it, the process begins again as id with
// the same arguments and with environ, and what ran before is done twice. On an error
// nothing may be served.
//
// It takes the capabilities SETUID, SETGID and SETPCAP, and CHOWN where own has any.
func (id Identity) Take(own, environ []string) error {
	fail := func(err error) error {
		if err != nil {
			err = fmt.Errorf("drop to %s: %w", id, err)
		}
		return err
	}
	if os.Getuid() != 0 { // it has begun again, or never was root
		return fail(id.leftOfThreads())
	}
	for _, dir := range own {
		if err := id.give(dir); err != nil {
			return fail(err)
		}
	}
	err := id.assume(syscall.AllThreadsSyscall6)
	if errors.Is(err, unix.ENOTSUP) {
		return fail(id.beginAgain(environ))
	}
	if err == nil {
		err = id.leftOfThreads()
	}
	// Commands are set up by this program: who may not execute it is told so now.
	if err == nil && unix.Access("/proc/self/exe", unix.X_OK) != nil {
		err = errExecute
	}
	return fail(err)
}

var errExecute = errors.New("this user may not execute the guest binary")

// beginAgain becomes id by an exec, which gives every thread the rights of the caller's,
// whoever started it. It returns only with an error.
func (id Identity) beginAgain(environ []string) error {
	runtime.LockOSThread() // rights belong to a thread, and exec keeps the caller's
	defer runtime.UnlockOSThread()
	// Of this thread alone: a C library would ask every other one by a signal, which a
	// guest has taken, and wait for them for good.
	if err := id.assume(syscall.RawSyscall6); err != nil {
		return err
	}
	// A kernel that refused without a word would make a loop.
	if err := id.left("/proc/thread-self/status"); err != nil {
		return err
	}
	err := syscall.Exec("/proc/self/exe", os.Args, environ)
	if errors.Is(err, unix.EACCES) {
		err = fmt.Errorf("%w: %w", errExecute, err)
	}
	return err
}

// give makes a directory id's.
func (id Identity) give(dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		err = unix.Fchownat(fd, "", id.UID, id.GID, unix.AT_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("own %s: %w", dir, err)
	}
	return nil
}

// syscall6 is a system call of one thread, or of each.
type syscall6 func(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, errno syscall.Errno)

// assume gives up the rights of the threads that call reaches. The order is that of what
// each step still needs. What no thread has, because the process was started without it,
// is not given up: to reach them all takes its time. With its rights a thread loses those
// of its ambient set.
func (id Identity) assume(call syscall6) error {
	for n := 0; ; n++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // that was the last one that the kernel knows
		}
		if err == nil && has == 0 {
			continue
		}
		if _, _, errno := call(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0, 0); errno != 0 {
			return fmt.Errorf("bounding set: %w", errno)
		}
	}
	header, none := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &[2]unix.CapUserData{}
	var pin runtime.Pinner // they are handed on as numbers
	pin.Pin(header)
	pin.Pin(none)
	defer pin.Unpin()
	groups, groupsErr := unix.Getgroups()
	locked, lockedErr := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	uid, gid := uintptr(id.UID), uintptr(id.GID)
	for _, step := range []struct {
		what       string
		done       bool
		trap       uintptr
		a1, a2, a3 uintptr
	}{
		{"groups", groupsErr == nil && len(groups) == 0, unix.SYS_SETGROUPS, 0, 0, 0},
		{"gid", false, unix.SYS_SETRESGID, gid, gid, gid},
		{"uid", false, unix.SYS_SETRESUID, uid, uid, uid},
		{"capabilities", false, unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(none)), 0},
		{"no new privileges", lockedErr == nil && locked == 1, unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0},
	} {
		if step.done {
			continue
		}
		if _, _, errno := call(step.trap, step.a1, step.a2, step.a3, 0, 0, 0); errno != 0 {
			return fmt.Errorf("%s: %w", step.what, errno)
		}
	}
	return nil
}

// leftOfThreads says what some thread of this process still has, or is that started one
// later: that has the rights of the one it was started by.
func (id Identity) leftOfThreads() error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		err := id.left(filepath.Join("/proc/self/task", task.Name(), "status"))
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) { // it has ended
			return err
		}
	}
	return nil
}

// left says what a thread still has beyond being id, by the kernel's own record of it.
func (id Identity) left(status string) error {
	data, err := os.ReadFile(status)
	if err != nil {
		return err
	}
	four := func(n int) string {
		return strings.Join([]string{strconv.Itoa(n), strconv.Itoa(n), strconv.Itoa(n), strconv.Itoa(n)}, " ")
	}
	const none = "0000000000000000"
	want := map[string]string{
		"Uid": four(id.UID), "Gid": four(id.GID), "Groups": "", "NoNewPrivs": "1",
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.Join(strings.Fields(value), " ")
		if due, known := want[name]; known && value != due {
			return fmt.Errorf("%s is %q", name, value)
		}
		delete(want, name)
	}
	for name := range want {
		return fmt.Errorf("%s is not known", name)
	}
	return nil
}
