package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
)

// simple runs a simple command: assignments, redirections, and a function, a builtin or
// a program if there is a word. c is nil for redirections alone.
func (sh *shell) simple(c *syntax.CallExpr, redirs []*syntax.Redirect) {
	inPlace := sh.inPlace
	sh.inPlace, sh.substStatus = false, 0
	var assigns []*syntax.Assign
	var args []string
	if c != nil {
		assigns = c.Assigns
		var ok bool
		if args, ok = sh.fields(c.Args); !ok {
			return
		}
	}
	if len(args) == 0 {
		sh.nothing(assigns, redirs)
		return
	}
	if sh.xtrace {
		fmt.Fprintf(sh.p.FD(2), "+ %s\n", strings.Join(args, " "))
	}
	body, own := sh.funcs[args[0]], sh.builtins[args[0]]
	if body == nil && own == nil {
		sh.program(args, assigns, redirs, inPlace)
		return
	}
	if args[0] == "exec" {
		sh.exec(args[1:], assigns, redirs)
		return
	}
	restore, ok := sh.assign(assigns, false)
	if !special[args[0]] || body != nil {
		defer restore()
	}
	if !ok {
		return
	}
	undo, err := sh.redirect(redirs)
	defer undo()
	switch {
	case err != nil:
		sh.complain("%v", err)
		sh.status = 2
	case body != nil:
		sh.call(body, args[1:])
	default:
		sh.status = own(sh, args)
	}
}

// nothing runs a command without a word.
func (sh *shell) nothing(assigns []*syntax.Assign, redirs []*syntax.Redirect) {
	undo, err := sh.redirect(redirs)
	defer undo()
	if err != nil {
		sh.complain("%v", err)
		sh.status = 2
		return
	}
	if _, ok := sh.assign(assigns, false); ok {
		sh.status = sh.substStatus
	}
}

// assign gives variables their values, in order. restore gives them back what they had.
func (sh *shell) assign(assigns []*syntax.Assign, export bool) (restore func(), ok bool) {
	before := map[string]expand.Variable{}
	restore = func() {
		for name, v := range before {
			if sh.vars[name] = v; !v.Declared() {
				delete(sh.vars, name)
			}
		}
	}
	for _, a := range assigns {
		value, ok := sh.literal(a.Value)
		if !ok {
			return restore, false
		}
		name := a.Name.Value
		if _, seen := before[name]; !seen {
			before[name] = sh.vars[name]
		}
		if !sh.set(name, value) {
			return restore, false
		}
		if export {
			v := sh.vars[name]
			v.Exported = true
			sh.vars[name] = v
		}
	}
	return restore, true
}

// call runs a function.
func (sh *shell) call(body *syntax.Stmt, args []string) {
	const deepest = 1000
	if sh.calls >= deepest {
		sh.complain("Maximum function recursion depth (%d) reached", deepest)
		sh.exit(2)
		return
	}
	params, loops := sh.params, sh.loops
	sh.params, sh.loops = args, 0
	sh.calls++
	sh.locals = append(sh.locals, map[string]expand.Variable{})
	sh.stmt(body)
	for name, v := range sh.locals[len(sh.locals)-1] {
		if sh.vars[name] = v; !v.Declared() {
			delete(sh.vars, name)
		}
	}
	sh.locals = sh.locals[:len(sh.locals)-1]
	sh.calls--
	sh.params, sh.loops = params, loops
	if sh.flow == returning {
		sh.flow = onward
	}
}

// program runs a program in a process of its own, or in this one.
func (sh *shell) program(args []string, assigns []*syntax.Assign, redirs []*syntax.Redirect, inPlace bool) {
	if inPlace {
		sh.become(args, assigns, redirs)
		return
	}
	sh.finish(sh.fork(false, func(c *shell) { c.become(args, assigns, redirs) }))
}

// become makes this process that of a program, which then ends it.
func (sh *shell) become(args []string, assigns []*syntax.Assign, redirs []*syntax.Redirect) {
	if _, err := sh.redirect(redirs); err != nil {
		sh.complain("%v", err)
		sh.exit(2)
		return
	}
	if _, ok := sh.assign(assigns, true); !ok {
		return
	}
	path := sh.vars["PATH"].Str
	if !sh.vars["PATH"].Set {
		path = defaultPath
	}
	main, err := sh.p.Exec(args, sh.exported(nil), path)
	if err != nil {
		sh.exit(sh.cannotRun(args[0], err))
		return
	}
	clear(sh.traps)
	sh.interactive = false
	sh.exit(main(sh.p))
}

// defaultPath is where programs are looked for without a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// cannotRun says why a program cannot be run and returns the status that means it.
func (sh *shell) cannotRun(name string, err error) int {
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.Contains(name, "/"):
		sh.complain("%s: not found", name)
		return 127
	case errors.Is(err, fs.ErrNotExist):
		sh.complain("%s: %v", name, err)
		return 127
	}
	sh.complain("%s: %v", name, err)
	return 126
}

// exec is the builtin: redirections that stay, and a program in this very process.
func (sh *shell) exec(args []string, assigns []*syntax.Assign, redirs []*syntax.Redirect) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) > 0 {
		sh.become(args, assigns, redirs)
		return
	}
	if _, err := sh.redirect(redirs); err != nil {
		sh.complain("%v", err)
		sh.exit(2)
		return
	}
	if _, ok := sh.assign(assigns, false); ok {
		sh.status = 0
	}
}

// redirect carries out redirections, in order. undo takes all of them back; it is to be
// called after an error too.
func (sh *shell) redirect(redirs []*syntax.Redirect) (undo func(), err error) {
	before := map[int]*kernel.File{}
	undo = func() {
		for fd, f := range before {
			sh.p.Put(fd, f)
		}
	}
	for _, r := range redirs {
		fd, f, err := sh.target(r)
		if err != nil {
			return undo, err
		}
		if _, seen := before[fd]; !seen {
			before[fd] = sh.p.Get(fd)
		}
		sh.p.Put(fd, f)
	}
	return undo, nil
}

var errExpansion = errors.New("bad redirection")

// target opens what a redirection leads to; nil closes the descriptor.
func (sh *shell) target(r *syntax.Redirect) (fd int, f *kernel.File, err error) {
	switch r.Op {
	case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc:
	default:
		fd = 1
	}
	if r.N != nil {
		if fd, err = strconv.Atoi(r.N.Value); err != nil || fd > 255 {
			return 0, nil, kernel.EBADF
		}
	}
	if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
		body, ok := sh.heredoc(r)
		if !ok {
			return fd, nil, errExpansion
		}
		return fd, kernel.Text([]byte(body)), nil
	}
	word, ok := sh.literal(r.Word)
	if !ok {
		return fd, nil, errExpansion
	}
	flags := map[syntax.RedirOperator]int{
		syntax.RdrOut: os.O_WRONLY | os.O_CREATE | os.O_TRUNC, syntax.RdrClob: os.O_WRONLY | os.O_CREATE | os.O_TRUNC,
		syntax.AppOut: os.O_WRONLY | os.O_CREATE | os.O_APPEND, syntax.RdrIn: os.O_RDONLY, syntax.RdrInOut: os.O_RDWR | os.O_CREATE,
	}
	flag, opens := flags[r.Op]
	switch {
	case opens:
		if f, err = sh.p.Open(word, flag, 0o666); err != nil {
			verb := "open"
			if flag&os.O_CREATE != 0 {
				verb = "create"
			}
			err = fmt.Errorf("cannot %s %s: %w", verb, word, err)
		}
		return fd, f, err
	case r.Op != syntax.DplIn && r.Op != syntax.DplOut:
		return fd, nil, fmt.Errorf("%q unexpected", r.Op.String())
	case word == "-":
		return fd, nil, nil
	}
	from, err := strconv.Atoi(word)
	if err != nil {
		return fd, nil, errors.New("bad fd number")
	}
	if f = sh.p.Get(from); f == nil {
		return fd, nil, fmt.Errorf("%d: %w", from, kernel.EBADF)
	}
	return fd, f, nil
}

// heredoc is the text of a here-document.
func (sh *shell) heredoc(r *syntax.Redirect) (string, bool) {
	if r.Hdoc == nil {
		return "", true
	}
	literal := false
	for _, part := range r.Word.Parts {
		lit, plain := part.(*syntax.Lit)
		literal = literal || !plain || strings.Contains(lit.Value, `\`)
	}
	body := r.Hdoc
	if r.Op == syntax.DashHdoc {
		body = unindent(body)
	}
	if literal {
		return body.Lit(), true
	}
	return sh.document(body)
}

// unindent takes the tabs off the beginnings of lines.
func unindent(w *syntax.Word) *syntax.Word {
	out := &syntax.Word{}
	fresh := true // the next byte begins a line
	for _, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			out.Parts = append(out.Parts, part)
			fresh = false
			continue
		}
		var b strings.Builder
		for line := range strings.Lines(lit.Value) {
			if fresh {
				line = strings.TrimLeft(line, "\t")
			}
			b.WriteString(line)
			fresh = strings.HasSuffix(line, "\n")
		}
		out.Parts = append(out.Parts, &syntax.Lit{Value: b.String()})
	}
	return out
}
