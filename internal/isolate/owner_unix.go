//go:build unix

package isolate

import (
	"os"
	"syscall"
)

// ownedBy reports whether path belongs to the caller, or to the owner of dir.
func ownedBy(path, dir string) bool {
	owner, ok := uidOf(path)
	of, known := uidOf(dir)
	return ok && (owner == os.Geteuid() || (known && owner == of))
}

func uidOf(path string) (int, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
