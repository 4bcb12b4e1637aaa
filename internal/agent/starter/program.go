//go:build linux

package starter

import (
	"strconv"
	"syscall"
)

// Program is what a child is to become. Its methods do not change it.
type Program struct {
	Path string
	Args []string
	Dir  int // a descriptor of the directory in which it starts
	// Attr is the rest. Its Dir is not used, and Sys is not nil.
	Attr *syscall.ProcAttr
}

// ForkExec is syscall.ForkExec, on the thread of the caller.
func (p *Program) ForkExec() (pid int, err error) {
	attr := *p.Attr
	attr.Dir = "/proc/self/fd/" + strconv.Itoa(p.Dir) // in the child, which has the number too
	return syscall.ForkExec(p.Path, p.Args, &attr)
}

// descriptors are those that the program is started with.
func (p *Program) descriptors() []int {
	fds := []int{p.Dir}
	for _, fd := range p.Attr.Files {
		fds = append(fds, int(fd))
	}
	if p.Attr.Sys.UseCgroupFD {
		fds = append(fds, p.Attr.Sys.CgroupFD)
	}
	return fds
}

// with is the program with other numbers for its descriptors.
func (p *Program) with(fds []int) *Program {
	attr, sys := *p.Attr, *p.Attr.Sys
	attr.Files, attr.Sys = make([]uintptr, len(p.Attr.Files)), &sys
	for i := range attr.Files {
		attr.Files[i] = uintptr(fds[1+i])
	}
	if sys.UseCgroupFD {
		sys.CgroupFD = fds[1+len(attr.Files)]
	}
	return &Program{Path: p.Path, Args: p.Args, Dir: fds[0], Attr: &attr}
}
