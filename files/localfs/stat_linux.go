package localfs

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// Stat implements files.FS.
func (f *FS) Stat(ctx context.Context, name string, o files.StatOptions) (files.Info, error) {
	if err := ctx.Err(); err != nil {
		return files.Info{}, err
	}
	s, err := f.locate(name)
	if err != nil {
		return files.Info{}, err
	}
	info, err := s.describe(o.Follow)
	if err != nil {
		return files.Info{}, fail(name, reading, s.blocked(err))
	}
	return info, nil
}

// describe describes what s leads to, or itself if it is a link not to be followed.
func (s spot) describe(follow bool) (files.Info, error) {
	switch {
	case follow:
		st, err := s.stat(false)
		return fileInfo(&st, s.label()), err
	case s.root == nil:
		return describe(unix.AT_FDCWD, s.path, s.label())
	}
	fd, err := s.open(unix.O_PATH | unix.O_NOFOLLOW)
	if err != nil {
		return files.Info{}, err
	}
	defer unix.Close(fd)
	return describe(fd, "", s.label())
}

// describe describes name in dir itself; "": dir.
func describe(dir int, name, label string) (files.Info, error) {
	for range maxRaces {
		st, err := sys.Lstat(dir, name)
		if err != nil {
			return files.Info{}, err
		}
		info := fileInfo(&st, label)
		if !sys.IsType(&st, unix.S_IFLNK) {
			return info, nil
		}
		info.Target, err = sys.Readlink(dir, name)
		if err != unix.EINVAL {
			return info, err
		}
		// It is no link any more: look again.
	}
	return files.Info{}, unix.EBUSY
}

func fileInfo(st *unix.Stat_t, name string) files.Info {
	sec, nsec := st.Mtim.Unix()
	return files.Info{
		Name:    name,
		Size:    st.Size,
		Mode:    sys.FileMode(st.Mode),
		ModTime: time.Unix(sec, nsec),
		UID:     int(st.Uid),
		GID:     int(st.Gid),
		Links:   uint64(st.Nlink),
	}
}

// blocked makes ENOENT about s ENOTDIR where a dangling link stands for one of its
// directories.
func (s spot) blocked(err error) error {
	if err != unix.ENOENT {
		return err
	}
	dir, _, _ := s.parent()
	fd, dirErr := dir.openDir(makeNothing)
	if dirErr == nil {
		unix.Close(fd)
		return err
	}
	if dirErr == unix.ENOTDIR {
		return dirErr
	}
	return err
}

// Resolve implements files.Resolver.
func (f *FS) Resolve(ctx context.Context, name string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	s, err := f.locate(name)
	if err != nil {
		return "", err
	}
	fd, err := s.open(unix.O_PATH)
	if err != nil {
		return "", fail(name, reading, s.blocked(err))
	}
	defer unix.Close(fd)
	where, err := sys.Readlink(unix.AT_FDCWD, sys.ProcPath(fd))
	if err != nil {
		return "", &spec.Error{Path: name, Code: spec.CodeUnsupported, Err: fmt.Errorf("no /proc: %w", err)}
	}
	here, err := sys.Lstat(fd, "")
	if err == nil {
		// What the kernel says of a file that was removed meanwhile is no name.
		var there unix.Stat_t
		if there, err = sys.Lstat(unix.AT_FDCWD, where); err == nil && !sys.SameFile(&here, &there) {
			err = unix.ENOENT
		}
	}
	if err != nil {
		return "", fail(name, reading, err)
	}
	return where, nil
}
