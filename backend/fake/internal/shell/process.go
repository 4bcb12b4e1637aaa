package shell

import (
	"io"
	"maps"
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
)

// clone returns a copy of the shell for a process that is about to start: what it
// changes is its own.
func (sh *shell) clone() *shell {
	c := *sh
	c.params = slices.Clone(sh.params)
	c.vars, c.funcs = maps.Clone(sh.vars), maps.Clone(sh.funcs)
	c.done, c.jobs = map[int]int{}, nil
	c.traps = map[int]string{}
	for sig, action := range sh.traps {
		if action == "" {
			c.traps[sig] = ""
		}
	}
	c.locals = nil
	c.cfg = nil
	c.interactive = false
	return &c
}

// fork starts a subshell that does work. It returns nil, with the status set, if the
// place takes no more processes.
func (sh *shell) fork(group bool, work func(c *shell)) *kernel.Proc {
	c := sh.clone()
	child, err := sh.p.Fork(group, func(p *kernel.Proc) int {
		c.p = p
		c.configure()
		work(c)
		return c.leave()
	})
	if err != nil {
		sh.exit(2)
		return nil
	}
	return child
}

// alone runs one statement as all that a subshell does: a simple command takes the
// process over.
func (sh *shell) alone(s *syntax.Stmt) {
	_, simple := s.Cmd.(*syntax.CallExpr)
	sh.inPlace = simple && !s.Negated
	sh.tested = 0
	if s.Background {
		copied := *s
		copied.Background = false
		s = &copied
	}
	sh.stmt(s)
}

// subshell runs ( ... ).
func (sh *shell) subshell(list []*syntax.Stmt) {
	tested := sh.tested
	child := sh.fork(false, func(c *shell) {
		c.loops, c.tested = 0, tested
		if len(list) == 1 && !list[0].Background {
			c.alone(list[0])
			return
		}
		c.stmts(list)
	})
	sh.finish(child)
}

// finish waits for a child in the foreground. Traps run afterwards.
func (sh *shell) finish(child *kernel.Proc) {
	if child == nil {
		return
	}
	st, err := sh.p.Wait(child.PID, false)
	if err != nil {
		return // the shell itself has ended
	}
	sh.status = st.ExitCode()
}

// pipeline runs x | y | ..., each part in a process of its own.
func (sh *shell) pipeline(c *syntax.BinaryCmd) {
	var parts []*syntax.Stmt
	var collect func(s *syntax.Stmt)
	collect = func(s *syntax.Stmt) {
		if b, ok := s.Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.Pipe && len(s.Redirs) == 0 && !s.Negated && !s.Background {
			collect(b.X)
			collect(b.Y)
			return
		}
		parts = append(parts, s)
	}
	collect(c.X)
	collect(c.Y)
	var children []*kernel.Proc
	var in *kernel.File
	for i, part := range parts {
		var r, w *kernel.File
		if i < len(parts)-1 {
			r, w = sh.p.Pipe()
		}
		held := sh.swap(map[int]*kernel.File{0: in, 1: w})
		child := sh.fork(false, func(c *shell) {
			c.loops = 0
			c.alone(part)
		})
		held()
		in = r
		if child == nil {
			break
		}
		children = append(children, child)
	}
	if in != nil {
		sh.p.Release(in)
	}
	for _, child := range children {
		sh.finish(child)
	}
}

// swap gives descriptors other files, which are taken over, until the returned
// function is called. A nil one leaves the descriptor alone.
func (sh *shell) swap(files map[int]*kernel.File) (undo func()) {
	before := map[int]*kernel.File{}
	for fd, f := range files {
		if f != nil {
			before[fd] = sh.p.Get(fd)
			sh.p.Put(fd, f)
		}
	}
	return func() {
		for fd, f := range before {
			sh.p.Put(fd, f)
		}
	}
}

// background runs a statement without waiting for it.
func (sh *shell) background(s *syntax.Stmt) {
	monitor := sh.monitor
	child := sh.fork(monitor, func(c *shell) {
		if !monitor {
			c.p.Put(0, kernel.Null())
			c.p.Handle(2, kernel.Ignore)
			c.p.Handle(3, kernel.Ignore)
		}
		c.monitor, c.loops = false, 0
		c.alone(s)
	})
	if child == nil {
		return
	}
	sh.lastPID = child.PID
	sh.jobs = append(sh.jobs, child.PID)
	sh.status = 0
}

// substitute runs $( ... ) and writes what it prints to w.
func (sh *shell) substitute(w io.Writer, list []*syntax.Stmt) {
	r, end := sh.p.Pipe()
	held := sh.swap(map[int]*kernel.File{1: end})
	child := sh.fork(false, func(c *shell) {
		c.loops, c.calls = 0, 0
		if len(list) == 1 && !list[0].Background {
			c.alone(list[0])
			return
		}
		c.stmts(list)
	})
	held()
	defer sh.p.Release(r)
	if child == nil {
		return
	}
	buf := make([]byte, 16<<10)
	for {
		n, err := sh.p.ReadFile(r, buf)
		_, _ = w.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if st, err := sh.p.Wait(child.PID, false); err == nil {
		sh.substStatus = st.ExitCode()
	}
}

// await waits for one background process and returns its status; false if a trap
// came first.
func (sh *shell) await(pid int) (status int, ok bool) {
	if status, ok := sh.done[pid]; ok {
		return status, true
	}
	st, err := sh.p.Wait(pid, true)
	switch err {
	case nil:
		sh.done[pid] = st.ExitCode()
		sh.jobs = slices.DeleteFunc(sh.jobs, func(job int) bool { return job == pid })
		return st.ExitCode(), true
	case kernel.ECHILD:
		return 127, true
	}
	return 0, false
}
