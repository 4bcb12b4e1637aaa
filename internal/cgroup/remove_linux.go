package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// removeTime bounds how long a group is waited for whose processes are to end.
const removeTime = 5 * time.Second

// Remove kills what lives in the directories, which are of a group called name, and
// removes them. It returns when they are gone; one that is gone already is success. What
// does not end in 5 s is CodeUnavailable.
func (h *Host) Remove(name string, dirs []string) error {
	if err := validName(name); err != nil {
		return err
	}
	var ours []string
	for _, dir := range dirs {
		var st unix.Statfs_t
		switch err := unix.Statfs(dir, &st); {
		case err != nil:
			continue
		case strings.TrimSuffix(filepath.Base(dir), scopeSuffix) != name, st.Type != unix.CGROUP_SUPER_MAGIC && st.Type != unix.CGROUP2_SUPER_MAGIC:
			return &spec.Error{Code: spec.CodeInternal, Path: dir, Err: errors.New("this is no control group of the place")}
		}
		ours = append(ours, dir)
	}
	return h.removeAll(ours)
}

// removeAll kills and removes. Only an exiting process keeps a group for a moment.
func (h *Host) removeAll(dirs []string) error {
	var last error
	for _, dir := range dirs {
		end := time.Now().Add(removeTime)
		for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
			if strings.HasSuffix(dir, scopeSuffix) {
				last = h.endScope(dir, time.Until(end) < removeTime/2)
			} else {
				last = h.removeTree(dir)
			}
			if last == nil || time.Now().After(end) {
				break
			}
			kill(dir)
			time.Sleep(pause)
		}
		if last != nil {
			return &spec.Error{Code: spec.CodeUnavailable, Path: dir, Err: fmt.Errorf("the control group cannot be removed: %w", last)}
		}
	}
	return nil
}

// endScope returns an error while systemd has not removed a scope. That is left to it: it
// learns of the end of the last process from the directory, and without that might believe
// for ever that the scope is in use. When it is late it is told, and what it does not know
// is removed as any group.
func (h *Host) endScope(dir string, late bool) error {
	there := func() bool {
		_, err := os.Lstat(dir)
		return !errors.Is(err, fs.ErrNotExist)
	}
	if late && there() {
		if path, err := exec.LookPath("systemctl"); err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), removeTime)
			defer cancel()
			_ = systemd(ctx, path, "stop", filepath.Base(dir)).Run() // the directory tells
		}
		if there() {
			return h.removeTree(dir)
		}
	}
	if there() {
		return errors.New("systemd has not removed it")
	}
	return nil
}

// removeTree removes dir and the groups below it, deepest first.
func (h *Host) removeTree(dir string) error {
	for _, child := range children(dir) {
		if err := h.removeTree(child); err != nil {
			return err
		}
	}
	err := h.rmdir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// children are the groups right below dir.
func children(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

// kill kills what is in dir and below it: at once where the kernel can, else one by one.
func kill(dir string) {
	if write(filepath.Join(dir, "cgroup.kill"), "1") == nil {
		return
	}
	for _, child := range children(dir) {
		kill(child)
	}
	for _, word := range words(filepath.Join(dir, "cgroup.procs")) {
		pid, err := strconv.Atoi(word)
		if err != nil || pid <= 1 {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// The descriptor holds whatever has the pid: it is killed if that is in the
		// group still.
		if slices.Contains(words(filepath.Join(dir, "cgroup.procs")), word) {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		unix.Close(fd)
	}
}
