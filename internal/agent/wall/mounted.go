//go:build linux

package wall

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxMounted bounds how many paths may be told of.
const maxMounted = 8192

// mounted is what was found at a path outside, and is to be mounted there.
type mounted struct {
	dev, ino uint64
	path     string
}

func (c *Config) addMounted(text string) error {
	dev, rest, _ := strings.Cut(text, ":")
	ino, path, _ := strings.Cut(rest, ":")
	d, err1 := strconv.ParseUint(dev, 10, 64)
	i, err2 := strconv.ParseUint(ino, 10, 64)
	if err := errors.Join(err1, err2); err != nil || !filepath.IsAbs(path) || len(c.mounted) == maxMounted {
		return errors.New("not DEV:INO:PATH, or one too many")
	}
	c.mounted = append(c.mounted, mounted{d, i, filepath.Clean(path)})
	return nil
}

// checkMounted refuses a wall that was not built as it was planned. The wrapper is told
// names, and a command of another place may have put a link into the way of one while it
// looked: then it has mounted something else, or elsewhere. As many mounts were made as
// there are paths, so that none is anywhere else if there is one at each.
func (c *Config) checkMounted() error {
	for _, m := range c.mounted {
		if err := m.check(); err != nil {
			return fmt.Errorf("the wall is not as it was planned: %s was replaced while it was built: %w", m.path, err)
		}
	}
	return nil
}

func (m mounted) check() error {
	fd, st, err := reach(m.path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if uint64(st.Dev) != m.dev || st.Ino != m.ino { //nolint:unconvert // the type differs between platforms
		return errors.New("it is another file")
	}
	var at unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &at)
	known := err == nil && at.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 // not before Linux 5.8
	if known && at.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return errors.New("nothing is mounted there")
	}
	return nil
}

// reach opens a path in which no link may be. It goes step by step: openat2, which could do
// so at once, is not everywhere.
func reach(path string) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	at, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Fstat(at, &st)
	}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if err != nil || name == "" {
			break
		}
		var next int
		if next, err = unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			break
		}
		unix.Close(at)
		at = next
		if err = unix.Fstat(at, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = unix.ELOOP
		}
	}
	if err != nil && at >= 0 {
		unix.Close(at)
	}
	return at, st, err
}
