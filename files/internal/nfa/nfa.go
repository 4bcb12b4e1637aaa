// Package nfa matches bytes against a small non-deterministic automaton, in time
// linear in the text whatever the automaton is. Packages pattern and ignore
// translate their notations into it.
package nfa

import "unicode/utf8"

// Program is an automaton that is complete. It is built from its end: every part
// is made with the part that follows it. A Program is not changed by matching.
type Program struct {
	insts []inst
	start Part
}

// Part is a part of a Program, with all that follows it.
type Part int32

// op is what an instruction takes of the text.
type op uint8

const (
	opMatch    op = iota // nothing: the text ends here
	opSplit              // nothing: goes on at next and at other
	opByte               // the byte b
	opNotSlash           // any byte but a slash
	opAny                // any byte
	opSet                // a byte of set
	opChar               // a character but a slash
	opClass              // a character of class
)

type inst struct {
	op          op
	b           byte // of opByte; of opMatch: the tag
	next, other Part
	set         *Set
	class       *Class
}

// Set is a set of bytes.
type Set [4]uint64

// Add adds the bytes from lo to hi.
func (s *Set) Add(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s[b>>6] |= 1 << (b & 63)
	}
}

// Has reports whether b is in the set.
func (s *Set) Has(b byte) bool { return s[b>>6]&(1<<(b&63)) != 0 }

// Char is a character: a code point, or a byte that belongs to no well-formed
// UTF-8 sequence, which is beyond all code points.
type Char int32

// NextChar returns the first character of text, which is not empty, and its width.
func NextChar(text string) (Char, int) {
	r, width := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && width == 1 {
		return utf8.MaxRune + 1 + Char(text[0]), 1
	}
	return Char(r), width
}

// Class is a set of characters. A slash is never in one.
type Class struct {
	// Ranges hold the first and the last character of each.
	Ranges [][2]Char
	// Not makes it the set of all others.
	Not bool
}

func (c *Class) has(x Char) bool {
	if x == '/' {
		return false
	}
	for _, r := range c.Ranges {
		if r[0] <= x && x <= r[1] {
			return !c.Not
		}
	}
	return c.Not
}

func (p *Program) add(i inst) Part {
	p.insts = append(p.insts, i)
	return Part(len(p.insts) - 1)
}

// Len returns how many instructions the program has so far.
func (p *Program) Len() int { return len(p.insts) }

// End makes the part that ends a text. tag, a bit or several, says which end it is.
func (p *Program) End(tag byte) Part { return p.add(inst{op: opMatch, b: tag}) }

// Start makes part the beginning of the program.
func (p *Program) Start(part Part) { p.start = part }

// Byte makes a part that takes b.
func (p *Program) Byte(b byte, next Part) Part { return p.add(inst{op: opByte, b: b, next: next}) }

// NotSlash makes a part that takes any byte but a slash.
func (p *Program) NotSlash(next Part) Part { return p.add(inst{op: opNotSlash, next: next}) }

// Set makes a part that takes a byte of s.
func (p *Program) Set(s *Set, next Part) Part { return p.add(inst{op: opSet, set: s, next: next}) }

// Char makes a part that takes one character that is no slash.
func (p *Program) Char(next Part) Part { return p.add(inst{op: opChar, next: next}) }

// Class makes a part that takes one character of c.
func (p *Program) Class(c *Class, next Part) Part {
	return p.add(inst{op: opClass, class: c, next: next})
}

// Either makes a part that is a or b.
func (p *Program) Either(a, b Part) Part { return p.add(inst{op: opSplit, next: a, other: b}) }

// Run makes a part that takes any number of bytes, also none, that are no slashes.
func (p *Program) Run(next Part) Part { return p.repeat(opNotSlash, next) }

// Anything makes a part that takes any number of bytes.
func (p *Program) Anything(next Part) Part { return p.repeat(opAny, next) }

func (p *Program) repeat(what op, next Part) Part {
	loop := p.Either(next, 0)
	p.insts[loop].other = p.add(inst{op: what, next: loop})
	return loop
}

// Elements makes a part that takes any number of path elements, also none, each
// with a slash behind it.
func (p *Program) Elements(next Part) Part {
	loop := p.Either(next, 0)
	more := p.Either(p.Byte('/', loop), 0)
	elem := p.NotSlash(more)
	p.insts[more].other = elem
	p.insts[loop].other = elem
	return loop
}

// Threads are the points that a match has reached: none if there is no match any
// more. They belong to one Program and are not changed.
type Threads []Part

// Literal returns the bytes up to a slash that threads of p must see next, if
// there are only these.
func (p *Program) Literal(threads Threads) (string, bool) {
	if len(threads) != 1 {
		return "", false
	}
	var name []byte
	for at := threads[0]; ; at = p.insts[at].next {
		switch i := p.insts[at]; {
		case i.op != opByte:
			return "", false
		case i.b == '/':
			return string(name), true
		default:
			name = append(name, i.b)
		}
	}
}

// Matched returns the tags of the ends that threads have reached, or 0.
func (p *Program) Matched(threads Threads) byte {
	var tags byte
	for _, t := range threads {
		if in := &p.insts[t]; in.op == opMatch {
			tags |= in.b
		}
	}
	return tags
}

// Open reports whether threads can match more text.
func (p *Program) Open(threads Threads) bool {
	for _, t := range threads {
		if p.insts[t].op != opMatch {
			return true
		}
	}
	return false
}
