package isolate

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// User is whom a jail knows by name, beside root and nobody.
type User struct {
	Identity
	Name, Home, Shell string
}

// MakeEtc writes the files of /etc that a jail does not take from the machine into dir,
// which it makes: they name one user, and nobody else of the machine.
func MakeEtc(dir string, u User) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range etcTexts(u) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// madeFiles are those of MakeEtc that a jail shows.
func madeFiles(network spec.Network) []string {
	names := []string{"group", "nsswitch.conf", "passwd"}
	if network != spec.NetworkOpen {
		names = append(names, "hosts")
	}
	return names
}

func etcTexts(u User) map[string]string {
	field := func(text, otherwise string) string {
		if text == "" || strings.ContainsAny(text, ":\n") {
			return otherwise
		}
		return text
	}
	const none = "/nonexistent"
	users := [][2]string{{"root", "0:0:root:" + none + ":/bin/sh"}, {"nobody", "65534:65534:nobody:" + none + ":/bin/sh"}}
	groups := [][2]string{{"root", "0"}, {"nogroup", "65534"}}
	name := field(u.Name, "user")
	for _, known := range []int{0, nobody.UID} {
		if u.UID == known {
			name = map[int]string{0: "root", nobody.UID: "nobody"}[known]
		}
	}
	var passwd, group strings.Builder
	fmt.Fprintf(&passwd, "%s:x:%d:%d::%s:%s\n", name, u.UID, u.GID, field(u.Home, none), field(u.Shell, "/bin/sh"))
	for _, entry := range users {
		if entry[0] != name {
			fmt.Fprintf(&passwd, "%s:x:%s\n", entry[0], entry[1])
		}
	}
	if id := strconv.Itoa(u.GID); u.GID != 0 && u.GID != nobody.GID {
		fmt.Fprintf(&group, "%s:x:%s:\n", name, id)
	}
	for _, entry := range groups {
		fmt.Fprintf(&group, "%s:x:%s:\n", entry[0], entry[1])
	}
	return map[string]string{
		"passwd": passwd.String(), "group": group.String(),
		"hosts":         "127.0.0.1 localhost\n::1 localhost\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	}
}
