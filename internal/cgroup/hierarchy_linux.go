package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// Host is where this process can make groups.
type Host struct {
	at map[Kind]hierarchy // of each kind that has a hierarchy here

	// The kernel's part in making and removing a directory; tests have files there.
	mkdir, rmdir func(dir string) error

	// scope starts a scope of systemd, which this process may move what it starts to: see
	// startScope. It is nil where systemd does not run the machine.
	scope func(name string, properties []string) (path string, hold *os.File, err error)
}

// hierarchy is a tree of groups that holds one controller.
type hierarchy struct {
	unified bool   // v2
	root    string // the group that is seen there
	mount   string // where it is mounted
	own     string // the directory of this process's own group
}

// Discover reads where this process is and what is mounted. It makes nothing.
func Discover() (*Host, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeUnsupported, Err: err}
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeUnsupported, Err: err}
	}
	h := discover(string(mounts), string(membership))
	if _, err := os.Stat(booted); err == nil {
		h.scope = startScope
	}
	return h, nil
}

// discover is Discover of what proc_pid_mountinfo(5) and cgroups(7) describe.
func discover(mountinfo, membership string) *Host {
	h := &Host{
		at:    map[Kind]hierarchy{},
		mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) },
		rmdir: unix.Rmdir,
	}
	for line := range strings.Lines(mountinfo) {
		m, ok := parseMount(line)
		if !ok {
			continue
		}
		for _, k := range kinds {
			if _, found := h.at[k]; found && m.unified {
				continue // the controller is where v1 has it
			}
			path, ok := member(membership, k, m.unified)
			own, in := m.dir(path)
			if !ok || !in || !m.has(k, own) {
				continue
			}
			h.at[k] = hierarchy{m.unified, m.root, m.point, own}
		}
	}
	return h
}

// MemoryGroup is the directory of the group in which the memory of this process is
// counted, or "".
func (h *Host) MemoryGroup() string {
	t, here := h.at[Memory]
	for at := t.own; here && t.unified; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, "memory.events")); err == nil {
			return at
		}
		if at == t.mount || at == "/" {
			return ""
		}
	}
	return t.own
}

// mount is one mounted hierarchy.
type mount struct {
	root, point string
	unified     bool
	options     []string
}

func parseMount(line string) (mount, bool) {
	before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
	fields, super := strings.Fields(before), strings.Fields(after)
	const root, point, fstype, options = 3, 4, 0, 2
	if !ok || len(fields) <= point || len(super) <= options || strings.Contains(fields[point]+fields[root], `\`) {
		return mount{}, false
	}
	m := mount{root: fields[root], point: fields[point], options: strings.Split(super[options], ",")}
	switch super[fstype] {
	case "cgroup":
	case "cgroup2":
		m.unified = true
	default:
		return mount{}, false
	}
	return m, filepath.IsAbs(m.point)
}

// dir is the directory of the group path in the mount, if it is seen there.
func (m mount) dir(path string) (string, bool) {
	below, ok := strings.CutPrefix(path, strings.TrimSuffix(m.root, "/"))
	if !ok || below != "" && below[0] != '/' || slices.Contains(strings.Split(path+"/"+m.root, "/"), "..") {
		return "", false
	}
	return filepath.Join(m.point, below), true
}

// has reports whether the hierarchy has the controller of a kind, at a directory of it.
func (m mount) has(k Kind, dir string) bool {
	if !m.unified {
		return slices.Contains(m.options, string(k))
	}
	for at := dir; ; at = filepath.Dir(at) {
		if slices.Contains(words(filepath.Join(at, "cgroup.controllers")), string(k)) {
			return true
		}
		if at == m.point || at == "/" {
			return false
		}
	}
}

// member is the path of this process's group in the hierarchy of a kind.
func member(membership string, k Kind, unified bool) (string, bool) {
	for line := range strings.Lines(membership) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || !filepath.IsAbs(parts[2]) {
			continue
		}
		if unified && parts[0] == "0" && parts[1] == "" || !unified && slices.Contains(strings.Split(parts[1], ","), string(k)) {
			return parts[2], true
		}
	}
	return "", false
}

// parents are the directories below which a group may be made, best first.
func (t hierarchy) parents() []string {
	out := []string{t.own}
	if !t.unified {
		return out
	}
	for at := t.own; at != t.mount && at != "/" && !limited(at); {
		at = filepath.Dir(at)
		out = append(out, at)
	}
	return out
}

// limited reports whether a v2 group has a limit of its own, or may have one.
func limited(dir string) bool {
	for _, f := range []string{"memory.max", "memory.swap.max", "pids.max", "cpu.max"} {
		set := words(filepath.Join(dir, f))
		if len(set) > 0 && set[0] != "max" {
			return true
		}
	}
	return false
}

// enable gives the children of dir, a v2 group, the controllers of kinds.
func enable(dir string, wanted []Kind) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	has := words(file)
	for _, k := range wanted {
		if slices.Contains(has, string(k)) {
			continue
		}
		if err := write(file, "+"+string(k)); err != nil {
			return err
		}
	}
	return nil
}

// words are the blank-separated words of a file, none where it cannot be read.
func words(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// write writes one of the kernel's files: at once, and never a new one.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// number reads a file that holds one number; "max" and v1's -1 are unlimited.
func number(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(data))
	if text == "max" || text == "-1" {
		return unlimited, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s holds %.40q", path, text)
	}
	return n, nil
}

// unlimited is what a limit reads as that is none.
const unlimited = int64(^uint64(0) >> 1)
