package programs

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
)

// Echo prints its arguments as the shell's own echo does: echo [-n] [word...], with
// escapes in the words.
func Echo(p *kernel.Proc, args []string) int {
	args = args[1:]
	newline := "\n"
	if len(args) > 0 && args[0] == "-n" {
		newline, args = "", args[1:]
	}
	text, whole := unescape(strings.Join(args, " "))
	if !whole {
		newline = ""
	}
	if _, err := io.WriteString(p.FD(1), text+newline); err != nil {
		return 1
	}
	return 0
}

// unescape replaces the escapes in the words of echo. \c ends the output, which is not
// whole then.
func unescape(s string) (text string, whole bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		at := strings.IndexByte("abfnrtv\\", s[i])
		switch {
		case at >= 0:
			b.WriteByte("\a\b\f\n\r\t\v\\"[at])
		case s[i] == 'c':
			return b.String(), false
		case s[i] >= '0' && s[i] <= '7':
			most := 3
			if s[i] == '0' { // which only says that a number comes
				most = 4
			}
			digits := s[i:min(i+most, len(s))]
			digits = digits[:len(digits)-len(strings.TrimLeft(digits, "01234567"))]
			n, _ := strconv.ParseUint(digits, 8, 16)
			b.WriteByte(byte(n))
			i += len(digits) - 1
		default:
			b.WriteString(s[i-1 : i+1])
		}
	}
	return b.String(), true
}

// echo is the program: echo [-n] [-e] [word...]. Without -e a backslash is a backslash.
func echo(p *kernel.Proc) int {
	args := p.Args()
	args = args[1:]
	newline, escapes := "\n", false
	for len(args) > 0 && (args[0] == "-n" || args[0] == "-e" || args[0] == "-ne" || args[0] == "-en") {
		if strings.Contains(args[0], "n") {
			newline = ""
		}
		escapes = escapes || strings.Contains(args[0], "e")
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if escapes {
		text, _, _ = expand.Format(nil, text, nil)
	}
	if _, err := io.WriteString(p.FD(1), text+newline); err != nil {
		return 1
	}
	return 0
}

// Printf prints by a format, again and again until it has used up its arguments.
func Printf(p *kernel.Proc, args []string) int {
	if len(args) > 1 && args[1] == "--" {
		args = args[1:]
	}
	if len(args) < 2 {
		fmt.Fprintln(p.FD(2), "printf: usage: printf format [arg ...]")
		return 2
	}
	format, args := args[1], args[2:]
	for {
		text, used, err := expand.Format(nil, format, append([]string{}, args...))
		if err != nil {
			fmt.Fprintf(p.FD(2), "printf: %v\n", err)
			return 1
		}
		if _, err := io.WriteString(p.FD(1), text); err != nil {
			return 1
		}
		args = args[used:]
		if used == 0 || len(args) == 0 {
			return 0
		}
	}
}

// Test evaluates an expression: test and [.
func Test(p *kernel.Proc, args []string) int {
	name := args[0]
	args = args[1:]
	if name == "[" {
		if len(args) == 0 || args[len(args)-1] != "]" {
			fmt.Fprintln(p.FD(2), "[: missing ]")
			return 2
		}
		args = args[:len(args)-1]
	}
	t := tester{p: p, args: args}
	yes := len(args) > 0 && t.or()
	if t.err == nil && len(t.args) > 0 {
		t.err = fmt.Errorf("%s: unexpected operator", t.args[0])
	}
	switch {
	case t.err != nil:
		fmt.Fprintf(p.FD(2), "%s: %v\n", name, t.err)
		return 2
	case yes:
		return 0
	}
	return 1
}

// tester evaluates what is left of the arguments.
type tester struct {
	p    *kernel.Proc
	args []string
	err  error
}

func (t *tester) next() string {
	if len(t.args) == 0 {
		t.fail("argument expected")
		return ""
	}
	arg := t.args[0]
	t.args = t.args[1:]
	return arg
}

func (t *tester) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

func (t *tester) is(word string) bool { return len(t.args) > 0 && t.args[0] == word }

func (t *tester) or() bool {
	yes := t.and()
	for t.is("-o") {
		t.next()
		other := t.and()
		yes = yes || other
	}
	return yes
}

func (t *tester) and() bool {
	yes := t.not()
	for t.is("-a") {
		t.next()
		other := t.not()
		yes = yes && other
	}
	return yes
}

func (t *tester) not() bool {
	if t.is("!") && len(t.args) > 1 && (len(t.args) != 3 || !binaryOperator(t.args[1])) {
		t.next()
		return !t.not()
	}
	return t.primary()
}

func binaryOperator(op string) bool {
	switch op {
	case "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef":
		return true
	}
	return false
}

func (t *tester) primary() bool {
	switch {
	case len(t.args) >= 3 && binaryOperator(t.args[1]):
		a, op, b := t.next(), t.next(), t.next()
		return t.compare(a, op, b)
	case t.is("(") && len(t.args) > 2:
		t.next()
		yes := t.or()
		if t.next() != ")" {
			t.fail("closing paren expected")
		}
		return yes
	case len(t.args) >= 2 && len(t.args[0]) == 2 && t.args[0][0] == '-' && strings.Contains("nzefdhLprwxstcSb", t.args[0][1:]):
		op, arg := t.next(), t.next()
		return t.unary(op, arg)
	}
	return t.next() != ""
}

func (t *tester) compare(a, op, b string) bool {
	switch op {
	case "=", "==":
		return a == b
	case "!=":
		return a != b
	case "<":
		return a < b
	case ">":
		return a > b
	case "-nt", "-ot", "-ef":
		x, errA := t.p.Stat(a, true)
		y, errB := t.p.Stat(b, true)
		switch {
		case op == "-nt":
			return errA == nil && (errB != nil || x.ModTime.After(y.ModTime))
		case op == "-ot":
			return errB == nil && (errA != nil || x.ModTime.Before(y.ModTime))
		}
		realA, errA := t.p.Real(a)
		realB, errB := t.p.Real(b)
		return errA == nil && errB == nil && realA == realB
	}
	x, y := t.number(a), t.number(b)
	switch op {
	case "-eq":
		return x == y
	case "-ne":
		return x != y
	case "-lt":
		return x < y
	case "-le":
		return x <= y
	case "-gt":
		return x > y
	}
	return x >= y
}

func (t *tester) number(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		t.fail("Illegal number: %s", s)
	}
	return n
}

func (t *tester) unary(op, arg string) bool {
	switch op {
	case "-n":
		return arg != ""
	case "-z":
		return arg == ""
	case "-t":
		fd, err := strconv.Atoi(arg)
		return err == nil && t.p.Terminal(fd) != nil
	}
	info, err := t.p.Stat(arg, op != "-h" && op != "-L")
	if err != nil {
		return false
	}
	switch op {
	case "-f":
		return info.IsRegular()
	case "-d":
		return info.IsDir()
	case "-h", "-L":
		return info.Target != ""
	case "-p":
		return info.Mode.String()[0] == 'p'
	case "-c":
		return info.Mode.String()[:2] == "Dc"
	case "-S", "-b":
		return false
	case "-s":
		return info.Size > 0
	case "-x":
		return info.IsDir() || info.Mode&0o111 != 0
	}
	return true // -e, and for root -r and -w
}
