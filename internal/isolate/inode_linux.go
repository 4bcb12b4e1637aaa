package isolate

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// pinned are the arguments that tell the program what lies at each of the paths now, none
// of which may be reached by a link: it does not serve if the wrapper, which follows the
// names once more, has mounted something else. Commands of another sandbox may change a
// directory on the way in between.
func pinned(paths []string) ([]string, error) {
	var args []string
	for _, path := range paths {
		dev, ino, err := inode(path)
		if err != nil {
			return nil, &spec.Error{Code: spec.CodeUnavailable, Path: path, Err: fmt.Errorf("this path is being changed: %w", err), Hint: "try again when nothing moves it"}
		}
		args = append(args, "--mounted", strconv.FormatUint(dev, 10)+":"+strconv.FormatUint(ino, 10)+":"+path)
	}
	return args, nil
}

// inode says what lies at a path without a link in it. It goes step by step: openat2, which
// could do so at once, is not everywhere.
func inode(path string) (dev, ino uint64, err error) {
	var st unix.Stat_t
	at, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() { unix.Close(at) }()
	err = unix.Fstat(at, &st)
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if err != nil || name == "" {
			break
		}
		next, openErr := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if openErr != nil {
			return 0, 0, openErr
		}
		unix.Close(at)
		at = next
		if err = unix.Fstat(at, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = unix.ELOOP
		}
	}
	return uint64(st.Dev), st.Ino, err //nolint:unconvert // the type differs between platforms
}
