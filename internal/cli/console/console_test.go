package console

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/berth-dev/berth/spec"
)

// Nothing that comes from a sandbox moves the cursor, sets a title or writes a
// clipboard.
func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcödé 漢字 🚢":    "plain, ünïcödé 漢字 🚢",
		"\x1b]52;c;aGk=\x07":     `\x1b]52;c;aGk=\x07`,
		"a\x1b[2Jb":              `a\x1b[2Jb`,
		"one\ntwo\tthree\r":      `one\x0atwo\x09three\x0d`,
		"\u009b31m":              `\u009b31m`,
		"bad \xff\xc3":           `bad \xff\xc3`,
		"abc\u202edcba":          `abc\u202edcba`,
		"\u2028\u200b\U000e0041": `\u2028\u200b\U000e0041`,
		"\x7f":                   `\x7f`,
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "-", 0: "0s", 1234 * time.Microsecond: "1ms", 10 * time.Second: "10s", 90 * time.Second: "1m30s",
		30 * time.Minute: "30m", time.Hour: "1h", 61 * time.Minute: "1h1m", 10 * time.Hour: "10h", 72 * time.Hour: "3d",
	} {
		if got := Short(d); got != want {
			t.Errorf("Short(%v) = %q, want %q", d, got, want)
		}
	}
}

// A step is shown once it has taken a second, once, and never with --quiet.
func TestProgress(t *testing.T) {
	var out lockedBuffer
	c := &Console{Stderr: &out}
	p := c.Progress("starting the sandbox")
	p.Report(spec.Progress{Step: "quick"})
	p.Report(spec.Progress{Step: "guest: build", Message: "linux/amd64\x1b[2J"})
	for deadline := time.Now().Add(10 * time.Second); out.String() == "" && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	p.Stop()
	p.Stop()
	if want := "berth: guest: build: linux/amd64\\x1b[2J\n"; out.String() != want {
		t.Errorf("shown %q, want %q", out.String(), want)
	}
	if got := describe(spec.Progress{Step: "pull", Done: 50, Total: 200}); got != "pull [#####...............] 25%" {
		t.Errorf("bar %q", got)
	}
	if got := describe(spec.Progress{Step: "pull", Done: 900, Total: 200}); !strings.HasSuffix(got, "100%") {
		t.Errorf("bar past its end %q", got)
	}
	quiet := &Console{Stderr: &out, Quiet: true}
	quiet.Progress("x").Stop()
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 1 << 62: "4.0 EiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

// How far a long step is goes on being told where there is no terminal, more and more
// rarely, and nothing is told of a short one.
func TestPoll(t *testing.T) {
	var out lockedBuffer
	c := &Console{Stderr: &out}
	c.Poll(func() spec.Progress { return spec.Progress{Step: "short", Total: 1} }).Stop()
	done := int64(0)
	p := c.Poll(func() spec.Progress {
		done++
		return spec.Progress{Step: "cp", Message: "files", Done: done, Total: 1000}
	})
	for deadline := time.Now().Add(20 * time.Second); strings.Count(out.String(), "\n") < 2 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	p.Stop()
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "berth: cp: files [....................] 0%") || lines[1] == "" {
		t.Errorf("shown %q", lines)
	}
	c.JSON = true
	c.Poll(func() spec.Progress { return spec.Progress{Step: "cp"} }).Stop()
}

// No control character of what comes out of a place reaches the terminal by way of JSON, which
// says the same all the same.
func TestPrintIsPlain(t *testing.T) {
	for _, text := range []string{"", "a\u00e4\u4e16\U0001f600", "\x1b[31m\x00\x7f", "\u009b31m\u0080x\u009f", "\u009b", "\u00a0", "\xff\x9b"} {
		var out bytes.Buffer
		if err := (&Console{Stdout: &out}).Print(text); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(strings.TrimSuffix(out.String(), "\n"), unicode.IsControl); i >= 0 {
			t.Errorf("%q is printed as %q", text, out.String())
		}
		var back string
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != strings.ToValidUTF8(text, "\ufffd") && utf8.ValidString(text) {
			t.Errorf("%q is read back as %q, %v", text, back, err)
		}
	}
}

// A list that JSON cannot say as text is said in bytes, whole: its order tells which is
// which.
func TestExact(t *testing.T) {
	for _, tt := range []struct {
		list []string
		want [][]byte
	}{
		{nil, nil},
		{[]string{"a", "ä", ""}, nil},
		{[]string{"a", "\xff"}, [][]byte{[]byte("a"), {0xff}}},
	} {
		if got := Exact(tt.list); !slices.EqualFunc(got, tt.want, bytes.Equal) || (got == nil) != (tt.want == nil) {
			t.Errorf("%q: %q, want %q", tt.list, got, tt.want)
		}
	}
}

// A step that has parts is as far as they are together; one that says no more of its size
// keeps what is known.
func TestProgressOfParts(t *testing.T) {
	p := &Progress{}
	for _, next := range []spec.Progress{
		{Step: "pull", Part: "a", Done: 1, Total: 10},
		{Step: "pull", Part: "b", Message: "Waiting"},
		{Step: "pull", Part: "b", Done: 5, Total: 30},
		{Step: "pull", Part: "a", Message: "Pull complete"},
	} {
		p.Report(next)
	}
	if p.now.Done != 15 || p.now.Total != 40 || len(p.parts) != 2 || p.parts[0].Done != 10 {
		t.Errorf("now %+v of %+v", p.now, p.parts)
	}
	if p.Report(spec.Progress{Step: "start"}); p.parts != nil || p.now.Step != "start" {
		t.Errorf("another step: %+v of %+v", p.now, p.parts)
	}
}

// What is told in pieces is shown in lines, and harms no terminal.
func TestLines(t *testing.T) {
	var out strings.Builder
	l := NewLines(&out)
	for _, piece := range []string{"a", "b\r\n\n", "\x1b[2Jc", "\rd"} {
		if _, err := l.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	l.Flush()
	if want := "ab\n\\x1b[2Jc\nd\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
