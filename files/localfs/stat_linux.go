package localfs

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
)

// Stat implements files.FS.
func (f *FS) Stat(ctx context.Context, name string, o files.StatOptions) (files.Info, error) {
	if err := ctx.Err(); err != nil {
		return files.Info{}, err
	}
	abs, err := f.absolute(name)
	if err != nil {
		return files.Info{}, err
	}
	look := describe
	if o.Follow {
		look = follow
	}
	info, err := look(unix.AT_FDCWD, abs, label(abs))
	if err != nil {
		return files.Info{}, fail(name, reading, blocked(abs, err))
	}
	return info, nil
}

// follow describes what name in dir leads to.
func follow(dir int, name, label string) (files.Info, error) {
	st, err := stat(dir, name)
	return fileInfo(&st, label), err
}

// describe describes name in dir itself.
func describe(dir int, name, label string) (files.Info, error) {
	for range maxRaces {
		st, err := lstat(dir, name)
		if err != nil {
			return files.Info{}, err
		}
		info := fileInfo(&st, label)
		if !isType(&st, unix.S_IFLNK) {
			return info, nil
		}
		info.Target, err = readlink(dir, name)
		if err != unix.EINVAL {
			return info, err
		}
		// It is no link any more: look again.
	}
	return files.Info{}, unix.EBUSY
}

func readlink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n := 0
	err := retry(func() (err error) {
		n, err = unix.Readlinkat(dir, name, buf)
		return err
	})
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func fileInfo(st *unix.Stat_t, name string) files.Info {
	sec, nsec := st.Mtim.Unix()
	return files.Info{
		Name:    name,
		Size:    st.Size,
		Mode:    fileMode(st.Mode),
		ModTime: time.Unix(sec, nsec),
		UID:     int(st.Uid),
		GID:     int(st.Gid),
		Links:   uint64(st.Nlink),
	}
}

// blocked makes ENOENT about an absolute path ENOTDIR where a dangling link
// stands for one of its directories.
func blocked(abs string, err error) error {
	if err != unix.ENOENT {
		return err
	}
	dir, _, _ := split(abs)
	fd, dirErr := openDir(dir, makeNothing)
	if dirErr == nil {
		unix.Close(fd)
		return err
	}
	if dirErr == unix.ENOTDIR {
		return dirErr
	}
	return err
}
