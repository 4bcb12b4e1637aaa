package ignore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/files/internal/ignore"
)

// The last rule that matches decides; where none does nothing is decided.
func TestMatch(t *testing.T) {
	rules, _ := ignore.Parse([]byte("*.log\n!keep.log\nbuild/\n/top\n"), 1<<20)
	var m ignore.Matcher
	for path, want := range map[string][2]bool{
		"a.log":      {true, true},
		"x/keep.log": {false, true},
		"x/top":      {false, false},
		"top":        {true, true},
		"build":      {false, false}, // as a file
		"other":      {false, false},
	} {
		if ignored, decided := m.Match(rules, path, false); ignored != want[0] || decided != want[1] {
			t.Errorf("%q: ignored %v, decided %v; want %v", path, ignored, decided, want)
		}
	}
	if ignored, _ := m.Match(rules, "x/build", true); !ignored {
		t.Errorf("a directory is not ignored")
	}
}

// Matching takes time linear in the path: git's own matcher would take years here.
func TestHostileRules(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("a*", 500) + "b",
		strings.Repeat("a**/", 500) + "b",
		strings.Repeat("**/a/", 500) + "b",
		strings.Repeat("*?", 500) + "b",
		strings.Repeat("[", 5000) + "\n" + strings.Repeat("!", 5000) + "\n" + strings.Repeat("\\", 5001) + "\n" + strings.Repeat(" ", 5000),
	} {
		rules, ok := ignore.Parse([]byte(text), 1<<20)
		if !ok {
			return
		}
		var m ignore.Matcher
		began := time.Now()
		m.Match(rules, strings.Repeat("a", 255), false)
		m.Match(rules, strings.Repeat("a/", 200)+"a", false)
		if d := time.Since(began); d > time.Minute {
			t.Errorf("%.20q...: %v", text, d)
		}
	}
}
