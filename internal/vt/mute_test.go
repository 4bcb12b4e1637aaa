package vt

import (
	"regexp"
	"strings"
	"testing"
)

// Only what is known to draw or to set modes is shown again, wherever it is cut.
func TestMute(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"text", "plain ünï ✓ 🙂\r\n\x1b[1mbold\x1b[38:2::1:2:3mx\x1b[m", "plain ünï ✓ 🙂\r\n\x1b[1mbold\x1b[38:2::1:2:3mx\x1b[m"},
		{"drawing", "\x1b[2J\x1b[1;1H\x1b[3@\x1b[`\x1b[2X\x1b[5b\x1b[5;10r\x1b7\x1b8\x1b(0\x1b#8\x1b[!p\x1b[5 q", "\x1b[2J\x1b[1;1H\x1b[3@\x1b[`\x1b[2X\x1b[5b\x1b[5;10r\x1b7\x1b8\x1b(0\x1b#8\x1b[!p\x1b[5 q"},
		{"modes", "\x1b[?1049;25h\x1b[?7l\x1b[4h\x1b[?2026h", "\x1b[?1049;25h\x1b[?7l\x1b[4h\x1b[?2026h"},
		{"unknown modes", "\x1b[?4711h\x1b[4711h\x1b[?3h\x1b[1h", ""},
		{"modes that report at once", "\x1b[?1004h\x1b[?2031h\x1b[?02048h\x1b[?2048l", "\x1b[?2048l"},
		{"keys", "\x1b[>4;2m\x1b[>4n\x1b[>1u\x1b[<u\x1b[=1;2u", "\x1b[>4;2m\x1b[>4n\x1b[>1u\x1b[<u\x1b[=1;2u"},
		{"titles and links", "\x1b]0;what?\x07\x1b]8;;http://x/?y\x1b\\\x1b]133;A\x07\x1b]7;file:///\x07\x1b]11;red\x07", "\x1b]0;what?\x07\x1b]8;;http://x/?y\x1b\\\x1b]133;A\x07\x1b]7;file:///\x07\x1b]11;red\x07"},
		{"DA1, DA2, DA3", "a\x1b[cb\x1b[>cc\x1b[0c\x1b[=c\x1b[000c", "abc"},
		{"DSR", "a\x1b[6nb\x1b[?6n\x1b[5n\x1b[?996n", "ab"},
		{"DECRQM", "\x1b[?2026$p\x1b[4$p", ""},
		{"kitty keys, XTVERSION, XTSMGRAPHICS, DECREQTPARM", "\x1b[?u\x1b[>q\x1b[?1;1;0S\x1b[x\x1b[1x", ""},
		{"XTQMODKEYS", "\x1b[?4m", ""},
		{"window", "\x1b[18t\x1b[11t\x1b[13t\x1b[14t\x1b[15t\x1b[16t\x1b[19t\x1b[20t\x1b[21t\x1b[021t\x1b[22;0t\x1b[8;24;80t\x1b[23t", "\x1b[22;0t\x1b[23t"},
		{"colours", "\x1b]4;1;?\x07\x1b]10;?\x1b\\\x1b]11;?\x07\x1b]012;?\x07\x1b]10;red;?\x07", ""},
		{"clipboard", "\x1b]52;c;?\x07\x1b]52;c;eA==\x07", ""},
		{"kitty colours, iTerm", "\x1b]21;foreground=?\x1b\\\x1b]1337;ReportCellSize\x07\x1b]L\x07\x1b]\x07\x1b]0x;\x07", ""},
		{"DECRQSS, XTGETTCAP, DCS +Q, sixel", "\x1bP$qm\x1b\\\x1bP+q436f\x1b\\\x1bP+Q436f\x1b\\\x1bPq#0\x1b\\", ""},
		{"kitty graphics, PM, SOS", "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b^x\x1b\\\x1bXx\x1b\\y", "y"},
		{"DECRQPSR, DECRQTSR, checksums, locators", "\x1b[1$w\x1b[1$u\x1b[1;1;1;1;1;1*y\x1b['|\x1b[1'z\x1b[#R\x1b[#S", ""},
		{"DECID, ENQ, S8C1T, no UTF-8", "\x1bZ\x05x\x1b G\x1b%@", "x"},
		{"C1", "\x1b(\x9c\x1b[1\x9ca\xc2\x9b6nb\x9b6nc\xc2\x9ad\x9ae\xc2\x90$qm\xc2\x9cf\x90$qm\x9cg\xc2\x9d11;?\x07h", "abcdefgh"},
		{"no characters", "a\xe2\x82\x1b[1mb\xffc\xc0\x9b6nd\xe0\x82\x9be\xc2", "a\x1b[1mbcde"},
		{"broken off", "\x1b[1\x1b[mx\x1b]0;half\x1b[?25ly\x1b[6\x18n", "\x1b[mx\x1b[?25lyn"},
		{"a control within", "\x1b[6\nn\x1b[1\nm", ""},
		{"too long", "a\x1b[" + strings.Repeat("0", 5000) + "cb\x1bP" + strings.Repeat("x", 5000) + "\x1b\\c\x1b]0;" + strings.Repeat("x", 5000) + "\x1b[1md", "abc\x1b[1md"},
	} {
		for cut := 0; cut <= len(test.in); cut += 1 + len(test.in)/100 {
			var m Mute
			got := m.Filter(nil, []byte(test.in[:cut]))
			got = m.Filter(got, []byte(test.in[cut:]))
			if string(got) != test.want {
				t.Errorf("%s cut at %d: %q; want %q", test.name, cut, got, test.want)
				break
			}
		}
	}
}

// Where the replay ends, the modes are those of the program, and what it has begun goes on;
// what is too long to be held is not shown from its middle.
func TestMuteRest(t *testing.T) {
	long := strings.Repeat("x", 2*maxHeld)
	for _, test := range []struct{ name, old, live, want string }{
		{"nothing", "a", "b", "b"},
		{"late modes", "\x1b[?1004;1000h\x1b[?2048h\x1b[?2048l", "b", "\x1b[?1000h\x1b[?1004hb"},
		{"a sequence", "a\x1b[1", ";31mb", "\x1b[1;31mb"},
		{"a character", "a\xe2\x9c", "\x93b", "\xe2\x9c\x93b"},
		{"a long string", "\x1bPq" + long, long + "\x1b\\b\x1b[6n", "b\x1b[6n"},
		{"one that is broken off", "\x1bPq" + long, long + "\x1b[1mb", "\x1b[1mb"},
		{"a long control", "\x1b[" + strings.Repeat("1", 2*maxHeld), "1\x1b[6n", "\x1b[6n"},
	} {
		var m Mute
		m.Filter(nil, []byte(test.old))
		got := m.Rest()
		for _, c := range []byte(test.live) {
			got = append(got, m.Skip([]byte{c})...)
		}
		if string(got) != test.want {
			t.Errorf("%s: %q; want %q", test.name, got, test.want)
		}
	}
}

// allowed is what a filtered replay is made of, told in another way than the code does it.
var allowed = regexp.MustCompile("^(?:" + strings.Join([]string{
	`[\x07-\x0f\x20-\x7e\x{a0}-\x{10ffff}]`,
	`\x1b[6-9=>DEHMcno|}~]`,
	`\x1b#[34568]`,
	`\x1b[()*+\-./][0-~]`,
	`\x1b\[[0-9:;]*(?:[@A-MPSTXZ^` + "`" + `abdefghjklmrsu]| [@Aq]|!p|"q|'[}~]|\*x|#[{}pqP]|\$[rtvxz{])`,
	`\x1b\[0*2[23](?:[:;][0-9:;]*)?t`,
	`\x1b\[\?[0-9:;]*[JKWhl]`,
	`\x1b\[>[0-9:;]*[mnu]`,
	`\x1b\[[<=][0-9:;]*u`,
	`\x1b\]0*(?:0|1|2|7|8|133)(?:;[^\x00-\x1f\x7f-\x{9f}]*)?(?:\x07|\x1b\\)`,
	`\x1b\]0*(?:4|5|1\d|10[45]|11\d)(?:;[^\x00-\x1f\x7f-\x{9f}?]*)?(?:\x07|\x1b\\)`,
}, "|") + ")*$")

// Whatever a program has written: what is shown of it is a part of it, is all shown when it
// is filtered again, holds nothing but what is allowed, and is held in bounds.
func FuzzMute(f *testing.F) {
	for _, s := range []string{"a\xc2\x9b6n", "\x1b]0;\x1b[c\x07", "\x1b[1\x1b[021tx", "\x1b_Ga=q\x1b\\", "\xe2\x1b[c\x9b6n", "\x1b[?1004;25h", "\x1b]8;;x\xc2\x9c\x9c", "\x1b]4;1;?\x07", "\x1b(\x9c", "\x1b[1\xc2\x9c"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var m, again Mute
		shown := m.Filter(nil, in)
		if !subsequence(shown, in) {
			t.Errorf("%q: shown as %q", in, shown)
		}
		if !allowed.Match(shown) {
			t.Errorf("%q: %q is not allowed", in, shown)
		}
		if twice := again.Filter(nil, shown); string(twice) != string(shown) || !again.parser.Clean() {
			t.Errorf("%q: shown as %q, and again as %q", in, shown, twice)
		}
		if len(m.held) > maxHeld {
			t.Errorf("%d bytes held", len(m.held))
		}
		if m.shown.Feed(m.Rest()); m.shown.Modes.set != m.parser.Modes.set {
			t.Errorf("%q: the modes are not those of the program", in)
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

// Whatever a program writes, what restores its modes makes the same modes, and what undoes
// them leaves none.
func FuzzParser(f *testing.F) {
	for _, s := range []string{"", "a\n", "\x1b[?1049h\x1b[?25l", "\x1b]0;t\x07\x1b(0\x0e", "\x1bP\x1b\x1b\\", "\x1b[?1;2;3;1049;25h\xff\xe2\x82", "\x1b[>1u\x1b[<2u\x1b[=3;3u", "\x1b[1;2r\x1b[>4;2m"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var p Parser
		p.Feed(in)
		again := parsed(string(p.Modes.Restore()))
		if again.Modes != p.Modes || !again.Clean() {
			t.Errorf("%q: restored %+v, want %+v", in, again.Modes, p.Modes)
		}
		p.Feed(p.Undo())
		if p.Modes != (Modes{}) || p.look != (look{}) || p.state != ground {
			t.Errorf("%q: after Undo %+v, %+v", in, p.Modes, p.look)
		}
	})
}
