// Package account finds out who the user of a container is, as an engine does: from what
// the container is told and from the account files of its image, which are hostile.
package account

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// User is a user inside a container.
type User struct{ UID, GID int }

// Check refuses what is not "", "uid" or "uid:gid". The bound matters: an engine cuts 2^32
// down to root.
func Check(user string) error {
	if user == "" {
		return nil
	}
	uid, gid, both := strings.Cut(user, ":")
	if !both {
		gid = "0"
	}
	for _, id := range []string{uid, gid} {
		if _, ok := number(id); !ok {
			return spec.New(spec.CodeInvalid, fmt.Sprintf("user %.64q: want uid or uid:gid, in numbers up to 2147483647", user))
		}
	}
	return nil
}

// IsRoot reports whether the engine's user setting is root's.
func IsRoot(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	id, numeric := number(name)
	return name == "" || name == "root" || numeric && id == 0
}

// Find returns the ids of the engine's user setting: numbers are themselves, names and a
// missing group come from /etc/passwd and /etc/group, which read returns, a missing one
// empty. A user whom the image does not know gets zeros; the engine will refuse to start it.
func Find(user string, read func(file string) ([]byte, error)) (User, error) {
	name, group, _ := strings.Cut(user, ":")
	var id User
	uid, uidKnown := number(name)
	gid, gidKnown := number(group)
	id.UID, id.GID = uid, gid
	if !uidKnown || group == "" {
		users, err := read("/etc/passwd")
		if err != nil {
			return id, err
		}
		// name:password:uid:gid:...
		if f := fields(users, name, uidKnown, 4); f != nil {
			id.UID, _ = number(f[2])
			if group == "" {
				id.GID, _ = number(f[3])
			}
		}
	}
	if group != "" && !gidKnown {
		groups, err := read("/etc/group")
		if err != nil {
			return id, err
		}
		if f := fields(groups, group, false, 3); f != nil {
			id.GID, _ = number(f[2])
		}
	}
	return id, nil
}

// fields returns those of the first line that is about who: a name, or the number in the
// third field. Lines with fewer fields than need be are passed over.
func fields(file []byte, who string, byNumber bool, need int) []string {
	for line := range bytes.Lines(file) {
		f := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(f) >= need && (byNumber && f[2] == who || !byNumber && f[0] == who) {
			return f
		}
	}
	return nil
}

// number parses digits only: no sign, no space, at most 2^31-1.
func number(s string) (int, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int(n), err == nil
}
