package place

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// Intact returns an error if the wall round the guest of rec, which runs, no longer is
// what it was: CodeUnsupported where something that was hidden or protected has been
// replaced from outside - the kernel then takes away the mount that covered it -, and
// CodeUnavailable where that cannot be told from here. The kernel's own list of the
// guest's mounts is asked, which nothing inside can change. A place without a wall is
// intact.
func (r *Root) Intact(rec Record) error {
	if rec.Isolation == spec.IsolationNone {
		return nil
	}
	guest := proc{rec.PID, rec.StartTicks}
	if !rec.foreign() && !guest.alive() { // it may have another guest by now
		if now, err := r.load(rec.ID); err == nil && now != nil {
			rec, guest = *now, proc{now.PID, now.StartTicks}
		}
	}
	if len(rec.Sealed) == 0 {
		return nil
	}
	fail := func(err error) error {
		return &spec.Error{Code: spec.CodeUnavailable, ID: rec.ID, Err: fmt.Errorf("the wall cannot be checked: %w", err)}
	}
	if rec.foreign() {
		return fail(errors.New("the guest lives in another pid namespace"))
	}
	mounts, err := mountPoints(rec.PID)
	switch {
	case !guest.alive():
		return fail(errors.New("the guest is gone"))
	case err != nil:
		return fail(err)
	}
	for _, path := range rec.Sealed {
		if mounts[path] {
			continue
		}
		// What is gone hides nothing any more, and needs no cover.
		if _, err := os.Lstat(path); errors.Is(err, unix.ENOENT) && slices.Contains(rec.Hidden, path) {
			continue
		}
		return &spec.Error{
			Code: spec.CodeUnsupported, ID: rec.ID, Path: path, Err: errors.New("the wall of this sandbox has a hole: this was replaced while it ran, and is not hidden or protected in it any more"),
			Hint: "end the sandbox and make it again (berth down, berth up): a new one hides what is there now",
		}
	}
	return nil
}

// mountPoints returns where the mounts of a process are, as it sees them.
func mountPoints(pid int) (map[string]bool, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for line := range bytes.Lines(data) {
		const mountPoint = 4 // proc_pid_mountinfo(5)
		if fields := bytes.Fields(line); len(fields) > mountPoint {
			out[unescape(string(fields[mountPoint]))] = true
		}
	}
	return out, nil
}

// unescape takes back the kernel's octal escapes of blanks and backslashes.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// detached are the ways to start a process in a mount namespace of its own, best first:
// with the right to make one, and else in a user namespace that gives the right and
// leaves the user who it is. Go makes every mount in it private.
func detached() []syscall.SysProcAttr {
	id := func(n int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: n, HostID: n, Size: 1}}
	}
	withUser := syscall.SysProcAttr{
		Setsid: true, Cloneflags: unix.CLONE_NEWUSER, Unshareflags: unix.CLONE_NEWNS, UidMappings: id(os.Geteuid()), GidMappings: id(os.Getegid()),
	}
	if os.Geteuid() != 0 {
		return []syscall.SysProcAttr{withUser}
	}
	return []syscall.SysProcAttr{{Setsid: true, Unshareflags: unix.CLONE_NEWNS}, withUser}
}

// forbidden reports whether a process was not started because it could not have a
// namespace of its own.
func forbidden(err error) bool {
	for _, known := range []error{unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EINVAL, unix.ENOSYS} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
