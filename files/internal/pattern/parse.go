package pattern

import (
	"errors"
	"strings"

	"github.com/berth-dev/berth/files/internal/nfa"
)

// kind is what a node of a parsed pattern is.
type kind uint8

const (
	literal    kind = iota // the byte b
	slash                  // a separator of elements
	question               // one character
	star                   // a run of bytes
	doubleStar             // elements
	class                  // one character of class
	choice                 // one of alts
)

type node struct {
	kind  kind
	b     byte
	class *nfa.Class
	alts  [][]node
}

var (
	errEscape = errors.New("a backslash at its end")
	errClass  = errors.New("a class without its end, or an empty one")
	errBrace  = errors.New("a brace without its partner")
)

// parser reads one pattern.
type parser struct{ rest string }

// sequence reads up to the end or, inside braces, to a comma or a closing brace,
// which it leaves.
func (p *parser) sequence(inside bool) ([]node, error) {
	var out []node
	for p.rest != "" {
		c := p.rest[0]
		if inside && (c == ',' || c == '}') {
			return out, nil
		}
		if c == '}' {
			return nil, errBrace
		}
		n, err := p.node()
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	if inside {
		return nil, errBrace
	}
	return out, nil
}

func (p *parser) node() (node, error) {
	c := p.rest[0]
	p.rest = p.rest[1:]
	switch c {
	case '*':
		more := len(p.rest) - len(strings.TrimLeft(p.rest, "*"))
		p.rest = p.rest[more:]
		if more == 1 {
			return node{kind: doubleStar}, nil
		}
		return node{kind: star}, nil
	case '?':
		return node{kind: question}, nil
	case '[':
		cl, err := p.class()
		return node{kind: class, class: cl}, err
	case '{':
		return p.choice()
	case '\\':
		if p.rest == "" {
			return node{}, errEscape
		}
		c = p.rest[0]
		p.rest = p.rest[1:]
	}
	if c == '/' {
		return node{kind: slash}, nil
	}
	return node{kind: literal, b: c}, nil
}

func (p *parser) choice() (node, error) {
	n := node{kind: choice}
	for {
		alt, err := p.sequence(true)
		if err != nil {
			return n, err
		}
		n.alts = append(n.alts, alt)
		end := p.rest[0] == '}'
		p.rest = p.rest[1:]
		if end {
			return n, nil
		}
	}
}

// class reads what follows an opening bracket.
func (p *parser) class() (*nfa.Class, error) {
	c := &nfa.Class{}
	if p.rest != "" && (p.rest[0] == '^' || p.rest[0] == '!') {
		c.Not = true
		p.rest = p.rest[1:]
	}
	last := nfa.Char(-1) // what a range may begin with
	for p.rest != "" && p.rest[0] != ']' {
		if last >= 0 && p.rest[0] == '-' && len(p.rest) > 1 && p.rest[1] != ']' {
			p.rest = p.rest[1:]
			high, err := p.char()
			if err != nil {
				return nil, err
			}
			c.Ranges = append(c.Ranges, [2]nfa.Char{last, high})
			last = -1
			continue
		}
		char, err := p.char()
		if err != nil {
			return nil, err
		}
		c.Ranges = append(c.Ranges, [2]nfa.Char{char, char})
		last = char
	}
	if p.rest == "" || len(c.Ranges) == 0 {
		return nil, errClass
	}
	p.rest = p.rest[1:]
	return c, nil
}

// char reads one character of a class.
func (p *parser) char() (nfa.Char, error) {
	if p.rest[0] == '\\' {
		if p.rest = p.rest[1:]; p.rest == "" {
			return 0, errEscape
		}
	}
	char, width := nfa.NextChar(p.rest)
	p.rest = p.rest[width:]
	return char, nil
}

// settle makes a double star that is no whole element a single one. begins and ends
// say whether the sequence begins and ends an element.
func settle(seq []node, begins, ends bool) {
	for i := range seq {
		last := i == len(seq)-1
		ending := last && ends || !last && seq[i+1].kind == slash
		switch seq[i].kind {
		case doubleStar:
			if !begins || !ending {
				seq[i].kind = star
			}
		case choice:
			for _, alt := range seq[i].alts {
				settle(alt, begins, ending)
			}
		}
		begins = boundary(seq[i], begins)
	}
}

// boundary reports whether an element begins behind n for sure.
func boundary(n node, before bool) bool {
	switch n.kind {
	case slash:
		return true
	case choice:
		for _, alt := range n.alts {
			after := before
			for _, n := range alt {
				after = boundary(n, after)
			}
			if !after {
				return false
			}
		}
		return true
	}
	return false
}

var (
	errAbsolute = errors.New("it is absolute")
	errEmpty    = errors.New("an empty element, which no file has")
	errDots     = errors.New("an element . or .., which no file is found by")
)

// check refuses elements that no path has, so that a pattern that can never match
// is not answered with nothing. nested: the sequence stands in braces.
func check(seq []node, begins, ends, nested bool) error {
	if nested && len(seq) == 0 {
		return nil
	}
	text, plain := "", begins
	for i, n := range seq {
		switch n.kind {
		case slash:
			if err := checkElement(text, plain); err != nil {
				return err
			}
			text, plain = "", true
			continue
		case literal:
			text += string([]byte{n.b})
			continue
		case choice:
			begin := plain && text == ""
			end := i+1 < len(seq) && seq[i+1].kind == slash || i+1 == len(seq) && ends
			for _, alt := range n.alts {
				if err := check(alt, begin, end, true); err != nil {
					return err
				}
			}
		}
		plain = false
	}
	return checkElement(text, plain && ends)
}

func checkElement(text string, plain bool) error {
	switch {
	case !plain:
		return nil
	case text == "":
		return errEmpty
	case text == "." || text == "..":
		return errDots
	}
	return nil
}
