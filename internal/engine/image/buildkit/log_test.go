package buildkit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
)

// message makes a message of fields: numbers, each with a text, a number or a message.
func message(parts ...any) []byte {
	var out []byte
	for i := 0; i < len(parts); i += 2 {
		number := uint64(parts[i].(int)) << 3
		switch value := parts[i+1].(type) {
		case int:
			out = binary.AppendUvarint(out, number|uint64(varint))
			out = binary.AppendUvarint(out, uint64(value))
		case string:
			out = binary.AppendUvarint(out, number|uint64(length))
			out = append(binary.AppendUvarint(out, uint64(len(value))), value...)
		case []byte:
			out = append(out, message(parts[i], string(value))...)
		}
	}
	return out
}

// told is what a Log makes of messages.
func told(t *testing.T, messages ...[]byte) (lines string, progress []spec.Progress) {
	t.Helper()
	var text strings.Builder
	l := Log{
		Line:     func(line string) { text.WriteString(line) },
		Progress: func(p spec.Progress) { progress = append(progress, p) },
	}
	for _, m := range messages {
		if err := l.Take(m); err != nil {
			t.Fatal(err)
		}
	}
	return text.String(), progress
}

// The log tells of each step its name once, its output line by line as it comes, whether it
// was cached, and its error; the layers of base images go to the progress alone.
func TestLog(t *testing.T) {
	step := func(digest, name string, more ...any) []byte {
		return message(append([]any{1, digest, 3, name}, more...)...)
	}
	wrote := func(digest, text string) []byte { return message(1, digest, 3, 1, 4, text) }
	layer := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	lines, progress := told(
		t,
		message(1, step("a", "one"), 1, step("b", "two\nmore"), 1, step("c", "never")),
		message(1, step("a", "one", 5, "")),
		message(1, step("b", "two\nmore", 5, "")),
		message(3, wrote("a", "1\n2"), 3, wrote("b", "x\r\n"), 3, wrote("nobody's", "y\n"), 99, "from later versions"),
		message(3, wrote("a", "2\nrest")),
		message(1, step("a", "one", 5, "", 6, "")),
		message(1, step("a", "one", 5, "", 6, "")),
		message(1, step("d", "three", 4, 1, 5, "", 6, ""), 1, step("d", "three", 4, 1)),
		message(1, step("b", "two\nmore", 5, "", 6, "", 7, "exit code:\n3")),
		message(2, message(1, layer, 3, "downloading", 4, 5, 5, 3)),
		message(2, message(1, layer, 3, "waiting", 4, -1), 2, message(1, "resolve it", 4, 1, 5, 2)),
		message(4, message(3, "take care")),
	)
	want := "#1 one\n#2 two more\n#1 1\n#2 x\n#3 y\n#1 22\n#1 rest\n#4 three\n#4 CACHED\n#2 ERROR: exit code: 3\nWARNING: take care\n"
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]spec.Progress{
		{Step: "build", Message: "one"},
		{Step: "build", Message: "two more"},
		{Step: "build", Message: "three"},
		{Step: "pull", Part: "0123456789ab", Message: "downloading", Done: 3, Total: 3},
		{Step: "pull", Part: "0123456789ab", Message: "waiting"},
	}, progress); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// An engine that says without end cannot have without end be held.
func TestLogIsBounded(t *testing.T) {
	var most int
	l := Log{Line: func(line string) { most = max(most, len(line)) }}
	for i := range maxSteps + 100 {
		digest := fmt.Sprint(i)
		m := message(1, message(1, digest, 3, strings.Repeat("n", 1<<10), 5, ""), 3, message(1, digest, 4, strings.Repeat("o", 3*maxLine+7)))
		if err := l.Take(m); err != nil {
			t.Fatal(err)
		}
	}
	held := 0
	for _, s := range l.steps {
		held += cap(s.partial)
	}
	if len(l.steps) > maxSteps || most > maxLine+16 || held > 2*maxSteps*maxLine {
		t.Errorf("%d steps, a line of %d bytes, %d bytes held", len(l.steps), most, held)
	}
}

// What is no message is an error, wherever in it the fault is, and never a shorter log.
func TestMalformed(t *testing.T) {
	whole := message(1, message(1, "a", 3, "b", 5, ""), 3, message(1, "a", 4, "text"))
	for cut := 1; cut < len(whole); cut++ {
		if err := (&Log{Line: func(string) {}}).Take(whole[:cut]); err == nil && cut != len(message(1, message(1, "a", 3, "b", 5, ""))) {
			t.Errorf("cut after %d bytes: no error", cut)
		}
	}
	for name, m := range map[string][]byte{
		"field 0":             {0x02, 0x00},
		"number too high":     binary.AppendUvarint(nil, (maxField+1)<<3),
		"group":               {0x0b, 0x0c},
		"wire type 7":         {0x0f},
		"endless varint":      bytes.Repeat([]byte{0xff}, 11),
		"length without end":  append([]byte{0x0a}, bytes.Repeat([]byte{0xff}, 9)...),
		"length over the end": {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"short fixed":         {0x39, 1, 2},
		"a number as a step":  message(1, 7),
		"a number as a name":  message(1, message(3, 7)),
		"text as a number":    message(2, message(4, "x")),
		"a number as output":  message(3, message(4, 7)),
	} {
		if err := (&Log{Line: func(string) {}}).Take(m); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v; want %v", name, err, errMalformed)
		}
	}
}

func FuzzLog(f *testing.F) {
	f.Add(message(1, message(1, "a", 3, "b", 4, 1, 5, "", 6, "", 7, "e"), 3, message(1, "a", 4, "text\nmore")))
	f.Add(message(2, message(1, "sha256:"+strings.Repeat("0", 64), 3, "s", 4, -3, 5, 9), 4, message(3, "w")))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, in []byte) {
		l := Log{
			Line: func(line string) {
				if !strings.HasSuffix(line, "\n") || strings.Count(line, "\n") != 1 || len(line) > maxLine+16 {
					t.Errorf("line %q", line)
				}
			},
			Progress: func(p spec.Progress) {
				if p.Done < 0 || p.Done > p.Total || len(p.Message) > 2*maxText || strings.Contains(p.Message, "\n") {
					t.Errorf("progress %+v", p)
				}
			},
		}
		first := l.Take(in)
		if second := l.Take(in); (first == nil) != (second == nil) {
			t.Errorf("%v, then %v", first, second)
		}
	})
}
