package shell

import (
	"fmt"
	"io"
	"os"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
)

// flow is what makes a shell leave the statement that it is in.
type flow int

const (
	onward flow = iota
	breaking
	continuing
	returning
	interrupted // by ^C or an error, up to the prompt
	exiting
)

// shell is one shell, or one subshell.
type shell struct {
	p        *kernel.Proc
	builtins map[string]builtin
	name     string
	params   []string
	vars     map[string]expand.Variable
	funcs    map[string]*syntax.Stmt
	locals   []map[string]expand.Variable // what a function's locals hide
	cfg      *expand.Config

	errexit, nounset, noglob, xtrace, monitor, noexec bool
	interactive                                       bool

	status      int // $?
	substStatus int // of the last command substitution
	shellPID    int // $$
	lastPID     int // $!
	jobs        []int
	done        map[int]int // the status of jobs that were waited for
	traps       map[int]string
	tested      int // depth of what errexit does not look at
	flow        flow
	levels      int  // how many loops break or continue leaves
	loops       int  // that enclose
	calls       int  // functions and sourced files that enclose
	inPlace     bool // the next simple command takes the process over
}

// Main runs a shell: sh [-efimnux] [-c script [name [arg...]] | file [arg...]]; without
// either the script is its input, and with -i, or if that is a terminal, it is read line by
// line.
func Main(p *kernel.Proc) int {
	sh := &shell{
		p: p, builtins: builtins(), name: "sh", shellPID: p.PID, vars: map[string]expand.Variable{}, funcs: map[string]*syntax.Stmt{},
		done: map[int]int{}, traps: map[int]string{},
	}
	sh.inherit()
	args := p.Args()
	sh.name = args[0]
	args = args[1:]
	command := false
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		flag := args[0]
		args = args[1:]
		if flag == "--" {
			break
		}
		for _, c := range flag[1:] {
			switch {
			case c == 'c' && flag[0] == '-':
				command = true
			case c == 's':
			case c == 'i' && flag[0] == '-':
				sh.interactive = true
			case c == 'o' && len(args) > 0 && sh.option(args[0], flag[0] == '-'):
				args = args[1:]
			case !sh.flag(c, flag[0] == '-'):
				sh.complain("Illegal option %s", flag)
				return 2
			}
		}
	}
	if !command && len(args) == 0 && (sh.interactive || p.Terminal(0) != nil) {
		return sh.converse()
	}
	script, err := sh.script(command, args)
	if err != nil {
		sh.complain("%v", err)
		return 2
	}
	return sh.top(script)
}

// script finds what is to run, and sets the positional parameters.
func (sh *shell) script(command bool, args []string) (string, error) {
	switch {
	case command && len(args) == 0:
		return "", fmt.Errorf("-c requires an argument")
	case command:
		if len(args) > 1 {
			sh.name, sh.params = args[1], args[2:]
		}
		return args[0], nil
	case len(args) > 0:
		sh.name, sh.params = args[0], args[1:]
		text, err := sh.readFile(args[0])
		if err != nil {
			return "", fmt.Errorf("0: cannot open %s: %w", args[0], err)
		}
		return text, nil
	default:
		text, err := io.ReadAll(sh.p.FD(0))
		return string(text), err
	}
}

func (sh *shell) readFile(name string) (string, error) {
	f, err := sh.p.Open(name, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer sh.p.Release(f)
	var b strings.Builder
	buf := make([]byte, 32<<10)
	for {
		n, err := sh.p.ReadFile(f, buf)
		b.Write(buf[:n])
		if err == io.EOF {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// top runs a whole script, and the EXIT trap behind it.
func (sh *shell) top(script string) int {
	sh.run(script)
	return sh.leave()
}

// leave runs the EXIT trap and returns the shell's exit status.
func (sh *shell) leave() int {
	sh.runTraps()
	if action, ok := sh.traps[0]; ok && sh.p.Check() == nil {
		delete(sh.traps, 0)
		sh.flow = onward
		status := sh.status
		sh.run(action)
		if sh.flow != exiting {
			sh.status = status
		}
	}
	return sh.status
}

// run parses and runs text.
func (sh *shell) run(text string) {
	stmts, err := parse(text)
	if !sh.noexec {
		sh.stmts(stmts)
	}
	if err != nil && !sh.stop() {
		sh.complain("Syntax error: %v", err)
		sh.exit(2)
	}
}

// complain prints an error as a shell does.
func (sh *shell) complain(format string, args ...any) {
	fmt.Fprintf(sh.p.FD(2), "%s: %s\n", sh.name, fmt.Sprintf(format, args...))
}

// exit ends the shell as soon as the statements that enclose have been left. After an
// error one for people goes on with the next line.
func (sh *shell) exit(status int) {
	if sh.status, sh.flow = status&0xff, exiting; sh.interactive {
		sh.flow = interrupted
	}
}

// stop reports whether the statements that enclose are to be left.
func (sh *shell) stop() bool {
	if sh.flow == onward && sh.p.Check() != nil {
		sh.flow = exiting
	}
	return sh.flow != onward
}

func (sh *shell) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		if sh.stop() {
			return
		}
		sh.stmt(s)
		sh.runTraps()
	}
}

// stmt runs one statement.
func (sh *shell) stmt(s *syntax.Stmt) {
	if s.Background {
		sh.background(s)
		return
	}
	if s.Negated {
		sh.tested++
	}
	sh.command(s)
	if s.Negated {
		sh.tested--
		sh.status = invert(sh.status)
		return
	}
	if sh.errexit && sh.status != 0 && sh.tested == 0 && sh.flow == onward && !isAndOr(s.Cmd) {
		sh.flow = exiting
	}
}

func invert(status int) int {
	if status == 0 {
		return 1
	}
	return 0
}

// isAndOr reports a list whose status errexit has looked at where it had to.
func isAndOr(c syntax.Command) bool {
	b, ok := c.(*syntax.BinaryCmd)
	return ok && (b.Op == syntax.AndStmt || b.Op == syntax.OrStmt)
}

// command runs the command of a statement, with its redirections.
func (sh *shell) command(s *syntax.Stmt) {
	if call, ok := s.Cmd.(*syntax.CallExpr); ok || s.Cmd == nil {
		sh.simple(call, s.Redirs)
		return
	}
	undo, err := sh.redirect(s.Redirs)
	defer undo()
	if err != nil {
		sh.complain("%v", err)
		sh.status = 2
		return
	}
	sh.inPlace = false
	sh.compound(s.Cmd)
}

func (sh *shell) compound(c syntax.Command) {
	switch c := c.(type) {
	case *syntax.Block:
		sh.stmts(c.Stmts)
	case *syntax.Subshell:
		sh.subshell(c.Stmts)
	case *syntax.BinaryCmd:
		sh.binary(c)
	case *syntax.IfClause:
		sh.ifClause(c)
	case *syntax.WhileClause:
		sh.loop(func() bool {
			return sh.condition(c.Cond) != c.Until
		}, c.Do)
	case *syntax.ForClause:
		sh.forClause(c)
	case *syntax.CaseClause:
		sh.caseClause(c)
	case *syntax.FuncDecl:
		sh.funcs[c.Name.Value] = c.Body
		sh.status = 0
	default:
		sh.complain("Syntax error: this shell has no %T", c)
		sh.exit(2)
	}
}

func (sh *shell) binary(c *syntax.BinaryCmd) {
	switch c.Op {
	case syntax.Pipe:
		sh.pipeline(c)
	case syntax.AndStmt, syntax.OrStmt:
		sh.tested++
		sh.stmt(c.X)
		sh.tested--
		if !sh.stop() && (sh.status == 0) == (c.Op == syntax.AndStmt) {
			sh.stmt(c.Y)
		}
	default:
		sh.complain("Syntax error: %q unexpected", c.Op.String())
		sh.exit(2)
	}
}

// condition runs statements whose failure is an answer, and returns it.
func (sh *shell) condition(list []*syntax.Stmt) bool {
	sh.tested++
	defer func() { sh.tested-- }()
	sh.stmts(list)
	return sh.status == 0
}

func (sh *shell) ifClause(c *syntax.IfClause) {
	for ; c != nil; c = c.Else {
		if len(c.Cond) == 0 { // the else
			sh.stmts(c.Then)
			return
		}
		yes := sh.condition(c.Cond)
		if sh.stop() {
			return
		}
		if yes {
			sh.stmts(c.Then)
			return
		}
	}
	sh.status = 0
}

// loop runs body as long as more says so.
func (sh *shell) loop(more func() bool, body []*syntax.Stmt) {
	sh.loops++
	defer func() { sh.loops-- }()
	status := 0
	for !sh.stop() {
		if !more() || sh.over() {
			break
		}
		sh.stmts(body)
		status = sh.status
		if sh.over() {
			break
		}
	}
	if sh.flow != exiting && sh.flow != returning && sh.flow != interrupted {
		sh.status = status
	}
}

// over takes a break or continue that is meant for the loop that is running, and
// reports whether that ends.
func (sh *shell) over() bool {
	switch sh.flow {
	case onward:
		return false
	case breaking, continuing:
		if sh.levels--; sh.levels > 0 {
			return true // it is for a loop further out
		}
		again := sh.flow == continuing
		sh.flow = onward
		return !again
	}
	return true
}

func (sh *shell) forClause(c *syntax.ForClause) {
	iter, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		sh.complain("Syntax error: bad for loop variable")
		sh.exit(2)
		return
	}
	items := sh.params
	if iter.InPos.IsValid() {
		if items, ok = sh.fields(iter.Items); !ok {
			return
		}
	}
	i := 0
	sh.status = 0
	sh.loop(func() bool {
		if i == len(items) {
			return false
		}
		i++
		return sh.set(iter.Name.Value, items[i-1])
	}, c.Do)
}

func (sh *shell) caseClause(c *syntax.CaseClause) {
	word, ok := sh.literal(c.Word)
	if !ok {
		return
	}
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			pat, ok := sh.pattern(p)
			if !ok {
				return
			}
			if matches(pat, word) {
				sh.status = 0
				sh.stmts(item.Stmts)
				return
			}
		}
	}
	sh.status = 0
}
