// Package vt understands as much of what programs write to a terminal as it takes to begin
// in the middle of it and to leave it there: where a sequence ends, which modes are set, and
// what of old output is safe to show again. It draws nothing.
//
// A control of the C1 set is one in UTF-8 (U+0080 to U+009F) and as a byte that belongs to no
// character.
package vt

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

// maxSeq is how much of a sequence is kept to be understood; a control sequence that is
// longer changes nothing.
const maxSeq = 64

// Parser reads the output of a program. The zero value is at its beginning. It is a plain
// value: a copy goes on from where the original is.
type Parser struct {
	Modes Modes

	look  look
	state state
	lead  byte // of the present character
	due   int  // bytes that the present character still has
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
	control := p.character(c)
	switch {
	case c == can || c == sub:
		p.state = ground
		return
	case c == esc && p.state != text:
		p.state, p.n = escape, 0
		p.keep(c)
		return
	case control != 0:
		p.control(control)
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

// character follows the characters that bytes make. Where c completes a C1 control it is
// what follows ESC in the form that has seven bits; 0: it does not.
func (p *Parser) character(c byte) (control byte) {
	switch {
	case p.due > 0 && c&0xc0 == 0x80:
		p.due--
		if p.lead == 0xc2 && c < 0xa0 {
			return c - 0x40
		}
	case c >= 0x80 && c < 0xa0:
		p.due = 0
		return c - 0x40
	case c >= 0xc2 && c < 0xe0:
		p.lead, p.due = c, 1
	case c >= 0xe0 && c < 0xf0:
		p.lead, p.due = c, 2
	case c >= 0xf0 && c < 0xf5:
		p.lead, p.due = c, 3
	default:
		p.due = 0
	}
	return 0
}

// control obeys a C1 control.
func (p *Parser) control(c byte) {
	switch {
	case c == '\\' && p.state == text:
		p.end()
	case c == '[', opensText(c):
		p.n = 0
		p.keep(c)
		p.afterEscape(c)
	default:
		p.state, p.ended = ground, true
	}
}

// plain reads a byte outside of sequences.
func (p *Parser) plain(c byte) {
	switch c {
	case '\n':
		p.ended = true
	case 0x0e, 0x0f: // SO, SI
		p.Modes.shifted = c == 0x0e
	}
}

func opensText(c byte) bool { return c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_' }

// afterEscape reads the byte that says what an ESC begins.
func (p *Parser) afterEscape(c byte) {
	switch {
	case p.state == textEnd && c == '\\':
		p.end()
	case c == '[':
		p.begin(csi)
	case opensText(c):
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
	seq := p.seq[:min(p.n, maxSeq)]
	switch {
	case p.state == text || p.state == textEnd:
		p.look.obeyText(seq)
	case p.n <= maxSeq:
		p.Modes.obey(p.state, seq)
		p.look.obey(p.state, seq)
	}
	p.state, p.ended = ground, true
}

// Undo returns what brings the terminal back to one that was reset: it cancels what is begun
// and not ended, undoes the modes, and what text and links look like. Where a program left
// nothing behind it is empty.
func (p *Parser) Undo() []byte {
	var out []byte
	if p.state != ground {
		out = append(out, can, esc, '\\') // some end a string at ST only
	}
	return p.look.undo(append(out, p.Modes.Undo()...))
}
