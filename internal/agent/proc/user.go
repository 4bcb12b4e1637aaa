//go:build linux

package proc

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// Identity is whom a command runs as.
type Identity struct {
	UID, GID uint32
	Groups   []uint32 // the supplementary ones
}

// LookupUser resolves a user as spec.Command has it, with the place's own lists of
// users and groups. A name that they do not have is CodeInvalid.
func LookupUser(user string) (*Identity, error) { return lookupUser(user, "/etc/passwd", "/etc/group") }

func lookupUser(user, passwdPath, groupPath string) (*Identity, error) {
	name, group, hasGroup := strings.Cut(user, ":")
	users, err := readTable(passwdPath, 7)
	if err != nil {
		return nil, err
	}
	uid, numeric := parseID(name)
	id := &Identity{UID: uid, GID: uid}
	found := false
	for _, row := range users {
		rowUID, okUID := parseID(row[2])
		rowGID, okGID := parseID(row[3])
		if !okUID || !okGID || numeric && rowUID != uid || !numeric && row[0] != name {
			continue
		}
		id.UID, id.GID, found = rowUID, rowGID, true
		break
	}
	if !found && !numeric {
		return nil, spec.New(spec.CodeInvalid, fmt.Sprintf("user %q: %s has no such name", name, passwdPath))
	}
	if numeric && !hasGroup {
		return id, nil
	}
	groups, err := readTable(groupPath, 4)
	if err != nil {
		return nil, err
	}
	if hasGroup {
		if id.GID, err = lookupGroup(group, groups); err != nil {
			return nil, err
		}
	}
	if !numeric {
		id.Groups = memberships(name, groups)
	}
	return id, nil
}

func lookupGroup(group string, groups [][]string) (uint32, error) {
	if gid, ok := parseID(group); ok {
		return gid, nil
	}
	for _, row := range groups {
		if gid, ok := parseID(row[2]); ok && row[0] == group && group != "" {
			return gid, nil
		}
	}
	return 0, spec.New(spec.CodeInvalid, fmt.Sprintf("group %q: the place has no such name", group))
}

// plainShell is what every place with a shell has.
const plainShell = "/bin/sh"

// LoginShell is the shell that the place's list of users has for a user as spec.Command
// has it, "" being this process's. One that is none, or that keeps people out, is
// /bin/sh.
func LoginShell(user string) string { return loginShell(user, "/etc/passwd") }

func loginShell(user, passwdPath string) string {
	uid := uint32(os.Geteuid())
	if user != "" {
		id, err := LookupUser(user)
		if err != nil {
			return plainShell // whoever starts it says why not
		}
		uid = id.UID
	}
	users, err := readTable(passwdPath, 7)
	if err != nil {
		return plainShell
	}
	for _, row := range users {
		if rowUID, ok := parseID(row[2]); !ok || rowUID != uid {
			continue
		}
		shell := row[6]
		refuses := filepath.Base(shell) == "nologin" || filepath.Base(shell) == "false"
		if !filepath.IsAbs(shell) || refuses || unix.Access(shell, unix.X_OK) != nil {
			break
		}
		return shell
	}
	return plainShell
}

// memberships are the groups that list name, without repetition.
func memberships(name string, groups [][]string) []uint32 {
	const most = 65536 // the kernel's own
	var out []uint32
	for _, row := range groups {
		gid, ok := parseID(row[2])
		if ok && slices.Contains(strings.Split(row[3], ","), name) && !slices.Contains(out, gid) && len(out) < most {
			out = append(out, gid)
		}
	}
	return out
}

// parseID takes decimal digits only; the highest number means "none" to the kernel.
func parseID(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && n != math.MaxUint32
}

// readTable reads a file of colon-separated lines as untrusted: bounded, a regular
// file only, and lines without exactly so many fields left out. A file that is
// missing has no lines.
func readTable(path string, fields int) ([][]string, error) {
	const most = 1 << 20
	refuse := func(err error) ([][]string, error) {
		return nil, &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("the users of the place: %s: %w", path, errnoOf(err))}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return refuse(err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return refuse(errors.New("it is no regular file"))
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return refuse(err)
	}
	if len(data) > most {
		return refuse(fmt.Errorf("it has more than %d bytes", most))
	}
	var rows [][]string
	for line := range strings.Lines(string(data)) {
		if row := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(row) == fields {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// CanChangeUser reports whether this process can start others as another user: it has
// the capabilities for it, and its user namespace has more than one user.
func CanChangeUser() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	const needed = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	if data[0].Effective&needed != needed {
		return false
	}
	var buf [4096]byte
	if strings.TrimSpace(string(readSmall("/proc/self/setgroups", buf[:]))) == "deny" {
		return false
	}
	var ids uint64
	for line := range strings.Lines(string(readSmall("/proc/self/uid_map", buf[:]))) {
		if fields := strings.Fields(line); len(fields) == 3 {
			n, _ := strconv.ParseUint(fields[2], 10, 64)
			ids += n
		}
	}
	return ids > 1
}

// As calls f on a thread that has the access to files which id has. What f opens
// stays open.
func (id *Identity) As(f func() error) error {
	runtime.LockOSThread()
	groups, err := unix.Getgroups()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("groups: %w", err)
	}
	uid, gid := currentFSUID(), currentFSGID()
	defer func() {
		_, _ = unix.SetfsuidRetUid(uid)
		_, _ = unix.SetfsgidRetGid(gid)
		if unix.Setgroups(groups) == nil && currentFSUID() == uid && currentFSGID() == gid {
			runtime.UnlockOSThread()
		} // else the thread ends with its goroutine
	}()
	own := make([]int, len(id.Groups))
	for i, g := range id.Groups {
		own[i] = int(g)
	}
	err = unix.Setgroups(own)
	if err == nil {
		_, _ = unix.SetfsgidRetGid(int(id.GID))
		_, _ = unix.SetfsuidRetUid(int(id.UID))
	}
	if err != nil || currentFSUID() != int(id.UID) || currentFSGID() != int(id.GID) {
		return &spec.Error{Code: spec.CodeUnsupported, Err: fmt.Errorf("user %d, group %d: the place has no such id", id.UID, id.GID)}
	}
	return f()
}

// The calls that change an id answer with the one before, and leave it alone when
// the new one cannot be.

func currentFSUID() int {
	uid, _ := unix.SetfsuidRetUid(-1)
	return uid
}

func currentFSGID() int {
	gid, _ := unix.SetfsgidRetGid(-1)
	return gid
}
