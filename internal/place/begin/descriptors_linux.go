package begin

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseInherited extends the files of a child so that it does not get what this program
// has itself inherited open for its children: the place outlives both, and would keep
// somebody's pipe from ending.
func CloseInherited(files []*os.File) []*os.File {
	const first = 3
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return files
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		if err != nil || fd < first+len(files) {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			files = append(files, make([]*os.File, fd-first+1-len(files))...) // nil is closed
		}
	}
	return files
}
