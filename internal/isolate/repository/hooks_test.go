package repository_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/isolate/repository"
)

// TestHooksPaths defends: what git takes for core.hooksPath is found however it is written.
func TestHooksPaths(t *testing.T) {
	for text, want := range map[string][]string{
		"[core]\n\thooksPath = a/b\n":                       {"a/b"},
		"[CORE]\nHOOKSPATH=a\n":                             {"a"},
		"[core] hooksPath = a # that\n":                     {"a"},
		"[core] hooksPath = a ; that":                       {"a"},
		"[core]\nhooksPath = \" a #b\" ; c":                 {" a #b"},
		"[core]\nhooksPath = a\\\\b\\\"c":                   {`a\b"c`},
		"[core]\nhooksPath = a\\\nb":                        {"ab"},
		"[core]\nhooksPath = a b  \n":                       {"a b"},
		"[core]\nhooksPath = a\n[x]\n[core]\nhookspath=b\n": {"a", "b"},
		"[core \"x\"]\nhooksPath = a":                       nil,
		"[other]\nhooksPath = a":                            nil,
		"[core]\nhooksPath":                                 nil,
		"[core]\nhooksPath = ":                              nil,
		"# [core]\nhooksPath = a":                           nil,
	} {
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, repository.HooksPaths(filepath.Join(file, "none"), file, file)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	large := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(large, []byte("[core]\nhooksPath = a\n"+strings.Repeat(" ", 1<<20)), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := repository.HooksPaths(large); got != nil {
		t.Errorf("of a large one: %q", got)
	}
}
