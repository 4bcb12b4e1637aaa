package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// periodMicros is the period of a CPU quota: the kernel's default.
const periodMicros = 100_000

// setting is one value of a limit: the file, what is written, and what is to be read.
type setting struct {
	file, value string
	want        int64
	slack       int64 // by how much less the kernel may make it
	// spare: without the file the limit holds all the same, as far as spare says.
	spare func() bool
}

// settings are those of a limit of kind k.
func (t hierarchy) settings(k Kind, limit int64) []setting {
	page := int64(os.Getpagesize()) - 1
	plain := strconv.FormatInt(limit, 10)
	quota := limit * periodMicros / 1000
	switch {
	case k == PIDs:
		return []setting{{file: "pids.max", value: plain, want: limit}}
	case k == Memory && t.unified:
		return []setting{{file: "memory.max", value: plain, want: limit, slack: page}, {file: "memory.swap.max", value: "0", spare: noSwap}}
	case k == Memory:
		return []setting{
			{file: "memory.limit_in_bytes", value: plain, want: limit, slack: page},
			{file: "memory.memsw.limit_in_bytes", value: plain, want: limit, slack: page, spare: noSwap},
		}
	case t.unified:
		return []setting{{file: "cpu.max", value: fmt.Sprintf("%d %d", quota, periodMicros), want: quota}}
	}
	return []setting{
		{file: "cpu.cfs_period_us", value: strconv.Itoa(periodMicros), want: periodMicros},
		{file: "cpu.cfs_quota_us", value: strconv.FormatInt(quota, 10), want: quota},
	}
}

// set sets a limit and reads it back.
func (t hierarchy) set(dir string, k Kind, limit int64) error {
	for _, s := range t.settings(k, limit) {
		file := filepath.Join(dir, s.file)
		err := write(file, s.value)
		if errors.Is(err, fs.ErrNotExist) && s.spare != nil && s.spare() {
			continue
		}
		if err := s.inForce(file); err != nil {
			return refuse(k, fmt.Sprintf("asked for %d, %v", limit, err), "")
		}
		if err != nil {
			return refuse(k, fmt.Sprintf("asked for %d: %v", limit, err), "")
		}
	}
	return nil
}

// inForce returns an error that names what is in force, unless it is what was asked for.
func (s setting) inForce(file string) error {
	var got int64
	var err error
	if s.file == "cpu.max" {
		got, err = quotaOf(file)
	} else {
		got, err = number(file)
	}
	switch {
	case err != nil:
		return fmt.Errorf("and what is in force cannot be read: %w", err)
	case got <= s.want && got >= s.want-s.slack:
		return nil
	case got == unlimited:
		return fmt.Errorf("%s is not limited", s.file)
	}
	return fmt.Errorf("%s is %d instead of %d", s.file, got, s.want)
}

// quotaOf reads cpu.max, as if its period were ours.
func quotaOf(file string) (int64, error) {
	fields := words(file)
	if len(fields) != 2 {
		return 0, fmt.Errorf("%s holds %.40q", file, fields)
	}
	if fields[0] == "max" {
		return unlimited, nil
	}
	quota, err1 := strconv.ParseInt(fields[0], 10, 64)
	period, err2 := strconv.ParseInt(fields[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil || period <= 0 {
		return 0, fmt.Errorf("%s holds %.40q", file, fields)
	}
	return quota * periodMicros / period, nil
}

// noSwap reports whether this machine has no swap.
func noSwap() bool {
	data, err := os.ReadFile("/proc/swaps")
	return errors.Is(err, fs.ErrNotExist) || err == nil && strings.Count(strings.TrimSpace(string(data)), "\n") == 0
}

// Verify returns an error that says which limit of l is not in force any more in a
// group whose directories are dirs.
func (h *Host) Verify(dirs []string, l spec.Limits) error {
	for _, b := range h.batches(l) {
		for _, k := range b.kinds {
			for _, s := range b.settings(k, k.of(l)) {
				var err error
				for _, dir := range dirs {
					file := filepath.Join(dir, s.file)
					if _, gone := os.Lstat(file); gone != nil {
						err = gone
						continue
					}
					if err = s.inForce(file); err == nil {
						break
					}
				}
				if err != nil && (s.spare == nil || !s.spare()) {
					return refuse(k, fmt.Sprintf("asked for %d, %v", k.of(l), err), "")
				}
			}
		}
	}
	return nil
}
