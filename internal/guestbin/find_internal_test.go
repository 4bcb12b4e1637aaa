package guestbin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFindGoDistrusts defends that no go command is run which lies, by its name or by
// where that leads, in a directory that commands can write.
func TestFindGoDistrusts(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "work", "bin"), 0o755), os.MkdirAll(filepath.Join(dir, "far"), 0o755),
		os.WriteFile(filepath.Join(dir, "work", "bin", "go"), []byte("#!/bin/sh\n"), 0o755), os.Symlink(filepath.Join(dir, "work", "bin", "go"), filepath.Join(dir, "far", "go")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		path      string
		untrusted []string
		planted   bool
	}{
		"trusted":         {"work/bin", nil, true},
		"another one":     {"work/bin", []string{filepath.Join(dir, "wor")}, true},
		"in the workdir":  {"work/bin", []string{filepath.Join(dir, "work")}, false},
		"the very one":    {"work/bin", []string{filepath.Join(dir, "work", "bin")}, false},
		"leads there":     {"far", []string{filepath.Join(dir, "work")}, false},
		"linked in there": {"far", []string{filepath.Join(dir, "far")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", filepath.Join(dir, tt.path))
			got, err := findGo(tt.untrusted)
			if (err == nil && strings.HasPrefix(got, dir)) != tt.planted {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
