package shell

import (
	"strings"

	"github.com/berth-dev/berth/backend/fake/internal/kernel"
)

// read takes one line of the input into variables. It reads byte by byte: what comes
// after the line belongs to others.
func read(sh *shell, args []string) int {
	raw := false
	names := args[1:]
	for len(names) > 0 && strings.HasPrefix(names[0], "-") {
		if names[0] == "-r" {
			raw = true
		} else if names[0] != "--" {
			sh.complain("read: Illegal option %s", names[0])
			return 2
		}
		names = names[1:]
	}
	if len(names) == 0 {
		sh.complain("read: arg count")
		return 2
	}
	line, whole := sh.line(raw)
	fields := sh.split(line, len(names))
	for i, name := range names {
		value := ""
		if i < len(fields) {
			value = fields[i]
		}
		if !sh.set(name, value) {
			return 2
		}
	}
	if !whole {
		return 1
	}
	return 0
}

// char is one byte of input; a quoted one separates nothing.
type char struct {
	b      byte
	quoted bool
}

// line reads up to a newline, or to the end of the input, which is not whole.
func (sh *shell) line(raw bool) (line []char, whole bool) {
	var b [1]byte
	quoted := false
	for {
		n, err := sh.p.Read(0, b[:])
		if err == kernel.EINTR {
			sh.runTraps()
			if sh.stop() {
				return line, false
			}
			continue
		}
		if n == 0 || err != nil {
			return line, false
		}
		switch {
		case quoted && b[0] == '\n': // a line that goes on
		case quoted:
			line = append(line, char{b[0], true})
		case b[0] == '\n':
			return line, true
		case b[0] == '\\' && !raw:
			quoted = true
			continue
		case b[0] != 0:
			line = append(line, char{b[0], false})
		}
		quoted = false
	}
}

// split takes a line apart at IFS into at most n fields, the last of which has the
// rest.
func (sh *shell) split(line []char, n int) []string {
	ifs := " \t\n"
	if v := sh.vars["IFS"]; v.Set {
		ifs = v.Str
	}
	separates := func(c char) bool { return !c.quoted && strings.IndexByte(ifs, c.b) >= 0 }
	blank := func(c char) bool { return separates(c) && strings.IndexByte(" \t\n", c.b) >= 0 }
	skip := func() {
		for len(line) > 0 && blank(line[0]) {
			line = line[1:]
		}
	}
	var out []string
	skip()
	for len(line) > 0 {
		if len(out) == n-1 {
			return append(out, rest(line, blank, separates))
		}
		var field []byte
		for len(line) > 0 && !separates(line[0]) {
			field = append(field, line[0].b)
			line = line[1:]
		}
		out = append(out, string(field))
		skip()
		if len(line) > 0 && separates(line[0]) && !blank(line[0]) {
			line = line[1:]
			skip()
		}
	}
	return out
}

// rest is the last field: all that is left, without blanks at its end, and without one
// separator if that is all that follows a single field.
func rest(line []char, blank, separates func(char) bool) string {
	trim := func() {
		for len(line) > 0 && blank(line[len(line)-1]) {
			line = line[:len(line)-1]
		}
	}
	trim()
	if n := len(line); n > 0 && separates(line[n-1]) {
		others := false
		for _, c := range line[:n-1] {
			others = others || separates(c)
		}
		if !others {
			line = line[:n-1]
			trim()
		}
	}
	var b strings.Builder
	for _, c := range line {
		b.WriteByte(c.b)
	}
	return b.String()
}
