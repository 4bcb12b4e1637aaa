package files_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs"
)

// manyFiles makes a tree of 100,000 empty files in 1,000 directories.
func manyFiles(b *testing.B) string {
	dir := b.TempDir()
	for i := range 1000 {
		sub := fmt.Sprintf("%s/pkg%02d/dir%03d", dir, i%40, i)
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range 100 {
			name := fmt.Sprintf("%s/file%03d.%s", sub, j, []string{"go", "txt", "md", "json"}[j%4])
			if err := os.WriteFile(name, nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	return dir
}

// BenchmarkGlob searches 100,000 files, as find does beside it.
func BenchmarkGlob(b *testing.B) {
	dir := manyFiles(b)
	b.Run("find", func(b *testing.B) {
		for b.Loop() {
			if _, err := exec.Command("find", dir, "-name", "*.go").Output(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, o := range map[string]files.GlobOptions{
		"all":       {},
		"suffix":    {Pattern: "**/*.go"},
		"prefix":    {Pattern: "pkg07/dir007/*.go"},
		"gitignore": {Pattern: "**/*.go", Gitignore: true, Exclude: []string{"**/node_modules"}},
		"metadata":  {Pattern: "**/*.go", Metadata: true},
	} {
		b.Run(name, func(b *testing.B) {
			o.Dir = dir
			for b.Loop() {
				n := 0
				for _, err := range files.Glob(b.Context(), localfs.New("/"), o) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n == 0 {
					b.Fatal("nothing is found")
				}
			}
		})
	}
}
