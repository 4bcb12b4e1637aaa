package vt

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mute lets through of old output what is known to draw and to set modes, and nothing else:
// a terminal that is shown a question again would answer, and the answer would be typed. The
// zero value is ready.
type Mute struct {
	parser Parser // of what there was
	shown  Parser // of what was let through
	held   []byte // of the sequence or character that has begun
	long   bool   // it is too long to be held
}

// maxHeld is how long a sequence may be.
const maxHeld = 4 << 10

// Filter appends what of p is to be shown to out: whole characters and sequences.
func (m *Mute) Filter(out, p []byte) []byte {
	for _, c := range p {
		before, due := m.parser.state, m.parser.due
		m.parser.Next(c)
		switch {
		case c == esc && before != text, before == ground && due > 0 && c&0xc0 != 0x80:
			m.drop() // what was begun has been broken off
		case before == textEnd && c != '\\':
			m.drop()
			m.held = append(m.held, esc)
		}
		if m.long = m.long || len(m.held) == maxHeld; !m.long {
			m.held = append(m.held, c)
		}
		if !m.parser.Clean() {
			continue
		}
		if !m.long && shows(m.held) {
			m.shown.Feed(m.held)
			out = append(out, m.held...)
		}
		m.drop()
	}
	return out
}

func (m *Mute) drop() { m.held, m.long = m.held[:0], false }

// Rest ends the replay. It returns what sets the modes that were not let through, and the
// beginning of what is not whole yet.
func (m *Mute) Rest() []byte {
	var out []byte
	for i, t := range tracked {
		if now := m.parser.Modes.set & (1 << i); now != m.shown.Modes.set&(1<<i) {
			out = mode(out, t.number, t.ansi, now != 0 != t.on)
		}
	}
	if !m.long {
		out = append(out, m.held...)
		m.drop()
	}
	return out
}

// Skip returns what of p is to be shown after the replay: all, but for the end of what was
// too long to be held.
func (m *Mute) Skip(p []byte) []byte {
	for m.long && len(p) > 0 {
		c := p[0]
		if c == esc && m.parser.state != text {
			m.drop()
			break
		}
		before := m.parser.state
		m.parser.Next(c)
		p = p[1:]
		switch {
		case before == textEnd && c != '\\':
			m.drop()
			p = append([]byte{esc, c}, p...)
		case m.parser.Clean():
			m.drop()
		}
	}
	return p
}

// shows reports whether a whole character or sequence draws or sets modes, and has a terminal
// say nothing.
func shows(seq []byte) bool {
	if seq[0] != esc {
		r, n := utf8.DecodeRune(seq)
		return n == len(seq) && (r >= 0xa0 && (r != utf8.RuneError || n > 1) || r >= 0x20 && r < 0x7f || r < 0x20 && strings.IndexByte("\a\b\t\n\v\f\r\x0e\x0f", seq[0]) >= 0)
	}
	switch {
	case len(seq) < 2:
		return false
	case seq[1] == '[':
		return len(seq) > 2 && shownControl(parseControl(seq))
	case seq[1] == ']':
		return shownCommand(seq)
	case len(seq) == 2: // the cursor and its place, the keypad, lines, tabs, the reset, character sets
		return strings.IndexByte("6789=>DEHMcno|}~", seq[1]) >= 0
	case len(seq) == 3 && seq[1] == '#': // how large a line is
		return strings.IndexByte("34568", seq[2]) >= 0
	}
	return len(seq) == 3 && strings.IndexByte("()*+-./", seq[1]) >= 0 && seq[2] >= 0x30 && seq[2] < 0x7f // character sets
}

// shownControls are the kinds of control sequences that are shown whatever their parameters.
var shownControls = strings.Fields("@ A B C D E F G H I J K L M P S T X Z ^ ` a b d e f g j k m r s u " +
	"?J ?K ?W >m >n >u <u =u SP@ SPA SPq !p \"q '} '~ *x #{ #} #p #q #P $r $t $v $x $z ${")

// shownControl reports whether a control sequence is shown.
func shownControl(c control) bool {
	switch {
	case c.strange:
		return false
	case c.kind == "h", c.kind == "l", c.kind == "?h", c.kind == "?l":
		ansi, on := len(c.kind) == 1, c.kind[len(c.kind)-1] == 'h'
		return !slices.ContainsFunc(c.numbers, func(n int) bool { return !shownMode(n, ansi, on) })
	case c.kind == "t": // titles are kept, and taken up again
		return c.at(0, 0) == 22 || c.at(0, 0) == 23
	}
	return slices.Contains(shownControls, strings.Replace(c.kind, " ", "SP", 1))
}

// shownMode reports whether a mode is set, or reset, in a replay.
func shownMode(number int, ansi, on bool) bool {
	if !ansi && (screens(number) || number == 1048) {
		return true
	}
	i := slices.IndexFunc(tracked[:], func(t trackedMode) bool { return t.number == number && t.ansi == ansi })
	return i >= 0 && !(on && tracked[i].late)
}

// shownCommand reports whether an operating system command is shown: titles, where we are,
// links, the marks of a shell, and colours.
func shownCommand(seq []byte) bool {
	body, ok := bytes.CutSuffix(seq, []byte{bel})
	if !ok {
		if body, ok = bytes.CutSuffix(seq, []byte{esc, '\\'}); !ok {
			return false
		}
	}
	number, value := command(body)
	if len(value) > 0 && value[0] != ';' || !utf8.Valid(value) || bytes.ContainsFunc(value, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }) {
		return false
	}
	switch number {
	case 0, 1, 2, 7, 8, 133:
		return true
	case 4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 104, 105, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119:
		return !bytes.ContainsRune(value, '?')
	}
	return false
}
