//go:build linux

package drop

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

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

// Take returns once this process is id and nothing more, as the kernel says itself. A
// process of root gives the directories own to id first, and begins again as id with the
// same arguments and with environ: an exec is what gives every thread the same rights,
// whoever started it. So what runs before is done twice. On an error nothing may be served.
//
// It takes the capabilities SETUID, SETGID and SETPCAP, and CHOWN where own has any.
func (id Identity) Take(own, environ []string) error {
	left := id.left("/proc/self/status")
	if left == nil {
		return nil
	}
	fail := func(err error) error { return fmt.Errorf("drop to %s: %w", id, err) }
	if os.Getuid() != 0 { // it has begun again, in vain
		return fail(left)
	}
	for _, dir := range own {
		if err := id.give(dir); err != nil {
			return fail(err)
		}
	}
	runtime.LockOSThread() // rights belong to a thread, and exec keeps the caller's
	defer runtime.UnlockOSThread()
	if err := id.assume(); err != nil {
		return fail(err)
	}
	// A kernel that refused without a word would make a loop.
	if err := id.left("/proc/thread-self/status"); err != nil {
		return fail(err)
	}
	err := syscall.Exec("/proc/self/exe", os.Args, environ)
	if errors.Is(err, unix.EACCES) {
		err = fmt.Errorf("this user may not execute the guest binary: %w", err)
	}
	return fail(err)
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

// assume gives up the rights of the calling thread. The order is that of what each step
// still needs.
func (id Identity) assume() error {
	for n := uintptr(0); ; n++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, n, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break // that was the last one that the kernel knows
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0); err != nil {
			return fmt.Errorf("bounding set: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient set: %w", err)
	}
	// Of this thread alone: a C library would ask every other one by a signal, which a
	// guest has taken, and wait for them for good.
	uid, gid := uintptr(id.UID), uintptr(id.GID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("groups: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("gid: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("uid: %w", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
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
