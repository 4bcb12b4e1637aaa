// Package vt understands as much of what programs write to a terminal as it takes to begin
// in the middle of it: where a sequence ends, and which modes are set. It draws nothing.
package vt

import "slices"

type state byte

const (
	ground  state = iota
	escape        // after ESC
	inter         // after ESC and an intermediate byte
	csi           // in a control sequence
	text          // in a string: OSC, DCS, SOS, PM, APC
	textEnd       // after ESC in a string
)

const (
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
)

// maxSeq is how much of a sequence is kept to be understood; one that is longer changes
// nothing.
const maxSeq = 64

// Parser reads the output of a program. The zero value is at its beginning. It is a plain
// value: a copy goes on from where the original is.
type Parser struct {
	Modes Modes

	state state
	due   int // bytes that the present character still has
	ended bool
	seq   [maxSeq]byte
	n     int // bytes of the sequence, maxSeq+1 for too many
}

// Feed reads p.
func (p *Parser) Feed(b []byte) {
	for _, c := range b {
		p.Next(c)
	}
}

// Clean reports whether neither a sequence nor a character is begun and not ended.
func (p *Parser) Clean() bool { return p.state == ground && p.due == 0 }

// Break reports whether a line or a sequence has just ended.
func (p *Parser) Break() bool { return p.ended && p.Clean() }

// Next reads one byte.
func (p *Parser) Next(c byte) {
	p.ended = false
	switch {
	case c == can || c == sub:
		p.state, p.due = ground, 0
		return
	case c == esc && p.state != text:
		p.state, p.n, p.due = escape, 0, 0
		p.keep(c)
		return
	case p.state == ground:
		p.plain(c)
		return
	}
	p.keep(c)
	switch p.state {
	case escape:
		p.afterEscape(c)
	case inter:
		if c >= 0x30 && c < 0x7f {
			p.end()
		}
	case csi:
		if c >= 0x40 && c < 0x7f {
			p.end()
		}
	case text:
		switch c {
		case esc:
			p.state = textEnd
		case bel:
			p.end()
		}
	case textEnd: // an ESC has been handled above: it begins a new sequence
		p.afterEscape(c)
	}
}

func (p *Parser) keep(c byte) {
	if p.n < maxSeq {
		p.seq[p.n] = c
	}
	p.n = min(p.n+1, maxSeq+1)
}

// plain reads a byte outside of sequences.
func (p *Parser) plain(c byte) {
	switch {
	case p.due > 0 && c&0xc0 == 0x80:
		p.due--
	case c >= 0xc2 && c < 0xe0:
		p.due = 1
	case c >= 0xe0 && c < 0xf0:
		p.due = 2
	case c >= 0xf0 && c < 0xf5:
		p.due = 3
	default:
		p.due = 0
	}
	switch c {
	case '\n':
		p.ended = true
	case 0x0e, 0x0f: // SO, SI
		p.Modes.shifted = c == 0x0e
	}
}

// afterEscape reads the byte that says what an ESC begins.
func (p *Parser) afterEscape(c byte) {
	switch {
	case p.state == textEnd && c == '\\':
		p.state, p.ended = ground, true
	case c == '[':
		p.begin(csi)
	case c == ']', c == 'P', c == 'X', c == '^', c == '_':
		p.begin(text)
	case c >= 0x20 && c < 0x30:
		p.begin(inter)
	case c >= 0x30 && c < 0x7f:
		p.begin(escape)
		p.end()
	}
	// A control character is obeyed within a sequence.
}

// begin begins a sequence of a kind, of which ESC and the last byte have been read.
func (p *Parser) begin(s state) {
	last := p.seq[min(p.n, maxSeq)-1]
	p.state, p.n = s, 0
	p.keep(esc)
	p.keep(last)
}

// end obeys the sequence that has been read.
func (p *Parser) end() {
	if p.n <= maxSeq {
		p.Modes.obey(p.state, p.seq[:p.n])
	}
	p.state, p.ended = ground, true
}

// Modes are the lasting settings of a terminal that programs change, as they differ from
// those of one that was reset. The zero value is that.
type Modes struct {
	private  uint32 // bits of those in tracked that are not at their default
	screen   uint16 // what has switched to the alternate screen: 47, 1047 or 1049; 0: none has
	keypad   bool
	shifted  bool
	charsets [2]byte // of G0 and G1; 0: ASCII
}

// tracked are the private modes that are known.
var tracked = [...]struct {
	number int
	on     bool // by default
}{
	{1, false},    // cursor keys
	{5, false},    // reverse video
	{7, true},     // wrapping
	{12, false},   // blinking cursor
	{25, true},    // the cursor is visible
	{9, false},    // the mouse: X10
	{1000, false}, // buttons
	{1002, false}, // dragging
	{1003, false}, // any motion
	{1004, false}, // focus
	{1005, false}, // how the mouse is told
	{1006, false},
	{1015, false},
	{1016, false},
	{1007, false}, // the wheel as cursor keys
	{2004, false}, // bracketed paste
}

// obey applies a sequence.
func (m *Modes) obey(s state, seq []byte) {
	last := seq[len(seq)-1]
	switch {
	case s == escape && len(seq) == 2:
		switch last {
		case 'c': // a full reset
			*m = Modes{}
		case '=', '>':
			m.keypad = last == '='
		}
	case s == inter && len(seq) == 3 && (seq[1] == '(' || seq[1] == ')'):
		if last == 'B' {
			last = 0
		}
		m.charsets[seq[1]-'('] = last
	case s == csi && string(seq[2:]) == "!p": // a soft reset
		*m = Modes{screen: m.screen, private: m.private &^ (bit(1) | bit(7) | bit(25))}
	case s == csi && len(seq) > 3 && seq[2] == '?' && (last == 'h' || last == 'l'):
		for _, number := range numbers(seq[3 : len(seq)-1]) {
			m.set(number, last == 'h')
		}
	}
}

func bit(number int) uint32 {
	for i, t := range tracked {
		if t.number == number {
			return 1 << i
		}
	}
	return 0
}

func (m *Modes) set(number int, on bool) {
	switch number {
	case 47, 1047, 1049:
		m.screen = 0
		if on {
			m.screen = uint16(number)
		}
		return
	}
	for i, t := range tracked {
		if t.number == number && on == t.on {
			m.private &^= 1 << i
		} else if t.number == number {
			m.private |= 1 << i
		}
	}
}

// numbers are the parameters of a sequence.
func numbers(p []byte) []int {
	const most = 1 << 16
	var out []int
	n := 0
	for _, c := range p {
		switch {
		case c >= '0' && c <= '9':
			n = min(10*n+int(c-'0'), most)
		default:
			out, n = append(out, n), 0
		}
	}
	return append(out, n)
}

// Restore returns what brings a terminal that was reset, whatever it has drawn with last,
// into these modes.
func (m Modes) Restore() []byte {
	var out []byte
	if m.screen != 0 {
		out = private(out, int(m.screen), true)
	}
	out = append(out, "\x1b[m"...)
	out = m.characters(out)
	for i, t := range tracked {
		if m.private&(1<<i) != 0 {
			out = private(out, t.number, !t.on)
		}
	}
	if m.keypad {
		out = append(out, esc, '=')
	}
	return out
}

// characters sets the character sets.
func (m Modes) characters(out []byte) []byte {
	for i, set := range m.charsets {
		if set == 0 {
			set = 'B'
		}
		out = append(out, esc, '('+byte(i), set)
	}
	if m.shifted {
		return append(out, 0x0e)
	}
	return append(out, 0x0f)
}

// Undo returns what brings a terminal from these modes into those of one that was reset.
// Without any that differ it is empty.
func (m Modes) Undo() []byte {
	if m == (Modes{}) {
		return nil
	}
	var out []byte
	for i, t := range tracked {
		if m.private&(1<<i) != 0 {
			out = private(out, t.number, t.on)
		}
	}
	if m.keypad {
		out = append(out, esc, '>')
	}
	out = Modes{}.characters(append(out, "\x1b[m"...))
	if m.screen != 0 {
		out = private(out, int(m.screen), false)
	}
	return out
}

// Reset returns what brings a terminal from any modes into those of one that was reset.
func Reset() []byte {
	out := []byte("\x1b[?47l\x1b[m\x1b>")
	out = Modes{}.characters(out)
	for _, t := range tracked {
		out = private(out, t.number, t.on)
	}
	return out
}

// private appends the sequence that sets or resets a private mode.
func private(out []byte, number int, on bool) []byte {
	var digits []byte
	for n := number; n > 0; n /= 10 {
		digits = append(digits, byte('0'+n%10))
	}
	slices.Reverse(digits)
	out = append(append(out, "\x1b[?"...), digits...)
	if on {
		return append(out, 'h')
	}
	return append(out, 'l')
}
