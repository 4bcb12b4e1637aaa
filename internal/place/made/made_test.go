package made_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/place/made"
)

// TestTell defends: what is kept is told where it lies, once, and only while it exists; what
// lies elsewhere is kept; many names are counted; and nothing is left when all is told.
func TestTell(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "made")
	at := func(name string) string { return filepath.Join(base, name) }
	var many []string
	for _, root := range []string{"a", "ab", "own"} {
		if err := os.Mkdir(at(root), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", at("link")); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		many = append(many, at(fmt.Sprintf("ab/%02d", i)))
	}
	for _, path := range append([]string{at("a/.envrc"), at("a/gone"), at("own/.envrc")}, many...) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made.Keep(dir, "one", at("own"), []string{at("a/.envrc"), at("a/gone"), at("a/never"), at("own/.envrc"), many[0]})
	made.Keep(dir, "two", at("own"), append(many, at("a/.envrc")))
	if err := os.Remove(at("a/gone")); err != nil {
		t.Fatal(err)
	}
	if text, _ := made.Tell(dir, []string{at("own"), at("none")}); text != "" {
		t.Errorf("told: %q", text)
	}
	for range 2 { // the first one comes to nothing
		text, _ := made.Tell(dir, []string{at("link")})
		if text != at("a/.envrc") {
			t.Errorf("told: %q", text)
		}
	}
	_, told := made.Tell(dir, []string{at("link")})
	told()
	if text, _ := made.Tell(dir, []string{at("a")}); text != "" {
		t.Errorf("told again: %q", text)
	}
	text, told := made.Tell(dir, []string{at("ab")})
	if !strings.HasPrefix(text, many[0]+", "+many[1]) || !strings.HasSuffix(text, many[15]+" and 4 more") {
		t.Errorf("told: %q", text)
	}
	told()
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("something is left: %v", err)
	}
}
