package vt

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

func parsed(s string) *Parser {
	p := new(Parser)
	p.Feed([]byte(s))
	return p
}

// What a program has set is set again, and nothing else.
func TestRestore(t *testing.T) {
	const plain = "\x1b[m\x1b(B\x1b)B\x0f"
	for _, test := range []struct{ name, in, want string }{
		{"nothing", "hello\r\n\x1b[1;31mred\x1b[m", plain},
		{"alternate screen", "\x1b[?1049h", "\x1b[?1049h" + plain},
		{"and back", "\x1b[?1049h x \x1b[?1049l", plain},
		{"old alternate screen", "\x1b[?47h", "\x1b[?47h" + plain},
		{"several in one", "\x1b[?25;7l\x1b[?1002;1006h", plain + "\x1b[?7l\x1b[?25l\x1b[?1002h\x1b[?1006h"},
		{"set and reset", "\x1b[?2004h\x1b[?2004l\x1b[?1h", plain + "\x1b[?1h"},
		{"keypad", "\x1b=", plain + "\x1b="},
		{"line drawing", "\x1b(0", "\x1b[m\x1b(0\x1b)B\x0f"},
		{"shifted", "\x1b)0\x0e", "\x1b[m\x1b(B\x1b)0\x0e"},
		{"full reset", "\x1b[?25l\x1b[?1049h\x1bc", plain},
		{"soft reset", "\x1b[?25l\x1b[?2004h\x1b[!p", plain + "\x1b[?2004h"},
		{"broken off", "\x1b[?25\x18l\x1b[?1\x1b[?5h", plain + "\x1b[?5h"},
		{"in a title", "\x1b]0;\x1b[?25l\x07", plain + "\x1b[?25l"}, // an ESC ends a string
		{"in a string", "\x1bP[?25l\x1b\\", plain},
		{"no private mode", "\x1b[25l\x1b[4h", plain + "\x1b[4h"},
		{"region and origin", "\x1b[05;10r\x1b[?6h\x1b[?69h", plain + "\x1b[5;10r\x1b[?6h\x1b[?69h"},
		{"region of the screen", "\x1b[5;10r\x1b[r\x1b[1r", plain},
		{"modified keys", "\x1b[>4;2m\x1b[>1;3m\x1b[>1m\x1b[>2n", plain + "\x1b[>2n\x1b[>4;2m"},
		{"kitty's keys", "\x1b[=2u\x1b[>1u\x1b[>5u\x1b[>u\x1b[<u\x1b[=8;2u", "\x1b[=2u\x1b[>1u\x1b[>13u" + plain},
		{"kitty's keys by screen", "\x1b[>1u\x1b[?1049h\x1b[>3u", "\x1b[>1u\x1b[?1049h\x1b[>3u" + plain},
		{"all popped", "\x1b[>1u\x1b[>1u\x1b[<9u", plain},
		{"held back drawing and a cursor", "\x1b[?2026h\x1b[5 q", plain + "\x1b[?2026h\x1b[5 q"},
		{"C1", "\xc2\x9b?25l\x9b?5h\xe2\x82\x9b?7l", plain + "\x1b[?5h\x1b[?25l"},
		{"unknown", "\x1b[?4711h", plain},
		{"too long", "\x1b[?25l\x1b[?" + string(bytes.Repeat([]byte("1;"), 100)) + "25h", plain + "\x1b[?25l"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(parsed(test.in).Modes.Restore()); got != test.want {
				t.Errorf("%q; want %q", got, test.want)
			}
		})
	}
}

// A point is clean where nothing is begun and not ended.
func TestClean(t *testing.T) {
	for _, test := range []struct {
		in         string
		clean, brk bool
	}{
		{"", true, false},
		{"a", true, false},
		{"a\n", true, true},
		{"\xe2\x82", false, false},
		{"\xe2\x82\xac", true, false},
		{"\xe2\n", true, true}, // what never becomes a character
		{"\x1b", false, false},
		{"\x1b[", false, false},
		{"\x1b[1;3", false, false},
		{"\x1b[1\n", false, false}, // a control character within a sequence
		{"\x1b[1;31m", true, true},
		{"\x1b(", false, false},
		{"\x1b(B", true, true},
		{"\x1bM", true, true},
		{"\x1b]0;title", false, false},
		{"\x1b]0;title\x07", true, true},
		{"\x1b]0;title\x1b", false, false},
		{"\x1b]0;title\x1b\\", true, true},
		{"\x1bPq#0;2\n", false, false},
		{"\x1b]0;\x18", true, false},
		{"\x1b]0;\xe2\x9c\x93", false, false}, // no ST
		{"\x1b]0;x\xc2\x9c", true, true},
		{"\xc2\x9b1", false, false},
	} {
		p := parsed(test.in)
		if p.Clean() != test.clean || p.Break() != test.brk {
			t.Errorf("%q: clean %v, break %v; want %v, %v", test.in, p.Clean(), p.Break(), test.clean, test.brk)
		}
	}
}

// Undo and Reset leave nothing set, whatever was, and Undo of nothing is nothing.
func TestUndo(t *testing.T) {
	const all = "\x1b[?25l\x1b[>2u\x1b[?1049h\x1b[?7l\x1b[?1003h\x1b=\x1b(0\x0e\x1b[>4;2m\x1b[>1u\x1b[5;10r\x1b[4h\x1b[?6h\x1b[?69h\x1b[?2026h\x1b[5 q" +
		"\x1b[31m\x1b]8;;http://x\x07\x1b]4;1;red\x07\x1b]11;blue\x1b\\\x1b]0;half"
	p := parsed(all)
	p.Feed(p.Undo())
	if p.Modes != (Modes{}) || p.look != (look{}) || !p.Clean() {
		t.Errorf("left: %q, %+v", p.Modes.Restore(), p.look)
	}
	for _, plain := range []string{"", "hello\r\n\x1b[1;31mred\x1b[0m$ ", "\x1b[?2004h$ \x1b[?2004l", "\x1b]0;title\x07\x1b]11;?\x07"} {
		if undo := parsed(plain).Undo(); undo != nil {
			t.Errorf("nothing to undo after %q, and %q", plain, undo)
		}
	}
	p = parsed("\x1b[=3u" + all + "\x1b\\" + string(Reset()))
	if p.Modes != (Modes{}) || !p.Clean() {
		t.Errorf("left: %q", p.Modes.Restore())
	}
}

// Each setting is undone by what undoes it, and by nothing else; first what is unfinished is
// cancelled.
func TestUndoEach(t *testing.T) {
	const look = "\x1b[m\x1b(B\x1b)B\x0f"
	for _, test := range []struct{ in, want string }{
		{"\x1b[>4;2m", "\x1b[>4m" + look},
		{"\x1b[>1u", "\x1b[<1u" + look},
		{"\x1b[5;10r", "\x1b7\x1b[r\x1b8" + look},
		{"\x1b[4h", "\x1b[4l" + look},
		{"\x1b[5;10r\x1b[?6h", "\x1b[?6l\x1b[r\x1b[999H\n" + look},
		{"\x1b[?69h", "\x1b[?69l" + look},
		{"\x1b[?2026h", "\x1b[?2026l" + look},
		{"\x1b[5 q", "\x1b[0 q" + look},
		{"\x1b[?1049h", "\x1b[?1049l" + look},
		{"\x1b]0;half", "\x18\x1b\\"},
		{"\x1b[31", "\x18\x1b\\"},
		{"\x1b[31m", "\x1b[m"},
		{"\x1b]8;id=1;http://a.very.long.address/" + strings.Repeat("x", 100) + "\x1b\\", "\x1b]8;;\x1b\\"},
		{"\x1b]8;;http://x\x1b\\\x1b]8;;\x1b\\", ""},
		{"\x1b]12;red\x07", "\x1b]112\x1b\\"},
	} {
		if got := string(parsed(test.in).Undo()); got != test.want {
			t.Errorf("%q: %q; want %q", test.in, got, test.want)
		}
	}
}

// What a late beginning of a replay and a gap in it need fits into what a host takes.
func TestRestoreIsBounded(t *testing.T) {
	const taken = 1 << 10
	in := "\x1b[=31u" + strings.Repeat("\x1b[>31u", 20) + "\x1b[?1049h\x1b[=31u" + strings.Repeat("\x1b[>31u", 20) + "\x1b[65535;65535r\x1b[255 q\x1b="
	for _, m := range tracked {
		in += string(mode(nil, m.number, m.ansi, !m.on))
	}
	for kind := range 8 {
		in += "\x1b[>" + strconv.Itoa(kind) + ";253m"
	}
	if n := len(Reset()) + len(parsed(in).Modes.Restore()); n > taken {
		t.Errorf("%d bytes", n)
	}
}
