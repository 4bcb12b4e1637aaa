package ignore

import (
	"strings"

	"github.com/berth-dev/berth/files/internal/nfa"
)

// token is one part of a pattern as git's matcher reads it.
type token struct {
	kind tokenKind
	set  nfa.Set // of tokenSet
}

type tokenKind uint8

const (
	tokenSet      tokenKind = iota // one byte
	tokenRun                       // bytes without a slash
	tokenAnything                  // bytes
	tokenElements                  // nothing, or bytes and a slash
)

// compile translates a pattern; !ok: it matches nothing. In one about a path (path)
// stars and classes take no slash.
func compile(text string, path bool) (*nfa.Program, bool) {
	tokens, ok := scan(text, path)
	if !ok {
		return nil, false
	}
	p := &nfa.Program{}
	next := p.End(1)
	for i := len(tokens) - 1; i >= 0; i-- {
		switch t := &tokens[i]; t.kind {
		case tokenSet:
			next = p.Set(&t.set, next)
		case tokenRun:
			next = p.Run(next)
		case tokenAnything:
			next = p.Anything(next)
		case tokenElements:
			next = p.Either(next, p.Anything(p.Byte('/', next)))
		}
	}
	p.Start(next)
	return p, true
}

func scan(text string, path bool) (tokens []token, ok bool) {
	for i := 0; i < len(text); {
		var t token
		switch c := text[i]; c {
		case '*':
			begin := i
			for i < len(text) && text[i] == '*' {
				i++
			}
			t, i = stars(text, begin, i, path)
		case '?':
			t.set.Add(0, 255)
			if path {
				t.set = without(t.set, '/')
			}
			i++
		case '[':
			i, ok = class(text, i, &t.set)
			if !ok {
				return nil, false
			}
			if path {
				t.set = without(t.set, '/')
			}
		case '\\':
			if i++; i == len(text) {
				return nil, false
			}
			c = text[i]
			fallthrough
		default:
			t.set.Add(c, c)
			i++
		}
		tokens = append(tokens, t)
	}
	return tokens, true
}

// stars reads the run of stars text[begin:end] and returns where to go on.
func stars(text string, begin, end int, path bool) (token, int) {
	rest := text[end:]
	alone := begin == 0 || text[begin-1] == '/'
	switch {
	case !path:
		return token{kind: tokenAnything}, end
	case end-begin == 1 || !alone:
		return token{kind: tokenRun}, end
	case strings.HasPrefix(rest, "/"):
		return token{kind: tokenElements}, end + 1
	case rest == "" || strings.HasPrefix(rest, `\/`):
		return token{kind: tokenAnything}, end
	}
	return token{kind: tokenRun}, end
}

func without(s nfa.Set, b byte) nfa.Set {
	s[b>>6] &^= 1 << (b & 63)
	return s
}

// class reads the class that begins at text[i], a bracket, into set and returns
// where it ends. A class without an end, or with an unknown name in it, matches
// nothing, nor does the pattern that it stands in.
func class(text string, i int, set *nfa.Set) (end int, ok bool) {
	at := func(i int) byte { // as in C, a pattern ends with a NUL
		if i < len(text) {
			return text[i]
		}
		return 0
	}
	i++
	negated := at(i) == '!' || at(i) == '^'
	if negated {
		i++
	}
	last := byte(0) // what a range may begin with
	for first := true; first || at(i) != ']'; i++ {
		first = false
		c := at(i)
		switch {
		case c == 0:
			return 0, false
		case c == '\\':
			i++
			if c = at(i); c == 0 {
				return 0, false
			}
			set.Add(c, c)
		case c == '-' && last != 0 && at(i+1) != 0 && at(i+1) != ']':
			i++
			if at(i) == '\\' {
				i++
			}
			if at(i) == 0 {
				return 0, false
			}
			set.Add(last, at(i))
			c = 0
		case c == '[' && at(i+1) == ':':
			name, found := strings.CutSuffix(upTo(text[i+2:], ']'), ":")
			switch {
			case !strings.Contains(text[i+2:], "]"):
				return 0, false
			case !found: // a plain bracket
				set.Add(c, c)
			default:
				if !addNamed(set, name) {
					return 0, false
				}
				i += 2 + len(name) + 1
				c = 0
			}
		default:
			set.Add(c, c)
		}
		last = c
	}
	if negated {
		for w := range set {
			set[w] = ^set[w]
		}
	}
	return i + 1, true
}

func upTo(text string, b byte) string {
	before, _, _ := strings.Cut(text, string([]byte{b}))
	return before
}

// named are the classes that have a name, as runs of bytes. Space and what is
// printed are those of git, whatever the locale.
var named = map[string][]string{
	"alnum":  {"09", "AZ", "az"},
	"alpha":  {"AZ", "az"},
	"blank":  {"  ", "\t\t"},
	"cntrl":  {"\x00\x1f", "\x7f\x7f"},
	"digit":  {"09"},
	"graph":  {"!~"},
	"lower":  {"az"},
	"print":  {" ~"},
	"punct":  {"!/", ":@", "[`", "{~"},
	"space":  {"  ", "\t\n", "\r\r"},
	"upper":  {"AZ"},
	"xdigit": {"09", "AF", "af"},
}

func addNamed(set *nfa.Set, name string) bool {
	for _, run := range named[name] {
		set.Add(run[0], run[1])
	}
	return named[name] != nil
}
