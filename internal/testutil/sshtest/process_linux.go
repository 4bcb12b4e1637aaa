package sshtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}

// child is a process, identified beyond the reuse of its number.
type child struct {
	pid   int
	start string // field 22 of /proc/pid/stat
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) []child {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var out []child
	for _, dir := range dirs {
		n, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if parent, start, ok := stat(n); ok && parent == pid {
			out = append(out, child{n, start})
		}
	}
	return out
}

func (c child) kill(sig syscall.Signal) {
	if _, start, ok := stat(c.pid); ok && start == c.start {
		_ = syscall.Kill(c.pid, sig)
	}
}

func stat(pid int) (parent int, start string, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, "", false
	}
	// The name in parentheses may hold anything; the fields follow the last one.
	_, rest, ok := cutLast(string(data), ") ")
	fields := strings.Fields(rest)
	const parentField, startField = 1, 19 // counted from the third
	if !ok || len(fields) <= startField {
		return 0, "", false
	}
	parent, err = strconv.Atoi(fields[parentField])
	return parent, fields[startField], err == nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
