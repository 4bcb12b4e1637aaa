package vt

import (
	"bytes"
	"strconv"
)

// Modes are the lasting settings of a terminal that programs change, as they differ from
// those of one that was reset. The zero value is that.
type Modes struct {
	set         uint64 // bits of those in tracked that are not at their default
	screen      uint16 // what has switched to the alternate screen: 47, 1047 or 1049; 0: none has
	top, bottom uint16 // of the region that scrolls; 0: of the screen
	keypad      bool
	shifted     bool
	charsets    [2]byte // of G0 and G1; 0: ASCII
	cursor      uint8   // its shape
	modifiers   [8]uint8
	keys        [2]keyStack // of the main and of the alternate screen
}

// What Modes.modifiers has of a kind of keys, beside one more than the value that was set.
const (
	initial  = 0
	disabled = 255
)

// trackedMode is a mode that is known.
type trackedMode struct {
	number int
	ansi   bool // it is no private one
	on     bool // by default
	late   bool // a terminal reports at once when it is set
}

// tracked are the modes that are known.
var tracked = [...]trackedMode{
	{number: 6}, // the origin is that of the region: first, for it moves the cursor
	{number: 1}, // cursor keys
	{number: 5}, // reverse video
	{number: 7, on: true},
	{number: 8, on: true}, // keys repeat
	{number: 12},          // blinking cursor
	{number: 25, on: true},
	{number: 45},   // wrapping backwards
	{number: 66},   // keypad
	{number: 69},   // margins at the left and the right
	{number: 9},    // the mouse: X10
	{number: 1000}, // buttons
	{number: 1001}, // highlighting
	{number: 1002}, // dragging
	{number: 1003}, // any motion
	{number: 1004, late: true},
	{number: 1005}, // how the mouse is told
	{number: 1006},
	{number: 1015},
	{number: 1016},
	{number: 1007},             // the wheel as cursor keys
	{number: 2004},             // bracketed paste
	{number: 2026},             // nothing is drawn until it is whole
	{number: 2031, late: true}, // dark and light are told
	{number: 2048, late: true}, // sizes are told
	{number: 9001},             // keys as Windows has them
	{number: 2, ansi: true},    // no keys at all
	{number: 4, ansi: true},    // inserting
	{number: 12, ansi: true, on: true},
	{number: 20, ansi: true}, // a line feed begins a line
}

// softly are the modes that a soft reset resets.
var softly = bit(1, false) | bit(6, false) | bit(7, false) | bit(25, false) | bit(69, false) | bit(2, true) | bit(4, true)

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
	case s == csi:
		m.control(parseControl(seq))
	}
}

// control applies a control sequence.
func (m *Modes) control(c control) {
	switch c.kind {
	case "!p": // a soft reset
		*m = Modes{screen: m.screen, set: m.set &^ softly, cursor: m.cursor, modifiers: m.modifiers, keys: m.keys}
	case "h", "l", "?h", "?l":
		ansi, on := len(c.kind) == 1, c.kind[len(c.kind)-1] == 'h'
		for _, number := range c.numbers {
			m.apply(number, ansi, on)
		}
	case "r":
		m.top, m.bottom = uint16(c.at(0, 0)), uint16(c.at(1, 0))
		if m.top <= 1 && m.bottom == 0 {
			m.top = 0
		}
	case " q":
		m.cursor = uint8(min(c.at(0, 0), 255))
	case ">m", ">n":
		m.modify(c)
	case ">u", "<u", "=u":
		m.keys[m.shown()].obey(c)
	}
}

// shown is the index of the screen that is shown.
func (m *Modes) shown() int {
	if m.screen != 0 {
		return 1
	}
	return 0
}

// modify applies a setting of how modified keys are told.
func (m *Modes) modify(c control) {
	kind := c.at(0, 0)
	switch {
	case c.empty && c.kind == ">m":
		m.modifiers = [8]uint8{}
	case c.empty || kind >= len(m.modifiers):
	case c.kind == ">n":
		m.modifiers[kind] = disabled
	case len(c.numbers) == 1:
		m.modifiers[kind] = initial
	default:
		m.modifiers[kind] = uint8(min(c.at(1, 0)+1, disabled-1))
	}
}

func bit(number int, ansi bool) uint64 {
	for i, t := range tracked {
		if t.number == number && t.ansi == ansi {
			return 1 << i
		}
	}
	return 0
}

// screens reports whether a private mode switches to the alternate screen.
func screens(number int) bool { return number == 47 || number == 1047 || number == 1049 }

func (m *Modes) apply(number int, ansi, on bool) {
	if !ansi && screens(number) {
		m.screen, m.keys[1] = 0, keyStack{}
		if on {
			m.screen = uint16(number)
		}
		return
	}
	for i, t := range tracked {
		switch {
		case t.number != number || t.ansi != ansi:
		case on == t.on:
			m.set &^= 1 << i
		default:
			m.set |= 1 << i
		}
	}
}

// Restore returns what brings a terminal that was reset, whatever it has drawn with last,
// into these modes.
func (m Modes) Restore() []byte {
	out := m.keys[0].restore(nil)
	if m.screen != 0 {
		out = mode(out, int(m.screen), false, true)
		out = m.keys[1].restore(out)
	}
	out = append(out, "\x1b[m"...)
	out = m.characters(out)
	if m.top != 0 || m.bottom != 0 {
		out = strconv.AppendUint(append(out, "\x1b["...), uint64(m.top), 10)
		if out = append(out, ';'); m.bottom != 0 {
			out = strconv.AppendUint(out, uint64(m.bottom), 10)
		}
		out = append(out, 'r')
	}
	out = settings(out, m.set, true)
	if m.cursor != 0 {
		out = append(strconv.AppendUint(append(out, "\x1b["...), uint64(m.cursor), 10), " q"...)
	}
	for kind, value := range m.modifiers {
		switch value {
		case initial:
		case disabled:
			out = append(out, "\x1b[>"+strconv.Itoa(kind)+"n"...)
		default:
			out = append(out, "\x1b[>"+strconv.Itoa(kind)+";"+strconv.Itoa(int(value)-1)+"m"...)
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
	if m.screen != 0 {
		out = m.keys[1].undo(out)
		out = mode(out, int(m.screen), false, false)
	}
	out = m.keys[0].undo(out)
	origin := bit(6, false)
	switch region := m.top != 0 || m.bottom != 0; {
	case m.set&origin != 0: // what is kept of the cursor has it too: it goes to the end
		out = append(out, "\x1b[?6l\x1b[r\x1b[999H\n"...)
	case region: // it moves the cursor
		out = append(out, "\x1b7\x1b[r\x1b8"...)
	}
	out = settings(out, m.set&^origin, false)
	if m.cursor != 0 {
		out = append(out, "\x1b[0 q"...)
	}
	for kind, value := range m.modifiers {
		if value != initial {
			out = append(out, "\x1b[>"+strconv.Itoa(kind)+"m"...)
		}
	}
	if m.keypad {
		out = append(out, esc, '>')
	}
	return Modes{}.characters(append(out, "\x1b[m"...))
}

// Reset returns what brings a terminal from any modes into those of one that was reset.
func Reset() []byte {
	out := []byte("\x1b[<16u\x1b[=0u\x1b[?47l\x1b[<16u\x1b[=0u\x1b[m\x1b>\x1b[r\x1b[0 q\x1b[>m")
	out = Modes{}.characters(out)
	return settings(out, 1<<len(tracked)-1, false)
}

// settings appends what changes the modes of some bits from their default, or to it.
func settings(out []byte, bits uint64, change bool) []byte {
	for i, t := range tracked {
		if bits&(1<<i) != 0 {
			out = mode(out, t.number, t.ansi, t.on != change)
		}
	}
	return out
}

// mode appends the sequence that sets or resets a mode.
func mode(out []byte, number int, ansi, on bool) []byte {
	out = append(out, "\x1b["...)
	if !ansi {
		out = append(out, '?')
	}
	out = strconv.AppendInt(out, int64(number), 10)
	if on {
		return append(out, 'h')
	}
	return append(out, 'l')
}

// keyStack is what a program asked for of the keyboard protocol of kitty.
type keyStack struct {
	depth uint8
	flags [8]uint8 // up to that of the depth; the first is what was there before
}

// obey applies the sequence that pushes, pops or changes flags.
func (k *keyStack) obey(c control) {
	const known = 0x1f
	flags := uint8(c.at(0, 0)) & known
	switch c.kind {
	case ">u":
		if int(k.depth) == len(k.flags)-1 { // the oldest is lost
			copy(k.flags[1:], k.flags[2:])
			k.depth--
		}
		k.depth++
		k.flags[k.depth] = flags
	case "<u":
		n := max(c.at(0, 1), 1)
		if n > int(k.depth) {
			*k = keyStack{}
			return
		}
		for ; n > 0; n-- {
			k.flags[k.depth] = 0
			k.depth--
		}
	case "=u":
		switch now := &k.flags[k.depth]; c.at(1, 1) {
		case 1:
			*now = flags
		case 2:
			*now |= flags
		case 3:
			*now &^= flags
		}
	}
}

func (k *keyStack) restore(out []byte) []byte {
	if k.flags[0] != 0 {
		out = append(out, "\x1b[="+strconv.Itoa(int(k.flags[0]))+"u"...)
	}
	for _, flags := range k.flags[1 : k.depth+1] {
		out = append(out, "\x1b[>"+strconv.Itoa(int(flags))+"u"...)
	}
	return out
}

func (k *keyStack) undo(out []byte) []byte {
	if k.depth != 0 {
		out = append(out, "\x1b[<"+strconv.Itoa(int(k.depth))+"u"...)
	}
	if k.flags[0] != 0 {
		out = append(out, "\x1b[=0u"...)
	}
	return out
}

// look is what text looks like that is drawn next, and the colours of the terminal.
type look struct {
	drawn   bool // with other attributes than the default ones
	linked  bool
	palette bool
	colours [10]bool // 10: of text, 11: behind it, 12: of the cursor, ...
}

func (l *look) obey(s state, seq []byte) {
	switch {
	case s == escape && seq[1] == 'c':
		*l = look{}
	case s == csi && seq[len(seq)-1] == 'm':
		if c := parseControl(seq); c.kind == "m" {
			l.drawn = false
			for _, n := range c.numbers {
				l.drawn = l.drawn || n != 0
			}
		}
	}
}

// obeyText applies a string, of which the beginning is there.
func (l *look) obeyText(seq []byte) {
	if seq[1] != ']' {
		return
	}
	number, value := command(bytes.TrimRight(seq, "\a\x1b\\"))
	asks := bytes.IndexByte(value, '?') >= 0
	switch {
	case number == 8:
		_, target, _ := bytes.Cut(bytes.TrimPrefix(value, []byte(";")), []byte(";"))
		l.linked = len(target) > 0
	case number == 104 || number == 105:
		l.palette = l.palette && len(value) > 0
	case asks:
	case number == 4 || number == 5:
		l.palette = true
	case number >= 10 && number < 20:
		for i := number - 10; i <= min(number-11+bytes.Count(value, []byte(";")), len(l.colours)-1); i++ {
			l.colours[i] = true
		}
	case number >= 110 && number < 120:
		l.colours[number-110] = false
	}
}

func (l *look) undo(out []byte) []byte {
	if l.drawn {
		out = append(out, "\x1b[m"...)
	}
	if l.linked {
		out = append(out, "\x1b]8;;\x1b\\"...)
	}
	if l.palette {
		out = append(out, "\x1b]104\x1b\\\x1b]105\x1b\\"...)
	}
	for i, set := range l.colours {
		if set {
			out = append(out, "\x1b]"+strconv.Itoa(110+i)+"\x1b\\"...)
		}
	}
	return out
}
