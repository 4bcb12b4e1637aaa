package shellcmd

import (
	"testing"
)

// The keys are found wherever reads cut them, and all else is typed.
func TestScanner(t *testing.T) {
	for _, test := range []struct {
		keys, in, typed string
		detach          bool
	}{
		{"ctrl-p,ctrl-q", "ab\x10\x11cd", "ab", true},
		{"ctrl-p,ctrl-q", "ab\x10cd", "ab\x10cd", false},
		{"ctrl-p,ctrl-q", "\x10\x10\x11", "\x10", true},
		{"ctrl-p,ctrl-q", "a\x10", "a", false},
		{"a,a,b", "aaab", "a", true},
		{"ctrl-@", "x\x00", "x", true},
		{"", "\x10\x11", "\x10\x11", false},
	} {
		keys, err := parseKeys(test.keys)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []int{1, 2, 100} {
			s := scanner{keys: keys}
			var typed []byte
			detach := false
			for in := []byte(test.in); len(in) > 0 && !detach; {
				n := min(step, len(in))
				var part []byte
				part, detach = s.scan(in[:n])
				typed = append(typed, part...)
				in = in[n:]
			}
			if string(typed) != test.typed || detach != test.detach {
				t.Errorf("%q in %q by %d: %q, %v; want %q, %v", test.keys, test.in, step, typed, detach, test.typed, test.detach)
			}
		}
	}
}

// What is no key is refused.
func TestParseKeys(t *testing.T) {
	for _, text := range []string{"ctrl-", "ctrl-pp", "ab", ",", "a,", "ctrl-1", "é"} {
		if keys, err := parseKeys(text); err == nil {
			t.Errorf("%q: %q", text, keys)
		}
	}
	if keys, err := parseKeys("CTRL-],x,ctrl-^"); err != nil || string(keys) != "\x1dx\x1e" {
		t.Errorf("%q, %v", keys, err)
	}
}
