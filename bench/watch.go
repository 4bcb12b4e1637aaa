//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
)

// watchedFiles is how many files, a hundred in a directory, a large watch is about.
const watchedFiles = 100_000

// watchRow is a watch of 100,000 files until a change is told, against the least that a
// program here can do: walk the directories of as many files, watch each, and read one
// event.
func watchRow(name string, sb *berth.Sandbox, h *harness) row {
	local := filepath.Join(h.TempDir(), "watched")
	inPlace := sync.OnceValue(func() error {
		_, err := files.WriteBatch(context.Background(), sb.Files(), manyFiles("watched", watchedFiles), files.BatchOptions{})
		return err
	})
	here := sync.OnceValue(func() error {
		for f, err := range manyFiles(local, watchedFiles) {
			if err != nil {
				return err
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(f.Name), 0o755), os.WriteFile(f.Name, nil, 0o644)); err != nil {
				return err
			}
		}
		return nil
	})
	return row{
		name: "watch of 100,000 files, ready and a change", backend: name, slow: true,
		ours: func(ctx context.Context) error {
			if err := inPlace(); err != nil {
				return err
			}
			return watchOnce(ctx, sb)
		},
		against: []alternative{{name: "inotify here", run: func(context.Context) error {
			if err := here(); err != nil {
				return err
			}
			return inotifyOnce(local)
		}}},
	}
}

// errTold ends a watch that has told enough.
var errTold = errors.New("told")

// watchOnce watches until one change is told, which it makes once the watch is ready.
func watchOnce(ctx context.Context, sb *berth.Sandbox) error {
	const changed = "dir500/file050"
	made := make(chan error, 1)
	err := sb.Files().Watch(ctx, "watched", files.WatchOptions{Recursive: true}, func() {
		go func() { made <- files.Chmod(ctx, sb.Files(), "watched/"+changed, 0o600) }()
	}, func(e files.WatchEvent) error {
		if e.Path != changed {
			return fmt.Errorf("a change of %q", e.Path)
		}
		return errTold
	})
	if !errors.Is(err, errTold) {
		return err
	}
	return <-made
}

// inotifyOnce is the same by the kernel's own means.
func inotifyOnce(top string) error {
	in, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(in)
	err = filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_, err = unix.InotifyAddWatch(in, name, unix.IN_ATTRIB)
		}
		return err
	})
	if err == nil {
		err = os.Chmod(filepath.Join(top, "dir500/file050"), 0o600)
	}
	if err == nil {
		_, err = unix.Read(in, make([]byte, 4096))
	}
	return err
}
