package line

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/spec"
)

// press types keys until one is not taken, and returns how many were, what they show and
// the last signal.
func press(d *Discipline, keys string) (taken int, echo string, sig spec.Signal) {
	for ; taken < len(keys); taken++ {
		s, shown, ok := d.Key(keys[taken])
		if !ok {
			break
		}
		echo += string(shown)
		if s != 0 {
			sig = s
		}
	}
	return taken, echo, sig
}

// read reads all that is ready, each piece in brackets.
func read(d *Discipline) string {
	var out strings.Builder
	buf := make([]byte, 2*maxBytes)
	for {
		n, ok := d.Read(buf)
		if !ok {
			return out.String()
		}
		out.WriteString("[" + string(buf[:n]) + "]")
	}
}

// What is typed is shown, edited and read as on a terminal of Linux.
func TestKeys(t *testing.T) {
	for name, test := range map[string]struct {
		mode       Mode
		keys       string
		echo, read string
		sig        spec.Signal
	}{
		"lines":       {Sane, "a\rb\nc", "a\r\nb\r\nc", "[a\n][b\n]", 0},
		"erase":       {Sane, "\x7fé\x7f\x01\bx\n", "é\b \b^A\b \b\b \bx\r\n", "[x\n]", 0},
		"kill":        {Sane, "ab\x15c\n", "ab\b \b\b \bc\r\n", "[c\n]", 0},
		"end":         {Sane, "ab\x04\x04", "ab", "[ab][]", 0},
		"interrupt":   {Sane, "a\nb\x03c\n", "a\r\nb^Cc\r\n", "[c\n]", spec.SIGINT},
		"quit":        {Sane &^ Echo, "a\x1c", "", "", spec.SIGQUIT},
		"no stop":     {Sane, "a\x1a\n", "a^Z\r\n", "[a\n]", 0},
		"raw":         {Echo, "a\r\x03\x04\x7f\n", "a^M^C^D^?\n", "[a\r\x03\x04\x7f\n]", 0},
		"half raw":    {Sane &^ Canonical, "a\r\x03b", "a\r\n^Cb", "[b]", spec.SIGINT},
		"no echo":     {Sane &^ Echo, "a\x7fb\n", "", "[b\n]", 0},
		"one newline": {Sane &^ Newline, "a\n", "a\n", "[a\n]", 0},
		"no change":   {Sane &^ CarriageReturn, "a\rb\n", "a^Mb\r\n", "[a\rb\n]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := New()
			d.SetMode(test.mode)
			taken, echo, sig := press(d, test.keys)
			if got := read(d); taken != len(test.keys) || echo != test.echo || got != test.read || sig != test.sig {
				t.Errorf("%d taken, shows %q, reads %q, signal %d; want %q, %q, %d", taken, echo, got, sig, test.echo, test.read, test.sig)
			}
		})
	}
}

// What nobody reads fills the terminal: keys wait then. Of a line that alone is too long the
// rest is dropped, for nobody could read it before its end.
func TestFull(t *testing.T) {
	long := strings.Repeat("x", 2*maxBytes)
	d := New()
	if taken, _, _ := press(d, long+"\n"); taken != len(long)+1 || read(d) != "["+long[:maxBytes-1]+"\n]" {
		t.Errorf("%d of a long line are taken", taken)
	}
	if taken, _, _ := press(d, "line\n"+long); taken != maxBytes-1 {
		t.Errorf("%d are taken behind a line", taken)
	}
	if got := read(d); got != "[line\n]" {
		t.Errorf("read %.20q", got)
	}
	d.SetMode(0) // what was begun can be read now
	if got := read(d); len(got) != maxBytes-1-len("line\n")+len("[]") {
		t.Errorf("%d of the begun line", len(got))
	}
	if taken, _, _ := press(d, long); taken != maxBytes {
		t.Errorf("%d are taken without lines", taken)
	}
}
