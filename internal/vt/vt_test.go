package vt

import (
	"bytes"
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
		{"no private mode", "\x1b[25l\x1b[4h", plain},
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
	} {
		p := parsed(test.in)
		if p.Clean() != test.clean || p.Break() != test.brk {
			t.Errorf("%q: clean %v, break %v; want %v, %v", test.in, p.Clean(), p.Break(), test.clean, test.brk)
		}
	}
}

// Undo and Reset leave nothing set.
func TestUndo(t *testing.T) {
	p := parsed("\x1b[?25l\x1b[?1049h\x1b[?7l\x1b[?1003h\x1b=\x1b(0\x0e")
	p.Feed(p.Modes.Undo())
	if p.Modes != (Modes{}) {
		t.Errorf("left: %q", p.Modes.Restore())
	}
	if undo := p.Modes.Undo(); undo != nil {
		t.Errorf("nothing to undo, and %q", undo)
	}
	p = parsed("\x1b[?25l\x1b[?47h\x1b[?7l\x1b[?1003h\x1b=\x1b(0\x0e" + string(Reset()))
	if p.Modes != (Modes{}) || !p.Clean() {
		t.Errorf("left: %q", p.Modes.Restore())
	}
}

// What asks the terminal for an answer is taken out, what draws is not, wherever it is cut.
func TestMute(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"plain\r\n\x1b[1mbold\x1b[m", "plain\r\n\x1b[1mbold\x1b[m"},
		{"a\x1b[cb\x1b[>cc\x1b[0c", "abc"},
		{"a\x1b[6nb\x1b[?6n\x1b[5n", "ab"},
		{"\x1b[>4;2m\x1b[>4n", "\x1b[>4;2m\x1b[>4n"},
		{"\x1b[?2026$p\x1b[?u\x1b[>q", ""},
		{"\x1b[18t\x1b[14t\x1b[21t\x1b[22;0t\x1b[8;24;80t", "\x1b[22;0t\x1b[8;24;80t"},
		{"\x1b]11;?\x07\x1b]10;?\x1b\\\x1b]0;what?\x07", "\x1b]0;what?\x07"},
		{"\x1bP$qm\x1b\\\x1bP+q436f\x1b\\\x1bPq#0\x1b\\", "\x1bPq#0\x1b\\"},
		{"\x1bZ\x05x", "x"},
		{"\x1b[2J\x1b[1;1H\x1b[?25l", "\x1b[2J\x1b[1;1H\x1b[?25l"},
	} {
		for cut := range len(test.in) + 1 {
			var m Mute
			got := m.Filter(nil, []byte(test.in[:cut]))
			got = m.Filter(got, []byte(test.in[cut:]))
			if string(got) != test.want {
				t.Errorf("%q cut at %d: %q; want %q", test.in, cut, got, test.want)
			}
		}
	}
}

// Whatever a program writes, what restores its modes makes the same modes, Mute changes
// nothing but what it takes out, and neither keeps more than its bounds.
func FuzzParser(f *testing.F) {
	for _, s := range []string{"", "a\n", "\x1b[?1049h\x1b[?25l", "\x1b]0;t\x07\x1b(0\x0e", "\x1bP\x1b\x1b\\", "\x1b[?1;2;3;1049;25h\xff\xe2\x82"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var p Parser
		p.Feed(in)
		again := parsed(string(p.Modes.Restore()))
		if again.Modes != p.Modes || !again.Clean() {
			t.Errorf("%q: restored %+v, want %+v", in, again.Modes, p.Modes)
		}
		again.Feed(p.Modes.Undo())
		if again.Modes != (Modes{}) {
			t.Errorf("%q: after Undo %+v", in, again.Modes)
		}
		var m Mute
		shown := m.Filter(nil, in)
		if shown = append(shown, m.Rest()...); len(shown) > len(in) || !subsequence(shown, in) {
			t.Errorf("%q: shown as %q", in, shown)
		}
		if len(m.held) > maxHeld {
			t.Errorf("%d bytes held", len(m.held))
		}
	})
}

func subsequence(sub, all []byte) bool {
	for _, c := range all {
		if len(sub) > 0 && sub[0] == c {
			sub = sub[1:]
		}
	}
	return len(sub) == 0
}
