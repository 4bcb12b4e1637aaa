package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// Prefix begins the name of every group that this package makes.
const Prefix = "berth-"

// maxName bounds a name, Prefix included.
const maxName = 128

// The least that a limit can be: what the guest itself needs, and what the kernel takes.
const (
	MinMemoryBytes = 24 << 20
	MinPIDs        = 48
	MinCPUMillis   = 10
)

// Group is a control group: a directory in each hierarchy that it needs.
type Group struct {
	// Dirs are its directories, each once.
	Dirs []string
	// Memory is that with the memory controller; "": there is none.
	Memory string
	// Hold, if not nil, keeps a scope of systemd, which ends when nothing is in it: the
	// caller closes it when a process has joined the group.
	Hold *os.File
	// Mover is what Join needs to join it, if anything: a program of this machine.
	Mover string
}

// close lets go of a group that is to be removed.
func (g Group) close() {
	if g.Hold != nil {
		g.Hold.Close()
	}
}

// Kind is one kind of limit.
type Kind string

// The kinds of limits.
const (
	Memory Kind = "memory"
	PIDs   Kind = "pids"
	CPU    Kind = "cpu"
)

// kinds lists them in the order in which they are set.
var kinds = [...]Kind{Memory, PIDs, CPU}

// Cap is the name of the kind in spec.Caps.
func (k Kind) Cap() string {
	if k == Memory {
		return "limit_memory"
	}
	return "limit_" + string(k)
}

// of is what l says of the kind; 0: nothing.
func (k Kind) of(l spec.Limits) int64 {
	switch k {
	case Memory:
		return l.MemoryBytes
	case PIDs:
		return l.PIDs
	default:
		return l.CPUMillis
	}
}

// Check refuses, with CodeInvalid, limits that are too small for anything to run.
func Check(l spec.Limits) error {
	for _, c := range []struct {
		kind  Kind
		least int64
		unit  string
	}{{Memory, MinMemoryBytes, "bytes"}, {PIDs, MinPIDs, "processes"}, {CPU, MinCPUMillis, "thousandths of a CPU"}} {
		if asked := c.kind.of(l); asked != 0 && asked < c.least {
			return &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("%s: %d %s are too few for the guest itself, which needs %d", c.kind.Cap(), asked, c.unit, c.least)}
		}
	}
	return nil
}

// validName guards every use of a name as that of a directory.
func validName(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789_-"
	if rest, ok := strings.CutPrefix(name, Prefix); !ok || rest == "" || len(name) > maxName || strings.Trim(rest, allowed) != "" {
		return &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("%.64q is no name of a group of ours", name)}
	}
	return nil
}

// refuse says why a limit of a kind cannot be had.
func refuse(kind Kind, reason, hint string) error {
	return &spec.Error{Code: spec.CodeUnsupported, Err: errors.New(kind.Cap() + ": " + reason), Hint: hint}
}
