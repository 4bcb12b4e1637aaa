package nfa

import "unicode/utf8"

// Machine runs programs. It holds what a run needs and may be used again for
// another program, but not by two goroutines at once. The zero value is ready.
type Machine struct {
	// at is a ring: the threads at the current byte and at the next ones, as
	// far as the widest character reaches.
	at   [utf8.UTFMax + 1]sparse
	todo []Part
}

// sparse is a set of parts that is cleared in no time.
type sparse struct {
	dense []Part
	index []int32 // of a part in dense; meaningless for one that is not there
}

func (s *sparse) reset(n int) {
	s.dense = s.dense[:0]
	if len(s.index) < n {
		s.index = make([]int32, n)
	}
}

func (s *sparse) has(p Part) bool {
	i := s.index[p]
	return int(i) < len(s.dense) && s.dense[i] == p
}

func (s *sparse) add(p Part) {
	s.index[p] = int32(len(s.dense))
	s.dense = append(s.dense, p)
}

// Begin returns the threads of a program that has seen nothing yet.
func (m *Machine) Begin(p *Program) Threads {
	m.prepare(p)
	m.enter(p, &m.at[0], p.start)
	return m.threads(p, &m.at[0])
}

// Match reports whether p matches the whole of text.
func (m *Machine) Match(p *Program, text string) bool {
	m.prepare(p)
	m.enter(p, &m.at[0], p.start)
	return p.Matched(m.run(p, text).dense) != 0
}

// Step returns where threads are after text. A character that begins in text ends
// in it.
func (m *Machine) Step(p *Program, from Threads, text string) Threads {
	if len(from) == 0 {
		return nil
	}
	m.prepare(p)
	for _, t := range from {
		m.at[0].add(t)
	}
	return m.threads(p, m.run(p, text))
}

func (m *Machine) prepare(p *Program) {
	for i := range m.at {
		m.at[i].reset(len(p.insts))
	}
}

// threads copies the parts of s that wait for something.
func (m *Machine) threads(p *Program, s *sparse) Threads {
	var out Threads
	for _, part := range s.dense {
		if p.insts[part].op != opSplit {
			out = append(out, part)
		}
	}
	return out
}

// run takes text, beginning with the threads in m.at[0], and returns those at its
// end.
func (m *Machine) run(p *Program, text string) *sparse {
	for i := range len(text) {
		now := &m.at[i%len(m.at)]
		b := text[i]
		char, width := Char(b), 1
		if b >= utf8.RuneSelf {
			char, width = NextChar(text[i:])
		}
		next, behind := &m.at[(i+1)%len(m.at)], &m.at[(i+width)%len(m.at)]
		for _, part := range now.dense {
			in := &p.insts[part]
			switch in.op {
			case opByte:
				if b == in.b {
					m.enter(p, next, in.next)
				}
			case opNotSlash:
				if b != '/' {
					m.enter(p, next, in.next)
				}
			case opAny:
				m.enter(p, next, in.next)
			case opSet:
				if in.set.Has(b) {
					m.enter(p, next, in.next)
				}
			case opChar:
				if b != '/' {
					m.enter(p, behind, in.next)
				}
			case opClass:
				if in.class.has(char) {
					m.enter(p, behind, in.next)
				}
			}
		}
		now.dense = now.dense[:0]
	}
	return &m.at[len(text)%len(m.at)]
}

// enter adds part to s, and what it leads to without taking a byte.
func (m *Machine) enter(p *Program, s *sparse, part Part) {
	m.todo = append(m.todo[:0], part)
	for len(m.todo) > 0 {
		last := len(m.todo) - 1
		part = m.todo[last]
		m.todo = m.todo[:last]
		if s.has(part) {
			continue
		}
		s.add(part)
		if in := &p.insts[part]; in.op == opSplit {
			m.todo = append(m.todo, in.other, in.next)
		}
	}
}
