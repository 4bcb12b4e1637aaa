package pattern_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/berth-dev/berth/files/internal/pattern"
)

// A pattern means what files.GlobOptions says.
func TestMatch(t *testing.T) {
	tests := []struct {
		pattern   string
		yes, no   []string
		directory bool
	}{
		{pattern: "*", yes: []string{"a", ".a", "\xff", "a\nb"}, no: []string{"a/b"}},
		{pattern: "**", yes: []string{"a", "a/b", ".a/.b/c"}},
		{pattern: "a/**", yes: []string{"a", "a/b", "a/b/c"}, no: []string{"b", "ab"}},
		{pattern: "**/b", yes: []string{"b", "a/b", "a/a/b"}, no: []string{"ab", "a/ab", "b/a"}},
		{pattern: "a/**/b", yes: []string{"a/b", "a/x/b", "a/x/y/b"}, no: []string{"ab", "b", "a/xb"}},
		{pattern: "a/**/**/b", yes: []string{"a/b", "a/x/b"}, no: []string{"ab"}},
		{pattern: "a**", yes: []string{"a", "ab"}, no: []string{"a/b"}},
		{pattern: "a**/b", yes: []string{"a/b", "ax/b"}, no: []string{"a/x/b", "ax/y/b"}},
		{pattern: "?", yes: []string{"a", "é", "\xff", "\n"}, no: []string{"", "ab", "éé", "\xff\xff"}},
		{pattern: "a?b", yes: []string{"a€b"}, no: []string{"a/b"}},
		{pattern: "\xc3*", yes: []string{"é", "\xc3"}, no: []string{"\xc4"}},
		{pattern: "[a-c]", yes: []string{"a", "b", "c"}, no: []string{"d", "-", "ab"}},
		{pattern: "[^a-c]", yes: []string{"d", "é", "\xff"}, no: []string{"a", "", "/"}},
		{pattern: "[!a]", yes: []string{"b"}, no: []string{"a"}},
		{pattern: "[\xff]", yes: []string{"\xff"}, no: []string{"\xfe", "ÿ"}},
		{pattern: "[é-ü]x", yes: []string{"öx"}, no: []string{"ax"}},
		{pattern: `[\]a\-]`, yes: []string{"]", "a", "-"}, no: []string{`\`}},
		{pattern: "[-a]", yes: []string{"-", "a"}},
		{pattern: "[a-]", yes: []string{"-", "a"}},
		{pattern: "a[/]b", no: []string{"a/b"}},
		{pattern: "{a,b}", yes: []string{"a", "b"}, no: []string{"c", "ab", "{a,b}"}},
		{pattern: "x{a,b{c,d},}y", yes: []string{"xay", "xbcy", "xbdy", "xy"}, no: []string{"xby"}},
		{pattern: "{src,test}/**/*.go", yes: []string{"src/a.go", "test/x/y.go"}, no: []string{"a.go", "doc/a.go"}},
		{pattern: "{a/**,b}/c", yes: []string{"a/c", "a/x/c", "b/c"}, no: []string{"c", "b/x/c"}},
		{pattern: "{,src/}**/x", yes: []string{"x", "src/x", "src/a/x", "b/x"}},
		{pattern: "a{/b,}", yes: []string{"a", "a/b"}, no: []string{"a/", "ab"}},
		{pattern: "[{]a,b}", no: []string{"a"}},
		{pattern: `\*`, yes: []string{"*"}, no: []string{"a"}},
		{pattern: `\{a,b\}`, yes: []string{"{a,b}"}, no: []string{"a"}},
		{pattern: "a,b", yes: []string{"a,b"}, no: []string{"a"}},
		{pattern: "./a", yes: []string{"a"}},
		{pattern: "*/", directory: true, yes: []string{"a"}, no: []string{"a/b"}},
		{pattern: "*/", no: []string{"a"}},
		{pattern: "**/", directory: true, yes: []string{"a", "a/b"}},
	}
	for _, tt := range tests {
		p, err := pattern.Compile(tt.pattern)
		if tt.pattern == "[{]a,b}" {
			if err == nil {
				t.Errorf("%q: no error for a brace without its partner", tt.pattern)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", tt.pattern, err)
			continue
		}
		for _, path := range tt.yes {
			if !p.Match(path, tt.directory) {
				t.Errorf("%q does not match %q", tt.pattern, path)
			}
		}
		for _, path := range tt.no {
			if p.Match(path, tt.directory) {
				t.Errorf("%q matches %q", tt.pattern, path)
			}
		}
	}
}

// A pattern that is malformed, absolute or holds ".." is refused, and so is one that
// could match nothing because of how it is spelled.
func TestRefused(t *testing.T) {
	for _, text := range []string{
		"", "/", "/a", "//", "a//b", "..", "a/..", "../a", "a/../b", ".", "a/./b", "{..,a}/b", "{/a,b}", "{a/,b}",
		"[", "[a", "[]", "[]a]", "[^]", "[a\\", "{", "{a", "a}", "{a,{b}", `\`, `a\`, "a\x00b", strings.Repeat("a", pattern.MaxBytes+1),
	} {
		if _, err := pattern.Compile(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// Several patterns match what one of them matches.
func TestSeveral(t *testing.T) {
	p, err := pattern.Compile("*.go", "vendor/", "**/x")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][2]bool{"a.go": {true, true}, "vendor": {false, true}, "a/x": {true, true}, "a/b": {false, false}} {
		if got := [2]bool{p.Match(path, false), p.Match(path, true)}; got != want {
			t.Errorf("%q: as a file and as a directory %v, want %v", path, got, want)
		}
	}
}

// Where a pattern leaves no choice the walk looks instead of listing.
func TestOnly(t *testing.T) {
	for text, want := range map[string]string{"a/b/*": "a", `\*x/b`: "*x", "name": "name", "*": "", "a*/b": "", "**/a": "", "{a,b}/c": "", "[a]/b": ""} {
		p, err := pattern.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		m := pattern.NewMatcher(p)
		got, ok := m.Only(m.Begin())
		if got != want || ok != (want != "") {
			t.Errorf("%q: only %q (%v), want %q", text, got, ok, want)
		}
	}
}

// Matching takes time linear in the path, whatever the pattern.
func TestHostilePattern(t *testing.T) {
	for _, text := range []string{strings.Repeat("a*", 2000) + "b", strings.Repeat("**/", 1300) + "b", strings.Repeat("{a,", 800) + strings.Repeat("}", 800), strings.Repeat("{a,a}", 800), strings.Repeat("{*,?}", 800)} {
		p, err := pattern.Compile(text)
		if err != nil {
			t.Fatalf("%.20q: %v", text, err)
		}
		began := time.Now()
		p.Match(strings.Repeat("a", 255), false)
		p.Match(strings.Repeat("a/", 200)+"a", false)
		if d := time.Since(began); d > time.Minute {
			t.Errorf("%.20q...: %v", text, d)
		}
	}
}

// doublestar says what everybody expects. Differences, all of them meant: here a
// class never holds a slash, a run of stars may match nothing at the end of a path, an
// ill-formed byte is not U+FFFD, and a slash at the end finds directories only.
func compare(text, path string) (got, want, comparable bool) {
	p, err := pattern.Compile(text)
	switch {
	case err != nil || !doublestar.ValidatePattern(text):
		return
	case strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//") || path == "":
		return // no path of a walk
	case strings.HasPrefix(text, "./") || strings.HasSuffix(text, "/"):
		return
	case strings.Contains(text, "**/**") || strings.Contains(text, "***") || strings.HasSuffix(text, "*/**"):
		return
	case strings.Contains(text, "[") && strings.Contains(path, "/"):
		return
	case !utf8.ValidString(text) || !utf8.ValidString(path) || strings.Contains(text+path, "\uFFFD"):
		return
	}
	want, err = doublestar.Match(text, path)
	return p.Match(path, false), want, err == nil
}

func FuzzAgainstDoublestar(f *testing.F) {
	for _, seed := range [][2]string{{"a/**/b", "a/x/b"}, {"*.[ch]", "x.c"}, {"a**b", "ab"}, {"**", "a"}, {"{a,}/**", "a"}, {`\*?`, "*é"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		if got, want, ok := compare(text, path); ok && got != want && !bracesWithStars(text) {
			t.Errorf("pattern %q, path %q: %v, doublestar says %v", text, path, got, want)
		}
	})
}

// bracesWithStars: doublestar expands braces as text, so that a double star may come
// to stand alone, or alone no more, by what is in the braces beside it.
func bracesWithStars(text string) bool {
	return strings.Contains(text, "{") && strings.Contains(text, "**")
}

// The same on many small random pairs over an alphabet in which things happen.
func TestAgainstDoublestar(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func(alphabet []string, n int) string {
		var b strings.Builder
		for range 1 + rng.IntN(n) {
			b.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		return b.String()
	}
	compared, wrong := 0, 0
	for range 300_000 {
		text := word([]string{"a", "b", "*", "**", "/", "/", "?", "[ab]", "[^a]", "{a,b}", "{", ",", "}", `\*`, "é", ".", "**/", "/**"}, 8)
		path := word([]string{"a", "b", "/", "a/", "é", ".", "*"}, 7)
		got, want, ok := compare(text, path)
		if ok {
			compared++
		}
		if ok && got != want && !bracesWithStars(text) {
			t.Errorf("pattern %q, path %q: %v, doublestar says %v", text, path, got, want)
			if wrong++; wrong > 20 {
				t.FailNow()
			}
		}
	}
	t.Logf("%d pairs compared", compared)
}
