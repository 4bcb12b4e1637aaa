// Package pattern matches paths against patterns in which * ? [] {} and ** have
// the meaning that files.GlobOptions states, in time linear in the path.
package pattern

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/files/internal/nfa"
)

// The limits of what Compile takes.
const (
	MaxBytes = 4096    // of one pattern
	maxTotal = 1 << 16 // of all
)

// Pattern is one pattern or several, of which one has to match.
type Pattern struct{ prog nfa.Program }

// The tags of an end: what may end there.
const (
	tagAny = 1 << iota
	tagDir // a directory only
)

// Compile parses patterns. One that ends with a slash matches directories only;
// "./" before one means nothing.
func Compile(patterns ...string) (*Pattern, error) {
	p := &Pattern{}
	total, start := 0, nfa.Part(-1)
	for _, text := range patterns {
		total += len(text)
		if len(text) > MaxBytes || total > maxTotal {
			return nil, errors.New("the pattern is too long")
		}
		part, err := p.compile(text)
		if err != nil {
			return nil, fmt.Errorf("pattern %.256q: %w", text, err)
		}
		if start >= 0 {
			part = p.prog.Either(start, part)
		}
		start = part
	}
	p.prog.Start(start)
	return p, nil
}

func (p *Pattern) compile(text string) (nfa.Part, error) {
	for strings.HasPrefix(text, "./") && text != "./" {
		text = text[2:]
	}
	switch {
	case strings.IndexByte(text, 0) >= 0:
		return 0, errors.New("a NUL byte, which no name has")
	case strings.HasPrefix(text, "/"):
		return 0, errAbsolute
	}
	parser := parser{text}
	seq, err := parser.sequence(false)
	if err != nil {
		return 0, err
	}
	tag := byte(tagAny | tagDir)
	if n := len(seq); n > 1 && seq[n-1].kind == slash {
		seq, tag = seq[:n-1], tagDir
	}
	if err := check(seq, true, true, false); err != nil {
		return 0, err
	}
	settle(seq, true, true)
	return p.sequence(seq, true, p.prog.End(tag)), nil
}

// sequence makes the part that takes seq, and a slash behind it if asked. To the
// automaton each element of a path has a slash behind it, the last one too: so a
// double star is any number of elements, wherever it stands.
func (p *Pattern) sequence(seq []node, closed bool, next nfa.Part) nfa.Part {
	for i := len(seq) - 1; i >= 0; i-- {
		n := seq[i]
		switch n.kind {
		case slash:
			if closed {
				next = p.prog.Byte('/', next)
			}
			closed = true
			continue
		case doubleStar:
			next, closed = p.prog.Elements(next), false
			continue
		case choice:
			part := p.sequence(n.alts[0], closed, next)
			for _, alt := range n.alts[1:] {
				part = p.prog.Either(part, p.sequence(alt, closed, next))
			}
			next, closed = part, false
			continue
		}
		if closed {
			next, closed = p.prog.Byte('/', next), false
		}
		switch n.kind {
		case literal:
			next = p.prog.Byte(n.b, next)
		case question:
			next = p.prog.Char(next)
		case star:
			next = p.prog.Run(next)
		case class:
			next = p.prog.Class(n.class, next)
		}
	}
	if closed {
		next = p.prog.Byte('/', next)
	}
	return next
}

// State is what a Pattern knows of a path of which some elements have been seen.
type State = nfa.Threads

// Matcher follows paths through a Pattern, element by element. It is not safe for
// concurrent use; its States are.
type Matcher struct {
	pattern *Pattern
	machine nfa.Machine
}

// NewMatcher returns a Matcher of p.
func NewMatcher(p *Pattern) *Matcher { return &Matcher{pattern: p} }

// Begin is the State before the first element.
func (m *Matcher) Begin() State { return m.machine.Begin(&m.pattern.prog) }

// Step is the State after one more element.
func (m *Matcher) Step(s State, elem string) State {
	s = m.machine.Step(&m.pattern.prog, s, elem)
	return m.machine.Step(&m.pattern.prog, s, "/")
}

// Matches reports whether the path matches that ends here.
func (m *Matcher) Matches(s State, dir bool) bool {
	tags := m.pattern.prog.Matched(s)
	return tags&tagAny != 0 || dir && tags&tagDir != 0
}

// Open reports whether longer paths may match.
func (m *Matcher) Open(s State) bool { return m.pattern.prog.Open(s) }

// Only returns the one element that may follow, if there is only one.
func (m *Matcher) Only(s State) (string, bool) { return m.pattern.prog.Literal(s) }

// Match reports whether the whole of a path matches.
func (p *Pattern) Match(path string, dir bool) bool {
	m := NewMatcher(p)
	s := m.Begin()
	for elem := range strings.SplitSeq(path, "/") {
		s = m.Step(s, elem)
	}
	return m.Matches(s, dir)
}
