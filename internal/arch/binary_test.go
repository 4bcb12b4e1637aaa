package arch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoBinary defends that nothing which a command can make is kept: no file that git
// keeps holds a NUL byte, but for the seeds of a fuzzer.
func TestNoBinary(t *testing.T) {
	root := filepath.Join("..", "..")
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for _, name := range names {
		if strings.Contains(name, "testdata/fuzz/") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // about to be removed
		}
		if err != nil {
			t.Error(err)
		}
		if bytes.IndexByte(data, 0) >= 0 {
			t.Errorf("%s is no text", name)
		}
	}
	if len(names) < 100 {
		t.Errorf("git lists %d files only", len(names))
	}
}
