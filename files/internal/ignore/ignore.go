// Package ignore reads .gitignore files and answers as git does, in time linear in
// a path: names are bytes, and what git's own matcher makes of odd patterns is part
// of the rules.
package ignore

import (
	"bytes"
	"strings"

	"github.com/berth-dev/berth/files/internal/nfa"
)

// Rules are what one file of patterns says, in its order.
type Rules struct {
	rules []rule
	size  int
}

// Size is about how much memory the rules take, in bytes.
func (r *Rules) Size() int {
	if r == nil {
		return 0
	}
	return r.size
}

// rule is one pattern.
type rule struct {
	negated bool // what it matches is not ignored
	dirOnly bool
	// base: the pattern holds no slash, so that it is about the last element.
	base bool
	// plain is what a path must begin with, byte for byte. Where rest is nil it
	// is all of it; where suffix is set the path must end with it instead.
	plain  string
	suffix bool
	rest   *nfa.Program
}

// Parse reads the patterns of a file. There are no malformed ones: a line that git
// makes nothing of matches nothing. !ok: the rules would take more memory than limit.
func Parse(data []byte, limit int) (r *Rules, ok bool) {
	r = &Rules{}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		// git's lines are C strings.
		if i := bytes.IndexByte(line, 0); i >= 0 {
			line = line[:i]
		}
		if one, ok := parse(trimSpaces(string(line))); ok {
			if r.size += one.size(); r.size > limit {
				return nil, false
			}
			r.rules = append(r.rules, one)
		}
	}
	return r, true
}

// What a rule takes, without its text, and an instruction of its program, with a set.
const (
	ruleBytes = 80
	instBytes = 72
)

func (r *rule) size() int {
	n := ruleBytes + len(r.plain)
	if r.rest != nil {
		n += r.rest.Len() * instBytes
	}
	return n
}

// trimSpaces removes the spaces at the end that no backslash stands before.
func trimSpaces(line string) string {
	end := len(line)
	spaces := -1 // where a run of spaces begins that may be the last
	for i := 0; i < end; i++ {
		switch line[i] {
		case ' ':
			if spaces < 0 {
				spaces = i
			}
		case '\\':
			if i++; i == end {
				return line
			}
			spaces = -1
		default:
			spaces = -1
		}
	}
	if spaces >= 0 {
		return line[:spaces]
	}
	return line
}

// parse reads one pattern; !ok: it matches nothing.
func parse(text string) (r rule, ok bool) {
	text, r.negated = strings.CutPrefix(text, "!")
	whole := text
	text, r.dirOnly = strings.CutSuffix(text, "/")
	r.base = !strings.Contains(text, "/")
	plain := min(plainLen(whole), len(text))
	switch {
	case r.base && plain == len(text):
		r.plain = text
		return r, text != ""
	case r.base && strings.HasPrefix(text, "*") && plainLen(whole[1:]) == len(whole)-1:
		r.plain, r.suffix = text[1:], true
		return r, true
	case r.base:
		r.rest, ok = compile(text, false)
		return r, ok
	}
	if strings.HasPrefix(text, "/") {
		text = text[1:]
		plain--
	}
	r.plain = text[:plain]
	if plain == len(text) {
		return r, text != ""
	}
	// What is behind the plain part is a pattern of its own, in which a double
	// star at the beginning is one even if it stands behind other bytes.
	r.rest, ok = compile(text[plain:], true)
	return r, ok
}

// plainLen is how many bytes stand before the first one with a meaning.
func plainLen(text string) int {
	if i := strings.IndexAny(text, `*?[\`); i >= 0 {
		return i
	}
	return len(text)
}

// Matcher asks rules. It is not safe for concurrent use. The zero value is ready.
type Matcher struct {
	// Done, if set, ends a Match early when it is closed; its answer is void then.
	Done    <-chan struct{}
	machine nfa.Machine
}

// Match reports what the last rule that matches says: ignored or, by an exception,
// not. path is relative to the directory of the file, without a slash at its end. The
// answer is decided only if a rule matches.
func (m *Matcher) Match(r *Rules, path string, dir bool) (ignored, decided bool) {
	base := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(r.rules) - 1; i >= 0; i-- {
		one := &r.rules[i]
		if one.dirOnly && !dir {
			continue
		}
		text := path
		if one.base {
			text = base
		}
		if one.rest != nil {
			select {
			case <-m.Done:
				return false, false
			default:
			}
		}
		if m.matches(one, text) {
			return !one.negated, true
		}
	}
	return false, false
}

func (m *Matcher) matches(r *rule, text string) bool {
	if r.suffix {
		return strings.HasSuffix(text, r.plain)
	}
	if r.rest == nil {
		return text == r.plain
	}
	rest, ok := strings.CutPrefix(text, r.plain)
	return ok && m.machine.Match(r.rest, rest)
}
