//go:build unix

package isolate

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// attributes returns to whom path belongs, and its mode.
func attributes(path string) (Identity, fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Identity{}, 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Identity{}, 0, errors.ErrUnsupported
	}
	return Identity{int(st.Uid), int(st.Gid)}, info.Mode(), nil
}

// ownedBy reports whether path belongs to the caller, or to the owner of dir.
func ownedBy(path, dir string) bool {
	owner, _, err := attributes(path)
	of, _, dirErr := attributes(dir)
	return err == nil && (owner.UID == os.Geteuid() || (dirErr == nil && owner.UID == of.UID))
}
